// Time as a seam: the simulator replaces it.
#pragma once

#include <cstdint>

namespace kvstored {

// Thread-safe. The record clock (never going back, docs/protocol.md "Clock") is built on this.
class Clock {
 public:
  virtual ~Clock() = default;
  // Microseconds since the Unix epoch; may jump when an operator sets the time.
  virtual int64_t WallUs() = 0;
  // CLOCK_BOOTTIME microseconds: never goes back, counts while the machine sleeps.
  virtual int64_t MonotonicUs() = 0;
};

}  // namespace kvstored
