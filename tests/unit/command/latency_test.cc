// Times of commands: who is charged what, histograms, LATENCY's texts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "command/command_clock.h"
#include "command/latency_histogram.h"
#include "command/latency_log.h"
#include "command/latency_report.h"
#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

TEST(LatencyHistogram, StepsFollowEachOtherWithoutAGap) {
  for (uint32_t step = 0; step + 1 < kLatencyCounts; ++step) {
    EXPECT_EQ(LatencyHistogram::StepOf(LatencyHistogram::EndNs(step)), step);
    EXPECT_EQ(LatencyHistogram::StepOf(LatencyHistogram::EndNs(step) + 1), step + 1);
  }
  EXPECT_EQ(LatencyHistogram::StepOf(0), 0u);
  EXPECT_EQ(LatencyHistogram::StepOf(UINT64_MAX), kLatencyCounts - 1);
}

// What redis-server 7.0.15 prints as the ends of its buckets.
TEST(LatencyHistogram, OctavesEndWhereThoseOfRedisDo) {
  const std::vector<uint64_t> ends_us = {1,     2,     4,     8,      16,     33,     66,
                                         132,   264,   528,   1056,   2113,   4227,   8454,
                                         16908, 33816, 67633, 135266, 270532, 541065, 1082130};
  ASSERT_EQ(ends_us.size(), kLatencyOctaves);
  for (uint32_t octave = 0; octave < kLatencyOctaves; ++octave) {
    EXPECT_EQ(LatencyHistogram::EndNs(octave * kLatencySteps + kLatencySteps - 1) / 1000,
              ends_us[octave]);
  }
}

// Commands that advance the clock by so many microseconds each: the laps that are charged.
struct Charge {
  size_t count;
  uint64_t us;
  bool of_last;
  bool operator==(const Charge&) const = default;
};

std::vector<Charge> Laps(CommandClock* timer, ManualClock* clock, bool each,
                         const std::vector<int64_t>& commands_us) {
  std::vector<Charge> charges;
  timer->Begin(each);
  size_t count = 0;
  const auto read = [&] {
    const CommandClock::Lap lap = timer->Read(count);
    charges.push_back({count, lap.ns / 1000, lap.of_last});
    count = 0;
  };
  for (const int64_t us : commands_us) {
    clock->now_us += us;
    ++count;
    if (timer->IsDue()) {
      read();
    }
  }
  if (count > 0) {
    read();
  }
  return charges;
}

TEST(CommandClock, ShortOnesShareOneRead) {
  ManualClock clock;
  clock.now_us = 4'000'000;
  CommandClock timer(&clock);
  EXPECT_EQ(Laps(&timer, &clock, false, {1, 1, 1, 1}), (std::vector<Charge>{{4, 4, false}}));
}

