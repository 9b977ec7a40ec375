#include "command/numbers.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace kvstored::command {
namespace {

// What Redis accepts at most as text of a float.
constexpr size_t kLongDoubleTextMax = 5 * 1024;

char LowerAscii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string_view ParseInt32(std::string_view text, int64_t* value) {
  if (!ParseInt64(text, value)) {
    return "ERR value is not an integer or out of range";
  }
  if (*value < INT32_MIN || *value > INT32_MAX) {
    return "ERR value is out of range, value must between -2147483648 and 2147483647";
  }
  return {};
}

bool ParseLongDouble(std::string_view text, long double* value) {
  if (text.empty() || text.size() >= kLongDoubleTextMax) {
    return false;
  }
  const std::string copy(text);  // strtold needs the terminator
  if (std::isspace(static_cast<unsigned char>(copy[0])) != 0) {
    return false;
  }
  errno = 0;
  char* stop = nullptr;
  const long double parsed = std::strtold(copy.c_str(), &stop);
  if (stop != copy.c_str() + copy.size() || std::isnan(parsed) || errno == EINVAL) {
    return false;
  }
  const bool out_of_range = errno == ERANGE && (std::isinf(parsed) || parsed == 0.0L);
  if (out_of_range) {
    return false;
  }
  *value = parsed;
  return true;
}

std::string FormatLongDouble(long double value) {
  char buffer[5 * 1024];
  const int written = std::snprintf(buffer, sizeof(buffer), "%.17Lf", value);
  if (written < 0 || static_cast<size_t>(written) >= sizeof(buffer)) {
    return "0";
  }
  std::string_view text(buffer, static_cast<size_t>(written));
  if (text.find('.') != std::string_view::npos) {
    while (text.back() == '0') {
      text.remove_suffix(1);
    }
    if (text.back() == '.') {
      text.remove_suffix(1);
    }
  }
  return text == "-0" ? "0" : std::string(text);
}

bool ParseCursor(std::string_view text, uint64_t* cursor) {
  const std::string copy(text);
  if (std::isspace(static_cast<unsigned char>(copy.c_str()[0])) != 0) {
    return false;
  }
  errno = 0;
  char* stop = nullptr;
  *cursor = std::strtoul(copy.c_str(), &stop, 10);
  return *stop == '\0' && errno != ERANGE;
}

bool AddInt64(int64_t a, int64_t b, int64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (LowerAscii(a[i]) != LowerAscii(b[i])) {
      return false;
    }
  }
  return true;
}

std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = LowerAscii(c);
  }
  return lower;
}

}  // namespace kvstored::command
