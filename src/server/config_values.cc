// Sizes, durations and addresses: text to number and back, with checked arithmetic.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/str_format.h"
#include "command/numbers.h"
#include "server/config.h"
#include "server/config_text.h"

namespace kvstored::server {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// Longest factor first: formatting takes the first that divides.
constexpr std::array<Unit, 5> kSizeUnits = {{{"TiB", uint64_t{1} << 40},
                                             {"GiB", uint64_t{1} << 30},
                                             {"MiB", uint64_t{1} << 20},
                                             {"KiB", uint64_t{1} << 10},
                                             {"B", 1}}};
constexpr std::array<Unit, 4> kDecimalUnits = {
    {{"TB", 1000000000000}, {"GB", 1000000000}, {"MB", 1000000}, {"KB", 1000}}};
constexpr std::array<Unit, 5> kDurationUnits = {
    {{"h", 3600000000}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}}};

// Splits "8GiB" into 8 and "GiB"; false without digits or beyond 64 bits.
bool SplitNumber(std::string_view text, uint64_t* number, std::string_view* unit) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error != std::errc()) {
    return false;
  }
  *unit = text.substr(static_cast<size_t>(end - text.data()));
  return true;
}

bool Multiply(uint64_t number, uint64_t factor, uint64_t* result) {
  return !__builtin_mul_overflow(number, factor, result);
}

std::string FormatWith(std::span<const Unit> units, uint64_t value) {
  for (const Unit& unit : units) {
    if (value % unit.factor == 0 && value != 0) {
      return absl::StrFormat("%d%s", value / unit.factor, std::string(unit.name));
    }
  }
  return "0";
}

}  // namespace

bool ParseCount(std::string_view text, uint64_t* value) {
  std::string_view rest;
  return SplitNumber(text, value, &rest) && rest.empty();
}

bool ParseSize(std::string_view text, uint64_t* bytes) {
  uint64_t number = 0;
  std::string_view name;
  if (!SplitNumber(text, &number, &name)) {
    return false;
  }
  if (name.empty()) {
    *bytes = number;
    return true;
  }
  for (const Unit& unit : kSizeUnits) {
    if (command::EqualsIgnoreCase(name, unit.name)) {
      return Multiply(number, unit.factor, bytes);
    }
  }
  for (const Unit& unit : kDecimalUnits) {
    if (command::EqualsIgnoreCase(name, unit.name)) {
      return Multiply(number, unit.factor, bytes);
    }
  }
  return false;
}

bool ParseDuration(std::string_view text, uint64_t* duration_us) {
  uint64_t number = 0;
  std::string_view name;
  if (!SplitNumber(text, &number, &name)) {
    return false;
  }
  if (name.empty() && number == 0) {
    *duration_us = 0;
    return true;
  }
  for (const Unit& unit : kDurationUnits) {
    if (name == unit.name) {
      return Multiply(number, unit.factor, duration_us);
    }
  }
  return false;
}

bool ParseNumbers(std::string_view text, std::vector<double>* numbers) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    const auto [stop, error] = std::from_chars(at, end, numbers->emplace_back());
    if (error != std::errc() || (stop != end && *stop != ' ')) {
      return false;
    }
    at = stop;
  }
  return true;
}

bool ParsePercentiles(std::string_view text, std::vector<double>* percentiles) {
  return ParseNumbers(text, percentiles) &&
         std::all_of(percentiles->begin(), percentiles->end(),
                     [](double value) { return value >= 0 && value <= 100; });
}

std::string FormatSize(uint64_t bytes) {
  return FormatWith(kSizeUnits, bytes);
}

std::string FormatDuration(uint64_t duration_us) {
  return FormatWith(kDurationUnits, duration_us);
}

bool IsIpAddress(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool IsHostAndPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return false;
  }
  uint64_t port = 0;
  if (!ParseCount(text.substr(colon + 1), &port) || port == 0 || port > 65535) {
    return false;
  }
  const std::string_view host = text.substr(0, colon);
  if (host.front() == '[') {
    return host.back() == ']' && IsIpAddress(std::string(host.substr(1, host.size() - 2)));
  }
  for (const char c : host) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    if (!allowed) {
      return false;
    }
  }
  return true;
}

}  // namespace kvstored::server
