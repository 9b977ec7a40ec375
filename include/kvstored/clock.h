// Time as a seam: the simulator replaces it.
#pragma once

#include <cstdint>

namespace kvstored {

// What the calling thread has had of the machine.
struct ThreadUsage {
  int64_t cpu_us = 0;
  uint64_t preemption_count = 0;  // times that it was put off its CPU though it had work
};

// Thread-safe. The record clock (never going back, docs/protocol.md "Clock") is built on this.
class Clock {
 public:
  virtual ~Clock() = default;
  // Microseconds since the Unix epoch; may jump when an operator sets the time.
  virtual int64_t WallUs() = 0;
  // CLOCK_BOOTTIME microseconds: never goes back, counts while the machine sleeps.
  virtual int64_t MonotonicUs() = 0;
  // Moves when the kernel's timer ticks, each 1 to 10 ms: a fifth of the price. Only to be compared
  // with itself.
  virtual int64_t CoarseUs() {
    return MonotonicUs();
  }
  // About 0.6 us. On a clock that is set by hand the thread always runs.
  virtual ThreadUsage UsageOfThread() {
    return {.cpu_us = MonotonicUs(), .preemption_count = 0};
  }
};

}  // namespace kvstored
