// CommandClock: how long commands took, without a read of the clock for each. A read costs a
// twentieth of a short command (27 ns of 500; the coarse clock 6 ns), so a batch of short commands
// shares one. A command that takes long is met by the kernel's timer meanwhile, and where the
// timer has moved the clock is read: the time is that command's. See ADR-0011 "One read of the
// clock serves a batch of short commands".
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvstored/clock.h"

namespace kvstored::command {

class CommandClock {
 public:
  explicit CommandClock(Clock* clock) : clock_(clock) {
  }
  // Commands begin to run now. `each`: each of them is to be timed by itself, since somebody wants
  // to know of shorter times than the timer's.
  void Begin(bool each) {
    each_ = each;
    coarse_us_ = clock_->CoarseUs();
    began_us_ = clock_->MonotonicUs();
    moved_ = false;
  }
  // One more has run: is its time to be taken now?
  bool IsDue() {
    if (each_ || each_left_ > 0) {
      return true;
    }
    const int64_t coarse_us = clock_->CoarseUs();
    moved_ = coarse_us != coarse_us_;
    coarse_us_ = coarse_us;
    return moved_;
  }
  struct Lap {
    uint64_t ns = 0;       // of all of them
    bool of_last = false;  // the last one took it, as far as can be told
  };
  // What the `count` commands since Begin or the last Read took.
  Lap Read(size_t count) {
    const int64_t now_us = clock_->MonotonicUs();
    const int64_t took_us = std::max<int64_t>(0, now_us - began_us_);
    began_us_ = now_us;
    const bool long_ones = took_us > kLongUs * static_cast<int64_t>(count);
    // While commands are long a read for each is no matter.
    each_left_ = long_ones ? kEachAfterLong : std::max<int64_t>(0, each_left_ - 1);
    return {.ns = static_cast<uint64_t>(took_us) * 1000, .of_last = moved_ && long_ones};
  }

 private:
  static constexpr int64_t kLongUs = 10;
  static constexpr int64_t kEachAfterLong = 64;

  Clock* const clock_;
  bool each_ = false;
  bool moved_ = false;  // the timer, during the last command
  int64_t each_left_ = 0;
  int64_t coarse_us_ = 0;
  int64_t began_us_ = 0;
};

}  // namespace kvstored::command
