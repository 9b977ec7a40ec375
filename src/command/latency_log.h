// LatencyLog: what LATENCY tells: for each kind of event the times that were at or above
// latency-monitor-threshold, the longest of each second.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvstored::command {

// Thread-safe: written seldom, when something was slow.
class LatencyLog {
 public:
  struct Sample {
    int64_t unix_s = 0;
    int64_t ms = 0;
  };
  struct Event {
    std::vector<Sample> samples;  // the newest 160, in the order of time
    int64_t longest_ms = 0;       // ever
  };
  void Add(std::string_view event, int64_t unix_s, int64_t ms);
  std::map<std::string, Event> All() const;
  // Forgets these events, or all of them if none is named. Returns how many there were.
  size_t Reset(std::span<const std::string_view> events);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Event, std::less<>> events_;
};

}  // namespace kvstored::command
