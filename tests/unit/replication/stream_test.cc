// Streaming: every seq once, watermarks, credits, rings, slow and broken links.
#include "tests/unit/replication/cluster.h"

namespace kvstored::replication {
namespace {

// Nothing in a run may show that somebody broke the rules of the fabric.
void ExpectNoViolation(Cluster* cluster) {
  for (const char* fault : {"rnr", "stale_ring_key", "ring_bounds"}) {
    EXPECT_EQ(cluster->network.counters().count(fault), 0u) << fault;
  }
  for (const auto& engine : cluster->engines) {
    if (engine != nullptr) {
      EXPECT_EQ(engine->counters().bad_frames, 0u);
    }
  }
}

TEST(Stream, EveryRecordArrivesOnceAndIsCommitted) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Streams(1); }));
  for (int i = 0; i < 300; ++i) {
    cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 1 + static_cast<uint32_t>(i % 5));
    cluster.RunFor(50);
  }
  ASSERT_TRUE(cluster.WaitEqual(1)) << cluster.nodes[1]->state_text;
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, cluster.nodes[0]->shard(0).end());
  ExpectNoViolation(&cluster);
}

TEST(Stream, RingWrapsAndBatchesLargerThanItAreSplit) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Streams(1); }));
  // 16 KiB rings: one batch of 60 records of about 1 KiB is four rings long; records of every
  // length move the place where the ring ends.
  for (uint32_t i = 0; i < 40; ++i) {
    cluster.nodes[0]->Write(0, 60, 900 + 37 * i);
    cluster.nodes[0]->Write(1, 3, 7000);
  }
  ASSERT_TRUE(cluster.WaitEqual(1)) << cluster.nodes[1]->state_text;
  EXPECT_GT(cluster.engines[0]->counters().ring_stalls, 0u);
  ExpectNoViolation(&cluster);
}

// Frames that wait behind a blocked one tell watermark credit too: a replica that forgets it cannot
// report any more.
TEST(Stream, AReplicaThatIsHeldBackOftenKeepsReporting) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Streams(1); }));
  for (int i = 0; i < 400; ++i) {
    cluster.nodes[1]->refuse = OpResult::kWait;
    for (int j = 0; j < 4; ++j) {
      cluster.nodes[0]->Write(1, 1);
      cluster.RunFor(20);
    }
    cluster.nodes[1]->refuse = OpResult::kOk;
    cluster.RunFor(1'100);
  }
  ASSERT_TRUE(cluster.WaitEqual(1)) << cluster.nodes[1]->state_text;
  ExpectNoViolation(&cluster);
}

TEST(Stream, CreditsAreNeverExceededByManySmallWrites) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Streams(1); }));
  for (int i = 0; i < 2000; ++i) {
    cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 1, 8);
    cluster.StepAll();
  }
  ASSERT_TRUE(cluster.WaitEqual(1));
  EXPECT_GT(cluster.engines[0]->counters().credit_stalls, 0u);
  ExpectNoViolation(&cluster);
}

#ifdef KVS_TEST_SWITCHES
TEST(Stream, PlantedCreditErrorIsFound) {
  for (const bool planted : {false, true}) {
    Cluster cluster;
    ReplicationOptions options = Cluster::SmallOptions();
    options.plant_credit_off_by_one = planted;
    cluster.StartPair(AckLevel::kReceived, options);
    ASSERT_TRUE(cluster.WaitEqual(1));
    cluster.RunFor(50'000);  // all credit comes home
    // The replica sleeps while its primary writes on.
    for (int i = 0; i < 100; ++i) {
      cluster.nodes[0]->Write(0, 1, 8);
      cluster.engines[0]->Step(0);
      cluster.clock.Advance(100);
    }
    cluster.RunFor(1'000'000);
    EXPECT_EQ(cluster.network.counters().count("rnr"), planted ? 1u : 0u);
  }
}
#endif

TEST(Stream, NothingCountsBeforeItIsPersistedUnderAckPersisted) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kPersisted);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Equal(1); }));
  cluster.nodes[1]->persist_at_once = false;
  const Seq before = cluster.nodes[0]->shard(0).committed;
  cluster.nodes[0]->Write(0, 10);
  cluster.RunFor(500'000);
  EXPECT_EQ(cluster.nodes[1]->shard(0).end(), before + 10) << "received";
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, before) << "but not committed";
  EXPECT_NE(cluster.engines[0]->progress().silent_since_us(), 0);
  cluster.engines[1]->SetLocalPersisted(0, before + 4);
  cluster.RunFor(50'000);
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, before + 4);
  cluster.engines[1]->SetLocalPersisted(0, before + 10);
  cluster.RunFor(50'000);
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, before + 10);
  EXPECT_EQ(cluster.engines[0]->progress().silent_since_us(), 0);
}

TEST(Stream, IdleStreamTellsCommittedWithinAMillisecond) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.auto_commit = false;
  cluster.nodes[0]->Write(0, 1);
  cluster.RunFor(20'000);
  const Seq end = cluster.nodes[0]->shard(0).end();
  ASSERT_EQ(cluster.nodes[1]->shard(0).end(), end);
  ASSERT_EQ(cluster.nodes[1]->shard(0).told, end - 1);
  cluster.nodes[0]->AdvanceCommitted();
  // One millisecond to notice and wait for company, and the way there.
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.nodes[1]->shard(0).told == end; }, 2'000));
}

