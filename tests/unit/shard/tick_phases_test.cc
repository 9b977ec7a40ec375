// Which part of a long tick is blamed.
#include "shard/tick_phases.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace kvstored::shard {
namespace {

// The thread runs on its CPU but for what `absent_us` says.
class UsageClock : public Clock {
 public:
  int64_t WallUs() override {
    return now_us;
  }
  int64_t MonotonicUs() override {
    return now_us;
  }
  ThreadUsage UsageOfThread() override {
    ++usage_reads;
    return {.cpu_us = now_us - absent_us, .preemption_count = preemptions};
  }
  int64_t now_us = 1'000'000;
  int64_t absent_us = 0;
  uint64_t preemptions = 0;
  int usage_reads = 0;
};

class TickPhasesTest : public testing::Test {
 protected:
  TickPhasesTest() {
    phases_.SetOnStall([this](TickPhase cause, int64_t us) { stalls_.emplace_back(cause, us); });
  }
  void Run(TickPhase phase, int64_t us) {
    clock_.now_us += us;
    phases_.End(phase);
  }
  // Time in which the thread is not on its CPU.
  void Away(int64_t us) {
    clock_.now_us += us;
    clock_.absent_us += us;
  }
  UsageClock clock_;
  TickPhases phases_{&clock_};
  std::vector<std::pair<TickPhase, int64_t>> stalls_;
};

TEST_F(TickPhasesTest, TheLongestPhaseIsTheCause) {
  phases_.Begin();
  Run(TickPhase::kCommands, 400);
  Run(TickPhase::kExpiry, 1500);
  Run(TickPhase::kReplies, 300);
  phases_.Finish();
  phases_.Begin();
  Run(TickPhase::kReclaim, 5000);
  Run(TickPhase::kLog, 4999);
  phases_.Finish();
  phases_.Begin();
  Run(TickPhase::kExpiry, 1200);
  phases_.Finish();
  const std::vector<std::pair<TickPhase, int64_t>> expected = {
      {TickPhase::kExpiry, 2200}, {TickPhase::kReclaim, 9999}, {TickPhase::kExpiry, 1200}};
  EXPECT_EQ(stalls_, expected);
  EXPECT_EQ(phases_.figures(TickPhase::kExpiry).count.value(), 2u);
  EXPECT_EQ(phases_.figures(TickPhase::kExpiry).max_us.value(), 2200u);
  EXPECT_EQ(phases_.figures(TickPhase::kReclaim).max_us.value(), 9999u);
  EXPECT_EQ(phases_.figures(TickPhase::kLog).count.value(), 0u);
}

TEST_F(TickPhasesTest, AMillisecondIsNoStall) {
  phases_.Begin();
  Run(TickPhase::kCommands, 600);
  Run(TickPhase::kReplies, 400);
  phases_.Finish();
  EXPECT_TRUE(stalls_.empty());
}

TEST_F(TickPhasesTest, AThreadThatWasPutOffItsCpuIsNotItsPhase) {
  phases_.Begin();
  Away(8000);
  ++clock_.preemptions;
  Run(TickPhase::kCommands, 100);
  phases_.Finish();
  // A short preemption inside a long phase leaves the blame with the phase.
  phases_.Begin();
  Away(1000);
  ++clock_.preemptions;
  Run(TickPhase::kCommands, 4000);
  phases_.Finish();
  // It slept because it wanted to (DEBUG SLEEP).
  phases_.Begin();
  Away(7000);
  Run(TickPhase::kCommands, 10);
  phases_.Finish();
  // Who waits for the device is off the CPU by design.
  phases_.Begin();
  Away(6000);
  ++clock_.preemptions;
  Run(TickPhase::kLog, 10);
  phases_.Finish();
  const std::vector<std::pair<TickPhase, int64_t>> expected = {{TickPhase::kDescheduled, 8100},
                                                               {TickPhase::kCommands, 5000},
                                                               {TickPhase::kCommands, 7010},
                                                               {TickPhase::kLog, 6010}};
  EXPECT_EQ(stalls_, expected);
}

// Between ticks the thread waits for readiness: that is no absence.
TEST_F(TickPhasesTest, WaitingBetweenTicksDoesNotCount) {
  for (int i = 0; i < 9; ++i) {
    phases_.Begin();
    Run(TickPhase::kCommands, 20);
    phases_.Finish();
    Away(80);
  }
  ++clock_.preemptions;
  phases_.Begin();
  Run(TickPhase::kTasks, 1200);
  phases_.Finish();
  ASSERT_EQ(stalls_.size(), 1u);
  EXPECT_EQ(stalls_[0].first, TickPhase::kTasks);
}

TEST_F(TickPhasesTest, ShortTicksReadTheCpuClockOnceAMillisecond) {
  for (int i = 0; i < 1000; ++i) {
    phases_.Begin();
    Run(TickPhase::kCommands, 10);
    phases_.Finish();
  }
  EXPECT_LE(clock_.usage_reads, 11);
}

}  // namespace
}  // namespace kvstored::shard