TEST(CommandClock, ALongOneIsFoundAmongShortOnes) {
  ManualClock clock;
  clock.now_us = 4'000'000;
  CommandClock timer(&clock);
  // Behind it each command is timed by itself for a while, also in the next batch.
  EXPECT_EQ(Laps(&timer, &clock, false, {1, 1, 12'000, 1, 1}),
            (std::vector<Charge>{{3, 12'002, true}, {1, 1, false}, {1, 1, false}}));
  EXPECT_EQ(Laps(&timer, &clock, false, {1, 500}),
            (std::vector<Charge>{{1, 1, false}, {1, 500, false}}));
  Laps(&timer, &clock, false, std::vector<int64_t>(64, 1));
  EXPECT_EQ(Laps(&timer, &clock, false, {1, 1}), (std::vector<Charge>{{2, 2, false}}));
}

// The timer ticks while short commands run: none of them is blamed.
TEST(CommandClock, ATickOfTheTimerIsNoLongCommand) {
  ManualClock clock;
  clock.now_us = 3'999'998;
  CommandClock timer(&clock);
  EXPECT_EQ(Laps(&timer, &clock, false, {1, 1, 1, 1}),
            (std::vector<Charge>{{2, 2, false}, {2, 2, false}}));
}

TEST(CommandClock, EachByItself) {
  ManualClock clock;
  clock.now_us = 4'000'000;
  CommandClock timer(&clock);
  EXPECT_EQ(Laps(&timer, &clock, true, {1, 7}),
            (std::vector<Charge>{{1, 1, false}, {1, 7, false}}));
}

TEST(LatencyLog, KeepsTheLongestOfEachSecond) {
  LatencyLog log;
  log.Add("command", 100, 5);
  log.Add("command", 100, 9);
  log.Add("command", 100, 7);
  for (int64_t second = 101; second < 261; ++second) {
    log.Add("command", second, 1);
  }
  log.Add("expire-cycle", 1, 2);
  const auto events = log.All();
  ASSERT_EQ(events.size(), 2u);
  const LatencyLog::Event& event = events.at("command");
  EXPECT_EQ(event.longest_ms, 9);
  ASSERT_EQ(event.samples.size(), 160u);
  EXPECT_EQ(event.samples.front().unix_s, 101);
  EXPECT_EQ(event.samples.back().unix_s, 260);
  const std::vector<std::string_view> names = {"nosuch", "command", "command"};
  EXPECT_EQ(log.Reset(names), 1u);
  EXPECT_EQ(log.Reset({}), 1u);
  EXPECT_TRUE(log.All().empty());
}

// As redis-server 7.0.15 drew it.
TEST(LatencyReport, Graph) {
  LatencyLog::Event event;
  event.samples = {{54, 50}, {55, 26}, {57, 40}, {58, 99}, {59, 62}};
  event.longest_ms = 99;
  EXPECT_EQ(LatencyGraph("command", event, 60),
            "command - high 99 ms, low 26 ms (all time high 99 ms)\n" + std::string(80, '-') +
                "\n   # \n   | \n_  |#\n|_#||\n     \n65321\nsssss\n");
  event.samples.assign(1, {3540, 7});
  EXPECT_EQ(LatencyGraph("x", event, 7200), "x - high 7 ms, low 7 ms (all time high 99 ms)\n" +
                                                std::string(80, '-') + "\n \n \n \n_\n \n1\nh\n");
}

TEST(LatencyReport, Doctor) {
  DoctorFacts facts;
  EXPECT_EQ(LatencyDoctor(facts).substr(0, 37), "I'm sorry, Dave, I can't do that. Lat");
  facts.threshold_ms = 50;
  EXPECT_EQ(LatencyDoctor(facts).substr(0, 37), "Dave, no latency spike was observed d");
  facts.events["command"] = {.samples = {{100, 23}, {101, 103}}, .longest_ms = 103};
  facts.unix_s = 106;
  facts.slowlog_us = 10'000;
  const std::string head =
      "Dave, I have observed latency spikes in this Redis instance. You don't mind talking about "
      "it, do you Dave?\n\n1. command: 2 latency spikes (average 63ms, mean deviation 40ms, period "
      "3.00 sec). Worst all time event 103ms.\n";
  const std::string inspect =
      "- Check your Slow Log to understand what are the commands you are running which are too "
      "slow to execute. Please check https://redis.io/commands/slowlog for more information.\n";
  const std::string advices = "\nI have a few advices for you:\n\n";
  EXPECT_EQ(LatencyDoctor(facts), head + advices + inspect);
  facts.slowlog_us = 60'000;
  EXPECT_NE(LatencyDoctor(facts).find("Please use 'CONFIG SET slowlog-log-slower-than 50000'.\n" +
                                      inspect),
            std::string::npos);
  facts.slowlog_us = -1;
  EXPECT_NE(LatencyDoctor(facts).find("Try to enable the Slow Log Redis feature"),
            std::string::npos);
  facts.events.erase("command");
  facts.events["tasks"] = {.samples = {{106, 60}}, .longest_ms = 60};
  EXPECT_NE(LatencyDoctor(facts).find("1. tasks: 1 latency spikes (average 60ms, mean deviation "
                                      "0ms, period 1.00 sec)"),
            std::string::npos);
  EXPECT_NE(LatencyDoctor(facts).find("I'm not able to suggest any easy fix"), std::string::npos);
}

class LatencyCommandTest : public SessionFixture {};

TEST_F(LatencyCommandTest, HistogramAndPercentiles) {
  FakeConnection* client = Connect();
  Ask(client, {"CONFIG", "RESETSTAT"});
  set_->settings().slowlog_us.store(0);  // each by itself
  set_->settings().slowlog_entries_max.store(0);
  clock_.step_us = 3;
  for (int i = 0; i < 99; ++i) {
    client->Send(Encode({"GET", "k"}));
  }
  clock_.step_us = 3000;
  client->Send(Encode({"GET", "k"}));
  clock_.step_us = 0;
  Settle();
  client->Take();
  EXPECT_EQ(Ask(client, {"LATENCY", "HISTOGRAM", "get", "nosuch", "set"}),
            "*2\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:100\r\n$14\r\nhistogram_usec\r\n"
            "*4\r\n:4\r\n:99\r\n:4227\r\n:100\r\n");
  set_->settings().SetPercentiles({50, 99.9});
  const std::string stats = set_->InfoSection("latencystats");
  EXPECT_NE(stats.find("latency_percentiles_usec_get:p50=3.095,p99.9=3170.303\r\n"),
            std::string::npos)
      << stats;
  set_->ResetFigures();
  EXPECT_EQ(set_->InfoSection("latencystats").find("usec_get:"), std::string::npos);
  set_->settings().latency_tracking.store(false);
  EXPECT_EQ(set_->InfoSection("latencystats"), "");
}

TEST_F(LatencyCommandTest, SlowCommandsAndLongTicksAreEvents) {
  FakeConnection* client = Connect();
  set_->settings().latency_event_us.store(2000);
  clock_.step_us = 2500;
  client->Send(Encode({"GET", "k"}));
  client->Send(Encode({"SET", "k", "v"}));
  Tick();
  clock_.step_us = 0;
  Settle();
  client->Take();
  const auto events = set_->latency_log().All();
  EXPECT_TRUE(events.contains("fast-command"));
  EXPECT_TRUE(events.contains("command"));
  EXPECT_TRUE(events.contains("aof-write") || events.contains("replies"));
  EXPECT_EQ(Ask(client, {"LATENCY", "HISTORY", "nosuch"}), "*0\r\n");
  EXPECT_EQ(Ask(client, {"LATENCY", "RESET", "command", "nosuch"}), ":1\r\n");
  EXPECT_EQ(Ask(client, {"LATENCY", "GRAPH", "command"}),
            "-ERR No samples available for event 'command'\r\n");
  const std::string second = std::to_string(events.at("fast-command").samples[0].unix_s);
  EXPECT_EQ(Ask(client, {"LATENCY", "HISTORY", "fast-command"}),
            "*1\r\n*2\r\n:" + second + "\r\n:2\r\n");
}

}  // namespace
}  // namespace kvstored::command
