#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>

namespace kvstored::base {
namespace {

std::atomic<bool> json_format{false};

// JSON needs its quotes, backslashes and control characters escaped.
std::string Escaped(std::string_view text) {
  if (!json_format.load(std::memory_order_relaxed)) {
    return std::string(text);
  }
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
  return out;
}

void Write(spdlog::level::level_enum level, std::string_view text) {
  spdlog::log(level, "{}", Escaped(text));
}

}  // namespace

void InitLog(LogFormat format, std::string_view level) {
  auto logger = spdlog::get("kvstored");
  if (!logger) {
    logger = spdlog::stderr_logger_mt("kvstored");
  }
  json_format = format == LogFormat::kJson;
  logger->set_pattern(format == LogFormat::kJson
                          ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})"
                          : "%Y-%m-%d %H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(logger);
}

void SetLogLevel(std::string_view level) {
  spdlog::set_level(spdlog::level::from_str(std::string(level)));
}

void LogDebug(std::string_view text) {
  Write(spdlog::level::debug, text);
}
void LogInfo(std::string_view text) {
  Write(spdlog::level::info, text);
}
void LogWarning(std::string_view text) {
  Write(spdlog::level::warn, text);
}
void LogError(std::string_view text) {
  Write(spdlog::level::err, text);
}

void LogLimiter::Warning(std::string_view text) {
  const int64_t now_us = std::chrono::duration_cast<std::chrono::microseconds>(
                             std::chrono::steady_clock::now().time_since_epoch())
                             .count();
  int64_t next_us = next_us_.load(std::memory_order_relaxed);
  if (now_us < next_us ||
      !next_us_.compare_exchange_strong(next_us, now_us + period_us_, std::memory_order_relaxed)) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const uint64_t suppressed = suppressed_.exchange(0, std::memory_order_relaxed);
  std::string line(text);
  if (suppressed > 0) {
    line += " (" + std::to_string(suppressed) + " similar ones suppressed)";
  }
  LogWarning(line);
}

}  // namespace kvstored::base
