#include "shard/tick_phases.h"

#include <algorithm>

namespace kvstored::shard {

std::string_view NameOf(TickPhase phase) {
  constexpr std::array<std::string_view, kTickPhaseCount> kNames = {
      "commands", "tasks",   "control", "parked",  "eviction",
      "expiry",   "reclaim", "log",     "replies", "descheduled"};
  return kNames[static_cast<size_t>(phase)];
}

void TickPhases::Begin() {
  began_us_ = clock_->MonotonicUs();
  waited_us_ += began_us_ - last_us_;
  if (began_us_ - usage_us_ >= kStallUs) {
    usage_ = clock_->UsageOfThread();
    usage_us_ = began_us_;
    waited_us_ = 0;
  }
  last_us_ = began_us_;
  longest_us_ = 0;
}

void TickPhases::End(TickPhase phase) {
  const int64_t now_us = clock_->MonotonicUs();
  const int64_t took_us = now_us - last_us_;
  last_us_ = now_us;
  if (took_us > longest_us_) {
    longest_us_ = took_us;
    longest_ = phase;
  }
}

// The log's phase waits for the device by design, off the CPU.
TickPhase TickPhases::Cause(int64_t elapsed_us) const {
  const ThreadUsage usage = clock_->UsageOfThread();
  const int64_t absent_us = last_us_ - usage_us_ - waited_us_ - (usage.cpu_us - usage_.cpu_us);
  const bool preempted = usage.preemption_count != usage_.preemption_count;
  return longest_ != TickPhase::kLog && preempted && absent_us > elapsed_us / 2
             ? TickPhase::kDescheduled
             : longest_;
}

void TickPhases::Finish() {
  const int64_t elapsed_us = last_us_ - began_us_;
  if (elapsed_us <= kStallUs) {
    return;
  }
  const TickPhase cause = Cause(elapsed_us);
  Figures& figures = figures_[static_cast<size_t>(cause)];
  figures.count.Add(1);
  figures.max_us.Set(std::max(figures.max_us.value(), static_cast<uint64_t>(elapsed_us)));
  if (on_stall_) {
    on_stall_(cause, elapsed_us);
  }
}

}  // namespace kvstored::shard
