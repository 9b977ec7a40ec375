#include "shard/record_clock.h"

#include <gtest/gtest.h>

namespace kvstored::shard {
namespace {

class ManualClock : public Clock {
 public:
  int64_t WallUs() override {
    return wall_us;
  }
  int64_t MonotonicUs() override {
    return monotonic_us;
  }
  void Pass(int64_t us) {
    wall_us += us;
    monotonic_us += us;
  }
  int64_t wall_us = 1'000'000'000;
  int64_t monotonic_us = 5;
};

TEST(RecordClockTest, FollowsTheWallForward) {
  ManualClock clock;
  RecordClock record_clock(&clock);
  EXPECT_EQ(record_clock.NowUs(), 1'000'000'000U);
  clock.Pass(10);
  EXPECT_EQ(record_clock.NowUs(), 1'000'000'010U);
  clock.wall_us += 3'600'000'000;
  EXPECT_EQ(record_clock.NowUs(), 4'600'000'010U);
}

TEST(RecordClockTest, TakesABackwardJumpByRunningSlow) {
  ManualClock clock;
  RecordClock record_clock(&clock);
  const uint64_t start = record_clock.NowUs();
  clock.wall_us -= 1'000'000;
  uint64_t last = start;
  for (int i = 0; i < 200; ++i) {
    clock.Pass(100'000);
    const uint64_t now = record_clock.NowUs();
    EXPECT_GT(now, last);
    EXPECT_LE(now - last, 100'000U);
    last = now;
  }
  EXPECT_EQ(last, static_cast<uint64_t>(clock.wall_us)) << "absorbed";
}

TEST(RecordClockTest, StartsAboveTheNewestTimestamp) {
  ManualClock clock;
  RecordClock record_clock(&clock);
  record_clock.RaiseTo(2'000'000'000);
  EXPECT_GE(record_clock.NowUs(), 2'000'000'000U);
}

TEST(RecordClockTest, AReplicaRunsOnThePrimarysClock) {
  ManualClock clock;
  RecordClock record_clock(&clock);
  record_clock.Follow(3'000'000'000);
  clock.monotonic_us += 500;
  EXPECT_EQ(record_clock.NowUs(), 3'000'000'500U);
  record_clock.Follow(2'000'000'000);
  EXPECT_GE(record_clock.NowUs(), 3'000'000'500U) << "never back";
}

}  // namespace
}  // namespace kvstored::shard
