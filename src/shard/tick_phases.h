// TickPhases: which part of a tick took long. A thread that runs shards and connections stands
// still for all of them at once, so each tick above 1 ms is counted by its cause
// (docs/performance.md "Stalls").
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "kvstored/clock.h"
#include "metrics/slot.h"

namespace kvstored::shard {

enum class TickPhase : uint8_t {
  kCommands,     // sockets were read, commands ran on this thread's shards
  kTasks,        // commands of other threads' connections, and what came back from other threads
  kControl,      // work of the node: slices of snapshots, records of the primary, CONFIG
  kParked,       // commands that had waited at their shard
  kEviction,     // items went to make room
  kExpiry,       // expired items were looked for and deleted
  kReclaim,      // memory of deleted items went back, items moved together
  kLog,          // batches were sealed and handed to the log, or written here
  kReplies,      // gates were released, replies went to the sockets, waiting commands ran
  kDescheduled,  // no phase: the kernel ran somebody else on this CPU
};
inline constexpr size_t kTickPhaseCount = 10;
// The cause's name in metrics: "commands", ...
std::string_view NameOf(TickPhase phase);

// Thread: its ShardThread's; the figures may be read by any.
class TickPhases {
 public:
  struct Figures {
    metrics::Counter count;  // ticks above the bound
    metrics::Gauge max_us;   // the longest of them
  };
  static constexpr int64_t kStallUs = 1000;

  explicit TickPhases(Clock* clock) : clock_(clock) {
  }
  // A tick begins: the thread has slept as long as it wanted.
  void Begin();
  // What ran since the last call was of this phase. One read of the clock.
  void End(TickPhase phase);
  // The tick ends with the End before it.
  void Finish();
  // Called at the end of a tick above the bound, with its cause and length.
  void SetOnStall(std::function<void(TickPhase cause, int64_t us)> on_stall) {
    on_stall_ = std::move(on_stall);
  }
  // The last read of the clock.
  int64_t last_us() const {
    return last_us_;
  }
  const Figures& figures(TickPhase cause) const {
    return figures_[static_cast<size_t>(cause)];
  }

 private:
  TickPhase Cause(int64_t elapsed_us) const;

  Clock* const clock_;
  int64_t began_us_ = 0;
  int64_t last_us_ = 0;  // the last End
  int64_t longest_us_ = 0;
  TickPhase longest_ = TickPhase::kCommands;
  // What the thread had used of its CPU at some tick's begin at most 1 ms before this one, and how
  // long it has waited for readiness since: the difference at the end of a long tick says whether
  // the thread ran at all.
  ThreadUsage usage_;
  int64_t usage_us_ = 0;
  int64_t waited_us_ = 0;
  std::function<void(TickPhase, int64_t)> on_stall_;
  std::array<Figures, kTickPhaseCount> figures_;
};

}  // namespace kvstored::shard
