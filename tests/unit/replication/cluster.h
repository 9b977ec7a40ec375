// Engines over the simulated fabric, in one thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_fabric.h"
#include "tests/unit/replication/test_node.h"

namespace kvstored::replication {

class Cluster {
 public:
  explicit Cluster(uint64_t seed = 1, uint32_t shard_count = 2)
      : network(seed, &clock), shard_count_(shard_count) {
  }
  ~Cluster() {
    for (auto& engine : engines) {
      engine.reset();
    }
  }

  static ReplicationOptions SmallOptions() {
    ReplicationOptions options;
    options.ring_bytes = 16384;
    options.lane_credits = 16;
    options.backlog_bytes = 64 << 10;
    options.lane_count_max = 2;
    options.lanes = 2;
    options.random_seed = 7;
    options.link_timeout_us = 2'000'000;
    return options;
  }

  // Returns its index. It listens at addresses[index].
  size_t AddNode(ReplicationOptions options = SmallOptions(), const std::string& ip = "127.0.0.1") {
    const size_t index = engines.size();
    options.shard_count = shard_count_;
    options.random_seed += index;
    options.listen_address = ip + ":0";
    nodes.push_back(std::make_unique<TestNode>(static_cast<uint8_t>(index + 1), shard_count_));
    fabrics.push_back(std::make_unique<sim::SimFabric>(&network, "n" + std::to_string(index), ip));
    options_.push_back(options);
    engines.emplace_back();
    addresses.emplace_back();
    Boot(index);
    return index;
  }
  // A new process over the same log and meta.
  void Restart(size_t index) {
    Crash(index);
    fabrics[index] = std::make_unique<sim::SimFabric>(
        &network, "n" + std::to_string(index),
        options_[index].listen_address.substr(0, options_[index].listen_address.rfind(':')));
    Boot(index);
  }
  void Crash(size_t index) {
    fabric_graveyard_.push_back(std::move(fabrics[index]));
    engines[index].reset();
    fabric_graveyard_.clear();
    for (ShardId shard = 0; shard < shard_count_; ++shard) {
      nodes[index]->shard(shard).told_in_link = 0;
    }
  }
  void MakePrimary(size_t index, AckLevel ack, uint32_t ack_replicas, uint64_t epoch_id = 77) {
    nodes[index]->OpenEpoch(epoch_id);
    MemberSet members = nodes[index]->facts()->members;
    members.ack = ack;
    members.ack_replicas = ack_replicas;
    engines[index]->BecomePrimary(members);
    for (ShardId shard = 0; shard < shard_count_; ++shard) {
      nodes[index]->Write(shard, 1);  // stands for epoch_begin
    }
    primary = index;
  }
  void Follow(size_t index, bool discard = false) {
    engines[index]->FollowPrimary(addresses[primary], discard);
  }
  // The start of most tests: node 0 is primary and asks for one acknowledgement (none under kNone),
  // node 1 has been told to follow it.
  void StartPair(AckLevel ack, const ReplicationOptions& of_primary = SmallOptions()) {
    AddNode(of_primary);
    AddNode();
    MakePrimary(0, ack, ack == AckLevel::kNone ? 0 : 1);
    Follow(1);
  }

  bool StepAll() {
    bool moved = false;
    for (auto& engine : engines) {
      if (engine != nullptr) {
        moved |= engine->Step(0);
      }
    }
    if (auto_commit && engines[primary] != nullptr) {
      nodes[primary]->AdvanceCommitted();
    }
    return moved;
  }
  // Until `done` holds; false if it does not within that time.
  bool RunUntil(const std::function<bool()>& done, int64_t limit_us = 20'000'000) {
    const int64_t end_us = clock.now_us() + limit_us;
    while (!done()) {
      if (StepAll()) {
        clock.Advance(1);
        continue;
      }
      int64_t next_us = network.NextEventUs();
      for (auto& engine : engines) {
        if (engine != nullptr) {
          next_us = std::min(next_us, engine->NextTimerUs());
        }
      }
      if (clock.now_us() >= end_us) {
        return false;
      }
      clock.AdvanceTo(std::clamp(next_us, clock.now_us() + 1, end_us));
    }
    return true;
  }
  void RunFor(int64_t us) {
    RunUntil([] { return false; }, us);
  }
  bool Streams(size_t index) {
    return engines[index]->streaming();
  }
  // The replica has everything of the primary, and knows it committed.
  bool Equal(size_t index) {
    for (ShardId shard = 0; shard < shard_count_; ++shard) {
      TestNode::Shard& a = nodes[primary]->shard(shard);
      TestNode::Shard& b = nodes[index]->shard(shard);
      if (a.end() != b.end() || a.Hash() != b.Hash() || b.told != a.end()) {
        return false;
      }
    }
    return true;
  }
  bool WaitEqual(size_t index) {
    return RunUntil([&] { return Equal(index); });
  }

  sim::SimClock clock;
  sim::SimNetwork network;
  std::vector<std::unique_ptr<TestNode>> nodes;
  std::vector<std::unique_ptr<sim::SimFabric>> fabrics;
  std::vector<std::unique_ptr<Replication>> engines;
  std::vector<std::string> addresses;
  size_t primary = 0;
  bool auto_commit = true;

 private:
  void Boot(size_t index) {
    TestNode* node = nodes[index].get();
    engines[index] = std::make_unique<Replication>(options_[index], fabrics[index].get(), &clock,
                                                   node, node, node, [](ShardId) {});
    node->engine = engines[index].get();
    const auto bound = engines[index]->Start();
    ASSERT_TRUE(bound.ok()) << bound.status();
    addresses[index] = *bound;
    options_[index].listen_address = *bound;
    node->port = static_cast<uint16_t>(std::stoi(bound->substr(bound->rfind(':') + 1)));
    node->facts()->replication_port = node->port;
  }

  const uint32_t shard_count_;
  std::vector<ReplicationOptions> options_;
  std::vector<std::unique_ptr<sim::SimFabric>> fabric_graveyard_;
};

}  // namespace kvstored::replication