TEST(Stream, HeartbeatsCarryTheClockAndKeepTheLink) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.engines[0]->SetRecordClock(123456789);
  cluster.RunFor(10'000'000);  // five link timeouts
  EXPECT_EQ(cluster.nodes[1]->primary_clock_us, 123456789u);
  EXPECT_EQ(cluster.engines[1]->counters().reconnects, 0u);
  EXPECT_GT(cluster.engines[0]->counters().heartbeats_sent, 50u);
  EXPECT_LT(cluster.engines[0]->counters().heartbeats_sent, 300u);
}

TEST(Stream, ASinkThatWaitsHoldsThePrimaryBackAndLosesNothing) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.nodes[1]->refuse = OpResult::kDiskFull;
  const Seq before = cluster.nodes[1]->shard(0).end();
  for (int i = 0; i < 100; ++i) {
    cluster.nodes[0]->Write(0, 10, 500);
  }
  cluster.RunFor(3'000'000);
  EXPECT_EQ(cluster.nodes[1]->shard(0).end(), before);
  ASSERT_EQ(cluster.engines[0]->replicas().size(), 1u);
  EXPECT_TRUE(cluster.engines[0]->replicas()[0].disk_full);
  EXPECT_LE(cluster.engines[0]->replicas()[0].lag_bytes, 16384u) << "at most the ring";
  EXPECT_EQ(cluster.engines[1]->counters().reconnects, 0u) << "heartbeats go on";
  cluster.nodes[1]->refuse = OpResult::kOk;
  ASSERT_TRUE(cluster.WaitEqual(1));
  EXPECT_FALSE(cluster.engines[0]->replicas()[0].disk_full);
  ExpectNoViolation(&cluster);
}

TEST(Stream, ASlowReplicaCostsNeitherMemoryNorTheOthers) {
  Cluster cluster;
  cluster.AddNode();
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.Follow(2);
  ASSERT_TRUE(cluster.WaitEqual(2));
  cluster.nodes[2]->refuse = OpResult::kWait;
  for (int i = 0; i < 200; ++i) {
    cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 10, 500);
    cluster.RunFor(2'000);
  }
  ASSERT_TRUE(cluster.WaitEqual(1)) << "the member goes on";
  cluster.nodes[2]->refuse = OpResult::kOk;
  ASSERT_TRUE(cluster.WaitEqual(2));
  EXPECT_GT(cluster.nodes[0]->log_reads, 0) << "what fell out of the backlog came from the log";
  ExpectNoViolation(&cluster);
}

TEST(Stream, BrokenLinksAreMadeAnewAndEverySeqArrivesOnce) {
  Cluster cluster(5);
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 30; ++i) {
      cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 3, 300);
      cluster.RunFor(100);
    }
    cluster.network.BreakRandomLink();
    cluster.RunFor(200'000);
  }
  ASSERT_TRUE(cluster.WaitEqual(1));
  EXPECT_GT(cluster.engines[1]->counters().reconnects, 5u);
}

TEST(Stream, FaultsOfTheFabricNeverShowInTheData) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Cluster cluster(seed);
    cluster.StartPair(AckLevel::kPersisted);
    ASSERT_TRUE(cluster.WaitEqual(1)) << seed;
    cluster.network.faults().long_delay_rate = 0.05;
    cluster.network.faults().write_error_rate = 0.01;
    cluster.network.faults().message_error_rate = 0.02;
    cluster.network.faults().refuse_rate = 0.2;
    for (int i = 0; i < 150; ++i) {
      cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 1 + static_cast<uint32_t>(i % 9), 400);
      cluster.RunFor(3'000);
    }
    cluster.network.Calm();
    ASSERT_TRUE(cluster.WaitEqual(1)) << seed << " " << cluster.nodes[1]->state_text;
    for (ShardId shard = 0; shard < 2; ++shard) {
      EXPECT_EQ(cluster.nodes[0]->shard(shard).committed, cluster.nodes[0]->shard(shard).end());
    }
  }
}

TEST(Stream, LanesAreResizedAtABatchBoundary) {
  Cluster cluster(3, 4);
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  for (int i = 0; i < 400; ++i) {
    cluster.nodes[0]->Write(static_cast<ShardId>(i % 4), 5, 200);
    if (i % 20 == 0) {
      cluster.engines[0]->SetLanes(static_cast<uint16_t>(1 + i / 20 % 2));
    }
    cluster.RunFor(30);
  }
  ASSERT_TRUE(cluster.WaitEqual(1));
  EXPECT_EQ(cluster.engines[1]->counters().reconnects, 0u);
  ExpectNoViolation(&cluster);
}

TEST(Stream, EqualSeedsGiveEqualRuns) {
  uint64_t hashes[2];
  for (uint64_t& hash : hashes) {
    Cluster cluster(11);
    cluster.StartPair(AckLevel::kReceived);
    cluster.network.faults().write_error_rate = 0.01;
    for (int i = 0; i < 100; ++i) {
      cluster.nodes[0]->Write(static_cast<ShardId>(i % 2), 3, 300);
      cluster.RunFor(2'000);
    }
    hash = cluster.network.trace_hash();
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace kvstored::replication
