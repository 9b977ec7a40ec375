// Joining: catch-up, full sync, divergence, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "record/layout.h"
#include "tests/unit/replication/cluster.h"

namespace kvstored::replication {
namespace {

TEST(Join, CatchUpFromTheLogWhileWritesGoOn) {
  Cluster cluster;
  ReplicationOptions options = Cluster::SmallOptions();
  options.backlog_bytes = 4096;
  cluster.AddNode(options);
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kNone, 0);
  for (int i = 0; i < 100; ++i) {
    cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 20, 100);
  }
  cluster.RunFor(10'000);
  cluster.Follow(1);
  for (int i = 0; i < 200; ++i) {
    cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 2, 100);
    cluster.RunFor(500);
  }
  ASSERT_TRUE(cluster.WaitEqual(1)) << cluster.nodes[1]->state_text;
  EXPECT_TRUE(cluster.Streams(1));
  EXPECT_EQ(cluster.nodes[1]->published, 0) << "no full sync";
  EXPECT_GT(cluster.nodes[0]->log_reads, 0);
}

// A replica that restarted from a checkpoint does not know its newest record's checksum.
TEST(Join, AnUnknownChecksumIsNoDivergence) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  cluster.nodes[0]->Write(0, 20, 100);
  ASSERT_TRUE(cluster.WaitEqual(1)) << cluster.nodes[1]->state_text;
  cluster.nodes[1]->checksum_known = false;
  cluster.Restart(1);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Streams(1); })) << cluster.nodes[1]->state_text;
  EXPECT_TRUE(cluster.nodes[0]->alarms.empty());
  EXPECT_EQ(cluster.nodes[1]->published, 0) << "no full sync";
}

void FillAndTrim(Cluster* cluster, int batches) {
  for (int i = 0; i < batches; ++i) {
    cluster->nodes[0]->Write(static_cast<ShardId>(i % 2), 20, 100);
  }
  cluster->RunFor(10'000);
  for (ShardId shard = 0; shard < 2; ++shard) {
    cluster->nodes[0]->TrimLog(shard, cluster->nodes[0]->shard(shard).end() - 5);
  }
}

TEST(Join, FullSyncWhileWritesGoOn) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  FillAndTrim(&cluster, 40);
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, 0u) << "nobody acknowledged yet";
  cluster.nodes[0]->slice_bytes = 2000;
  cluster.Follow(1);
  for (int i = 0; i < 300; ++i) {
    cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 2, 100);
    cluster.RunFor(100);
  }
  ASSERT_TRUE(cluster.WaitEqual(1)) << cluster.nodes[1]->state_text;
  EXPECT_EQ(cluster.nodes[1]->published, 1);
  EXPECT_GT(cluster.nodes[1]->sync_item_bytes, 0u);
  EXPECT_EQ(cluster.nodes[0]->slices_ended, 1);
  const auto& events = cluster.nodes[1]->events;
  EXPECT_EQ(events[0], "full_sync");
  EXPECT_NE(std::find(events.begin(), events.end(), "streaming"), events.end());
}

TEST(Join, AReplicaInFullSyncDoesNotCount) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  FillAndTrim(&cluster, 10);
  cluster.nodes[1]->sync_result = absl::InternalError("hash differs");
  cluster.Follow(1);
  cluster.RunFor(2'000'000);
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, 0u);
  EXPECT_GT(cluster.nodes[1]->aborted, 0);
  EXPECT_TRUE(cluster.engines[0]->members().members.empty());
  cluster.nodes[1]->sync_result = absl::OkStatus();
  ASSERT_TRUE(cluster.WaitEqual(1));
  EXPECT_EQ(cluster.engines[0]->members().members.size(), 1u);
}

TEST(Join, FullSyncSurvivesBrokenLinks) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Cluster cluster(seed);
    cluster.AddNode();
    cluster.AddNode();
    cluster.MakePrimary(0, AckLevel::kNone, 0);
    FillAndTrim(&cluster, 40);
    cluster.nodes[0]->slice_bytes = 1000;
    cluster.Follow(1);
    for (int i = 0; i < 6; ++i) {
      cluster.RunFor(2'000);
      cluster.nodes[0]->Write(0, 3, 100);
      cluster.network.BreakRandomLink();
    }
    ASSERT_TRUE(cluster.WaitEqual(1)) << seed;
    EXPECT_EQ(cluster.nodes[0]->slices_open, 0u);
  }
}

TEST(Join, OneFullSyncAtATime) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kNone, 0);
  FillAndTrim(&cluster, 40);
  cluster.nodes[0]->slice_bytes = 500;
  cluster.Follow(1);
  cluster.Follow(2);
  ASSERT_TRUE(cluster.WaitEqual(1));
  ASSERT_TRUE(cluster.WaitEqual(2));
  EXPECT_TRUE(cluster.nodes[1]->last_refusal == Refusal::kBusy ||
              cluster.nodes[2]->last_refusal == Refusal::kBusy);
}

