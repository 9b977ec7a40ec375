// RecordClock: the one clock of record timestamps, TTLs and expiry (docs/protocol.md "Clock"). It
// never goes back: it starts at max(wall clock, newest timestamp in log or checkpoint), runs on
// CLOCK_BOOTTIME, follows forward jumps of the wall clock and takes backward ones by running 10 %
// slow.
#pragma once

#include <cstdint>
#include <mutex>

#include "kvstored/clock.h"

namespace kvstored::shard {

// Thread-safe; called once a tick, not once an operation.
class RecordClock {
 public:
  explicit RecordClock(Clock* clock) : clock_(clock) {
  }

  // Raises the clock to at least this (newest timestamp found by recovery, or the primary's clock
  // as a replica was told it).
  void RaiseTo(uint64_t timestamp_us);
  // On a replica the primary's clock rules: it was `primary_us` just now.
  void Follow(uint64_t primary_us);
  void StopFollowing();

  uint64_t NowUs();
  // The clock that it runs on.
  Clock* clock() const {
    return clock_;
  }

 private:
  Clock* const clock_;
  std::mutex mutex_;
  int64_t now_us_ = 0;
  int64_t monotonic_us_ = 0;  // when now_us_ was taken
  bool following_ = false;
};

}  // namespace kvstored::shard
