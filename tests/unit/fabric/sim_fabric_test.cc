// What only the simulated fabric does: faults, each of them, and the same run from the same seed.
#include "tests/sim/sim_fabric.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "tests/unit/fabric/sim_harness.h"

namespace kvstored::fabric {
namespace {

// A sender that writes numbered blocks while the link lives, a receiver that checks what RC
// promises: in one lane no loss, no duplicate, no reorder, every byte of a told write in place.
class CheckedTraffic {
 public:
  CheckedTraffic(SimHarness* harness, LaneId lane_count)
      : harness_(harness), sent_(lane_count, 0), received_(lane_count, 0) {
    Node& server = harness->server;
    for (LaneId lane = 0; lane < lane_count; ++lane) {
      rings_.push_back(std::make_unique<RingMemory>(kBlock * kWindow));
      keys_.push_back(server.fabric->RegisterRing(server.link, rings_.back()->span()));
      server.fabric->PostReceives(server.link, lane, kWindow);
    }
    server.told.on_write = [this](LinkId link, LaneId lane, uint32_t immediate) {
      EXPECT_EQ(immediate, received_[lane]);
      const std::string text = rings_[lane]->Text((immediate % kWindow) * kBlock, kBlock);
      EXPECT_EQ(text, std::string(kBlock, Fill(lane, immediate)));
      ++received_[lane];
      harness_->server.fabric->PostReceives(link, lane, 1);
    };
    harness->client.told.on_posted = [this](LinkId, LaneId, uint64_t wr_id) {
      sources_.at(wr_id)->assign(kBlock, '#');  // reused at once
      sources_.erase(wr_id);
    };
  }

  // Posts where credits and the send queue allow it.
  void Post() {
    Node& client = harness_->client;
    for (LaneId lane = 0; lane < sent_.size(); ++lane) {
      while (sent_[lane] < received_[lane] + kWindow && !client.record().closed.has_value()) {
        auto source = std::make_unique<std::string>(kBlock, Fill(lane, sent_[lane]));
        const iovec piece{source->data(), source->size()};
        if (client.fabric->PostWrite(client.link, lane, keys_[lane],
                                     (sent_[lane] % kWindow) * kBlock, {&piece, 1}, sent_[lane],
                                     next_wr_id_) != OpResult::kOk) {
          break;
        }
        sources_.emplace(next_wr_id_++, std::move(source));
        ++sent_[lane];
      }
    }
  }
  void RunUntilClosed() {
    Node& server = harness_->server;
    Node& client = harness_->client;
    for (int i = 0; i < 100'000 && !(client.record().closed && server.record().closed); ++i) {
      Post();
      harness_->Step();
    }
    EXPECT_TRUE(client.record().closed.has_value());
    EXPECT_TRUE(server.record().closed.has_value());
  }
  uint32_t received(LaneId lane) const {
    return received_[lane];
  }

 private:
  static constexpr size_t kBlock = 256;
  static constexpr uint32_t kWindow = 16;
  static char Fill(LaneId lane, uint32_t number) {
    return static_cast<char>('A' + (lane * 7 + number) % 26);
  }

