// Time of a simulation: stands still until its scheduler moves it.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "kvstored/clock.h"

namespace kvstored::sim {

// One thread.
class SimClock final : public Clock {
 public:
  explicit SimClock(int64_t wall_us = 1'700'000'000'000'000) : wall_offset_us_(wall_us) {
  }

  int64_t WallUs() override {
    return monotonic_us_ + wall_offset_us_;
  }
  int64_t MonotonicUs() override {
    return monotonic_us_;
  }
  int64_t now_us() const {
    return monotonic_us_;
  }

  void Advance(int64_t by_us) {
    KVS_CHECK(by_us >= 0, "by_us=%lld", static_cast<long long>(by_us));
    monotonic_us_ += by_us;
  }
  // Does nothing when `to_us` (monotonic) is past already.
  void AdvanceTo(int64_t to_us) {
    monotonic_us_ = to_us > monotonic_us_ ? to_us : monotonic_us_;
  }
  // An operator (or ntpd) sets the wall clock, forwards or backwards.
  void JumpWall(int64_t by_us) {
    wall_offset_us_ += by_us;
  }

 private:
  int64_t monotonic_us_ = 1'000'000;
  int64_t wall_offset_us_;
};

}  // namespace kvstored::sim
