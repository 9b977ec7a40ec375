// The log of the process: one line an event, text or JSON (spdlog). Control path only.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvstored::base {

enum class LogFormat { kText, kJson };

// Call once at start. Level: "debug", "info", "warning", "error".
void InitLog(LogFormat format, std::string_view level);
// Thread-safe.
void SetLogLevel(std::string_view level);

// What only matters to whoever chases a fault: each attempt, each link.
void LogDebug(std::string_view text);
void LogInfo(std::string_view text);
void LogWarning(std::string_view text);
void LogError(std::string_view text);

// Lets one of its callers through per period and counts the others: for faults that repeat.
// Thread-safe.
class LogLimiter {
 public:
  explicit LogLimiter(int64_t period_us) : period_us_(period_us) {
  }
  // Prints "text (N similar ones suppressed)" at most once a period.
  void Warning(std::string_view text);

 private:
  const int64_t period_us_;
  std::atomic<int64_t> next_us_{0};
  std::atomic<uint64_t> suppressed_{0};
};

}  // namespace kvstored::base