TEST(Join, AnotherRecordAtAnEqualSeqIsDivergence) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kNone);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.Crash(1);
  TestNode::Shard& shard = cluster.nodes[1]->shard(0);
  record::Record record;
  size_t size_bytes = 0;
  ASSERT_EQ(record::Decode(shard.log.back(), &record, &size_bytes), record::DecodeResult::kOk);
  std::vector<uint8_t> other;
  const std::string value = "another value";
  record.value = value;
  record::Encode(record, &other);
  shard.log.back() = other;
  cluster.Restart(1);
  cluster.nodes[0]->Write(1, 1);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.WaitEqual(1));
  ASSERT_EQ(cluster.nodes[0]->alarms.size(), 1u);
  EXPECT_EQ(cluster.nodes[0]->alarms[0], Refusal::kDiverged);
  EXPECT_EQ(cluster.nodes[1]->published, 1);
}

TEST(Join, AnOldPrimaryIsCutAboveTheCommonPointAndFollows) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.Crash(1);
  cluster.nodes[0]->Write(0, 5);  // never acknowledged
  cluster.RunFor(10'000);
  const Seq committed = cluster.nodes[0]->shard(0).committed;
  cluster.Crash(0);
  cluster.Restart(1);
  cluster.MakePrimary(1, AckLevel::kReceived, 1, 88);
  cluster.nodes[0]->shard(0).told = committed;
  cluster.nodes[0]->facts()->role = Role::kReplica;
  cluster.Restart(0);
  cluster.Follow(0);
  ASSERT_TRUE(cluster.WaitEqual(0)) << cluster.nodes[0]->state_text;
  EXPECT_EQ(cluster.nodes[0]->facts()->epochs.size(), 2u);
}

TEST(Join, CommittedRecordsAreNotGivenUp) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.Crash(0);
  cluster.nodes[0]->shard(0).log.resize(0);  // comes back with an empty log of the same data set
  cluster.nodes[0]->shard(0).committed = 0;
  cluster.Restart(0);
  cluster.MakePrimary(0, AckLevel::kReceived, 1, 99);
  const Seq end = cluster.nodes[1]->shard(0).end();
  cluster.RunFor(5'000'000);
  EXPECT_FALSE(cluster.Streams(1));
  EXPECT_EQ(cluster.nodes[1]->shard(0).end(), end) << "nothing was wiped";
  EXPECT_EQ(cluster.nodes[1]->last_refusal, Refusal::kLosesCommitted);
  EXPECT_FALSE(cluster.nodes[1]->alarms.empty());
  cluster.Follow(1, /*discard=*/true);
  ASSERT_TRUE(cluster.WaitEqual(1)) << cluster.nodes[1]->state_text;
}

TEST(Join, SecretsMustMatchAndBothSidesSayWhy) {
  struct Case {
    const char* primary;
    const char* replica;
    const char* ip;
    Refusal refusal;
  };
  for (const Case& c : {Case{"alpha", "beta", "127.0.0.1", Refusal::kAuthentication},
                        Case{"alpha", "", "127.0.0.1", Refusal::kAuthentication},
                        Case{"", "beta", "127.0.0.1", Refusal::kAuthentication},
                        Case{"", "", "10.0.0.2", Refusal::kNotLoopback},
                        Case{"alpha", "alpha", "10.0.0.2", Refusal::kNone}}) {
    Cluster cluster;
    ReplicationOptions options = Cluster::SmallOptions();
    options.secret = c.primary;
    cluster.AddNode(options, c.ip);
    options.secret = c.replica;
    cluster.AddNode(options, c.ip);
    cluster.MakePrimary(0, AckLevel::kNone, 0);
    cluster.Follow(1);
    cluster.RunFor(1'000'000);
    EXPECT_EQ(cluster.nodes[1]->last_refusal, c.refusal) << c.primary << "/" << c.replica;
    EXPECT_EQ(cluster.Streams(1), c.refusal == Refusal::kNone);
    if (c.refusal != Refusal::kNone) {
      EXPECT_NE(cluster.nodes[1]->state_text.find("replication.secret_file"), std::string::npos);
      EXPECT_EQ(cluster.nodes[1]->prepared, 0);
    }
  }
}

TEST(Join, AReplicaIsNotFollowedAndSaysWhomToAsk) {
  Cluster cluster;
  cluster.AddNode();
  cluster.StartPair(AckLevel::kNone);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.engines[2]->FollowPrimary(cluster.addresses[1], false);
  cluster.RunFor(500'000);
  EXPECT_EQ(cluster.nodes[2]->last_refusal, Refusal::kNotPrimary);
  EXPECT_NE(cluster.nodes[2]->state_text.find(cluster.addresses[0]), std::string::npos);
}

}  // namespace
}  // namespace kvstored::replication
