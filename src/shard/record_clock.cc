#include "shard/record_clock.h"

#include <algorithm>

namespace kvstored::shard {

void RecordClock::RaiseTo(uint64_t timestamp_us) {
  NowUs();
  const std::lock_guard lock(mutex_);
  now_us_ = std::max(now_us_, static_cast<int64_t>(timestamp_us));
}

void RecordClock::Follow(uint64_t primary_us) {
  const std::lock_guard lock(mutex_);
  following_ = true;
  now_us_ = std::max(now_us_, static_cast<int64_t>(primary_us));
  monotonic_us_ = clock_->MonotonicUs();
}

void RecordClock::StopFollowing() {
  const std::lock_guard lock(mutex_);
  following_ = false;
}

uint64_t RecordClock::NowUs() {
  const std::lock_guard lock(mutex_);
  const int64_t monotonic_us = clock_->MonotonicUs();
  const int64_t wall_us = clock_->WallUs();
  const int64_t elapsed_us = now_us_ == 0 ? 0 : std::max<int64_t>(0, monotonic_us - monotonic_us_);
  monotonic_us_ = monotonic_us;
  if (following_) {
    now_us_ += elapsed_us;
  } else {
    // At least nine tenths of what has passed, however far behind the wall clock is.
    now_us_ = std::max(wall_us, now_us_ + elapsed_us * 9 / 10);
  }
  return static_cast<uint64_t>(now_us_);
}

}  // namespace kvstored::shard
