#include "command/latency_log.h"

#include <algorithm>

namespace kvstored::command {
namespace {

constexpr size_t kSamplesMax = 160;

}  // namespace

void LatencyLog::Add(std::string_view event, int64_t unix_s, int64_t ms) {
  const std::lock_guard lock(mutex_);
  auto found = events_.find(event);
  if (found == events_.end()) {
    found = events_.emplace(std::string(event), Event()).first;
  }
  found->second.longest_ms = std::max(found->second.longest_ms, ms);
  std::vector<Sample>& samples = found->second.samples;
  if (!samples.empty() && samples.back().unix_s == unix_s) {
    samples.back().ms = std::max(samples.back().ms, ms);
    return;
  }
  if (samples.size() == kSamplesMax) {
    samples.erase(samples.begin());
  }
  samples.push_back({.unix_s = unix_s, .ms = ms});
}

std::map<std::string, LatencyLog::Event> LatencyLog::All() const {
  const std::lock_guard lock(mutex_);
  return {events_.begin(), events_.end()};
}

size_t LatencyLog::Reset(std::span<const std::string_view> events) {
  const std::lock_guard lock(mutex_);
  const size_t before = events_.size();
  if (events.empty()) {
    events_.clear();
  }
  for (const std::string_view event : events) {
    if (const auto found = events_.find(event); found != events_.end()) {
      events_.erase(found);
    }
  }
  return before - events_.size();
}

}  // namespace kvstored::command