  SimHarness* const harness_;
  std::vector<std::unique_ptr<RingMemory>> rings_;
  std::vector<RingKey> keys_;
  std::vector<uint32_t> sent_;
  std::vector<uint32_t> received_;
  std::map<uint64_t, std::unique_ptr<std::string>> sources_;
  uint64_t next_wr_id_ = 0;
};

uint64_t RunErrors(uint64_t seed, std::map<std::string, uint64_t>* counters) {
  SimHarness harness(seed);
  sim::SimFaults& faults = harness.network.faults();
  faults.long_delay_rate = 0.02;
  for (int round = 0; round < 10; ++round) {
    faults.write_error_rate = 0;
    EXPECT_TRUE(harness.Link(4));
    faults.write_error_rate = 0.005;
    CheckedTraffic traffic(&harness, 4);
    traffic.RunUntilClosed();
    harness.server.told.on_write = nullptr;
    harness.client.told.on_posted = nullptr;
  }
  for (const auto& [name, count] : harness.network.counters()) {
    (*counters)[name] += count;
  }
  return harness.network.trace_hash();
}

TEST(SimFabricTest, LinkErrorsNeverBreakWhatRcPromises) {
  std::map<std::string, uint64_t> counters;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    RunErrors(seed, &counters);
  }
  for (const char* fault : {"link_error", "flushed_write", "landed_completion_lost", "long_delay",
                            "reordered_across_lanes"}) {
    EXPECT_GE(counters[fault], 50u) << fault;
  }
}

TEST(SimFabricTest, TheSameSeedIsTheSameRun) {
  std::map<std::string, uint64_t> first;
  std::map<std::string, uint64_t> second;
  std::map<std::string, uint64_t> other;
  EXPECT_EQ(RunErrors(7, &first), RunErrors(7, &second));
  EXPECT_EQ(first, second);
  EXPECT_NE(RunErrors(7, &first), RunErrors(8, &other));
}

// The memory of a write belongs to the fabric until OnPosted: touching it before shows at the peer.
TEST(SimFabricTest, ABufferReusedTooEarlyShows) {
  int damaged = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimHarness harness(seed);
    ASSERT_TRUE(harness.Link(1));
    RingMemory ring(4096);
    const RingKey key = harness.server.fabric->RegisterRing(harness.server.link, ring.span());
    harness.server.fabric->PostReceives(harness.server.link, 0, 1);
    std::string source = "good";
    const iovec piece{source.data(), source.size()};
    ASSERT_EQ(harness.client.fabric->PostWrite(harness.client.link, 0, key, 0, {&piece, 1}, 1, 1),
              OpResult::kOk);
    harness.Step();
    source.assign("evil");
    ASSERT_TRUE(harness.Until([&] { return harness.server.record().writes.size() == 1; }));
    damaged += ring.Text(0, 4) == "evil" ? 1 : 0;
  }
  EXPECT_GT(damaged, 10);
}

TEST(SimFabricTest, APartitionStallsThenBreaksBothEndsOrHealsWithoutLoss) {
  for (const bool one_way : {false, true}) {
    for (const bool heals : {false, true}) {
      SimHarness harness(3);
      ASSERT_TRUE(harness.Link(2));
      CheckedTraffic traffic(&harness, 2);
      for (int i = 0; i < 200; ++i) {
        traffic.Post();
        harness.Step();
      }
      harness.network.Block("client", "server");
      if (!one_way) {
        harness.network.Block("server", "client");
      }
      harness.server.fabric->Poll(0, &harness.server.told);
      for (int i = 0; i < 20; ++i) {
        harness.clock.Advance(1000);
        harness.server.fabric->Poll(0, &harness.server.told);
      }
      const uint32_t before = traffic.received(0);
      for (int i = 0; i < 100; ++i) {
        harness.clock.Advance(1000);
        harness.server.fabric->Poll(0, &harness.server.told);
        harness.client.fabric->Poll(0, &harness.client.told);
      }
      EXPECT_EQ(traffic.received(0), before);
      if (heals) {
        harness.network.Heal();
        ASSERT_TRUE(harness.Until([&] {
          traffic.Post();
          return traffic.received(0) > before + 500;
        }));
        EXPECT_FALSE(harness.server.record().closed.has_value());
      } else {
        traffic.RunUntilClosed();
        // One way, the end that times out first may still tell the other.
        EXPECT_GE(harness.network.counters().at("partition_break"), one_way ? 1u : 2u);
      }
      harness.server.told.on_write = nullptr;
      harness.client.told.on_posted = nullptr;
    }
  }
}

TEST(SimFabricTest, ABlockedConnectTimesOutAndARefusedOneFails) {
  SimHarness harness(4);
  ASSERT_TRUE(harness.Listen());
  harness.network.Partition("client", "server");
  LinkId link = harness.client.fabric->Connect(harness.address);
  ASSERT_TRUE(harness.Until([&] { return harness.client.told[link].closed.has_value(); }));
  EXPECT_EQ(harness.client.told[link].closed->code(), absl::StatusCode::kDeadlineExceeded);
  harness.network.Heal();
  harness.network.faults().refuse_rate = 1;
  link = harness.client.fabric->Connect(harness.address);
  ASSERT_TRUE(harness.Until([&] { return harness.client.told[link].closed.has_value(); }));
  EXPECT_EQ(harness.client.told[link].closed->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(harness.network.counters().at("connect_refused"), 1u);
  EXPECT_EQ(harness.network.counters().at("connect_timeout"), 1u);
  harness.network.Calm();
  EXPECT_TRUE(harness.Link(1));
}

TEST(SimFabricTest, ACrashReadsNothingOfTheDeadProcess) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimHarness harness(seed);
    ASSERT_TRUE(harness.Link(2));
    auto traffic = std::make_unique<CheckedTraffic>(&harness, 2);
    for (uint64_t i = 0; i < seed * 3; ++i) {
      traffic->Post();
      harness.Step();
    }
    // The sender's process dies with its buffers; what it had on the wire may land.
    const LinkId link = harness.server.link;
    harness.client.told.on_posted = nullptr;
    harness.Restart(&harness.client);
    EXPECT_EQ(harness.network.counters().at("node_crash"), 1u);
    ASSERT_TRUE(harness.Until([&] { return harness.server.told[link].closed.has_value(); }));
    harness.server.told.on_write = nullptr;
  }
}

TEST(SimFabricTest, ASlowPeerIsSlow) {
  int64_t took_us[2];
  for (const bool slow : {false, true}) {
    SimHarness harness(5);
    ASSERT_TRUE(harness.Link(1));
    if (slow) {
      harness.network.LimitBandwidth("server", 1.0);
    }
    RingMemory ring(1 << 20);
    const RingKey key = harness.server.fabric->RegisterRing(harness.server.link, ring.span());
    harness.server.fabric->PostReceives(harness.server.link, 0, 50);
    const std::string text(10'000, 's');
    const iovec piece{const_cast<char*>(text.data()), text.size()};
    const int64_t start_us = harness.clock.now_us();
    for (uint32_t i = 0; i < 50; ++i) {
      ASSERT_EQ(harness.client.fabric->PostWrite(harness.client.link, 0, key, 0, {&piece, 1}, i, i),
                OpResult::kOk);
    }
    ASSERT_TRUE(harness.Until([&] { return harness.server.record().writes.size() == 50; }));
    took_us[slow ? 1 : 0] = harness.clock.now_us() - start_us;
  }
  EXPECT_LT(took_us[0], 10'000);
  EXPECT_GT(took_us[1], 500'000);
}

TEST(SimFabricTest, InjectedBreaksReachBothEnds) {
  SimHarness harness(6);
  EXPECT_FALSE(harness.network.BreakRandomLink());
  ASSERT_TRUE(harness.Link(1));
  EXPECT_TRUE(harness.network.BreakRandomLink());
  EXPECT_FALSE(harness.network.BreakLink(harness.client.link));
  ASSERT_TRUE(harness.Until([&] {
    return harness.server.record().closed.has_value() && harness.client.record().closed.has_value();
  }));
  EXPECT_EQ(harness.client.record().closed->code(), absl::StatusCode::kAborted);
}

TEST(SimFabricTest, NothingToDoIsNever) {
  SimHarness harness(9);
  EXPECT_EQ(harness.network.NextEventUs(), INT64_MAX);
  ASSERT_TRUE(harness.Link(2));
  harness.Settle(20);
  EXPECT_EQ(harness.network.NextEventUs(), INT64_MAX);
  harness.client.fabric->Close(harness.client.link, absl::OkStatus());
  EXPECT_LE(harness.network.NextEventUs(), harness.clock.now_us());
  harness.Settle(50);
  EXPECT_EQ(harness.network.NextEventUs(), INT64_MAX);
}

}  // namespace
}  // namespace kvstored::fabric
