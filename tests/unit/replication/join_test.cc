// Joining: plans, catch-up, full sync, refusals, members, promotion rights, questions.
#include "replication/join_plan.h"

#include "record/layout.h"
#include "tests/unit/replication/cluster.h"

namespace kvstored::replication {
namespace {

NodeFacts Facts(std::vector<EpochEntry> epochs, Seq end, Seq committed) {
  NodeFacts facts;
  facts.data_set_id.bytes.fill(1);
  facts.shard_count = 1;
  facts.epochs = std::move(epochs);
  facts.ends = {{end, 7}};
  facts.committed = {committed};
  facts.log_start = {1};
  return facts;
}

const EpochEntry kE1{{1, 11}, {1}};
const EpochEntry kE2{{2, 22}, {51}};
const EpochEntry kE2Other{{2, 33}, {41}};
const EpochEntry kE3{{3, 44}, {71}};

TEST(JoinPlan, CommonPointIsOwnEndOrTheLastSeqBeforeThePrimarysNextEpoch) {
  EXPECT_EQ(PlanJoin(Facts({kE1}, 100, 90), Facts({kE1}, 80, 70), false).common[0], 80u);
  const JoinPlan cut = PlanJoin(Facts({kE1, kE2}, 100, 90), Facts({kE1}, 60, 50), false);
  EXPECT_EQ(cut.mode, JoinMode::kCatchUp);
  EXPECT_EQ(cut.common[0], 50u);
  EXPECT_EQ(cut.dropped_records, 10u);
  // Two epochs later the first one after the replica's newest counts.
  EXPECT_EQ(PlanJoin(Facts({kE1, kE2, kE3}, 100, 90), Facts({kE1}, 60, 10), false).common[0], 50u);
  EXPECT_EQ(PlanJoin(Facts({kE1, kE2, kE3}, 100, 90), Facts({kE1, kE2}, 99, 10), false).common[0],
            70u);
}

TEST(JoinPlan, Refusals) {
  EXPECT_EQ(PlanJoin(Facts({kE1, kE2}, 100, 90), Facts({kE1}, 60, 55), false).refusal,
            Refusal::kLosesCommitted);
  EXPECT_EQ(PlanJoin(Facts({kE1, kE2}, 100, 90), Facts({kE1, kE2Other}, 60, 5), false).refusal,
            Refusal::kForked);
  EXPECT_EQ(PlanJoin(Facts({kE1}, 100, 90), Facts({kE1, kE2}, 60, 5), false).refusal,
            Refusal::kPrimaryIsOlder);
  EXPECT_EQ(PlanJoin(Facts({kE1}, 50, 40), Facts({kE1}, 60, 40), false).refusal,
            Refusal::kLongerThanPrimary);
  NodeFacts other = Facts({kE1}, 60, 5);
  other.data_set_id.bytes.fill(9);
  EXPECT_EQ(PlanJoin(Facts({kE1}, 100, 90), other, false).refusal, Refusal::kDataSet);
  NodeFacts promised = Facts({kE1}, 60, 5);
  promised.promised = 2;
  EXPECT_EQ(PlanJoin(Facts({kE1}, 100, 90), promised, false).refusal, Refusal::kPromised);
  EXPECT_NE(PlanJoin(Facts({kE1, kE2}, 100, 90), promised, false).refusal, Refusal::kPromised);
  NodeFacts shards = Facts({kE1}, 60, 5);
  shards.shard_count = 2;
  EXPECT_EQ(PlanJoin(Facts({kE1}, 100, 90), shards, false).refusal, Refusal::kShardCount);
  for (const JoinPlan& plan : {PlanJoin(Facts({kE1}, 100, 90), other, false),
                               PlanJoin(Facts({kE1}, 100, 90), shards, false)}) {
    EXPECT_FALSE(plan.text.empty());
  }
}

TEST(JoinPlan, EmptyOrDiscardedDataAdoptsAndATrimmedLogNeedsAFullSync) {
  NodeFacts primary = Facts({kE1, kE2}, 100, 90);
  NodeFacts empty;
  JoinPlan plan = PlanJoin(primary, empty, false);
  EXPECT_TRUE(plan.adopt);
  EXPECT_EQ(plan.mode, JoinMode::kCatchUp);
  plan = PlanJoin(primary, Facts({kE1, kE2Other}, 60, 55), true);
  EXPECT_TRUE(plan.adopt);
  EXPECT_EQ(plan.dropped_records, 60u);
  primary.log_start = {30};
  EXPECT_EQ(PlanJoin(primary, empty, false).mode, JoinMode::kFullSync);
  EXPECT_EQ(PlanJoin(primary, Facts({kE1}, 20, 5), false).mode, JoinMode::kFullSync);
  EXPECT_EQ(PlanJoin(primary, Facts({kE1}, 29, 5), false).mode, JoinMode::kCatchUp);
}

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
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  cluster.Follow(1);
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
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kNone, 0);
  cluster.Follow(1);
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
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  cluster.Follow(1);
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
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  cluster.Follow(1);
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
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kNone, 0);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.engines[2]->FollowPrimary(cluster.addresses[1], false);
  cluster.RunFor(500'000);
  EXPECT_EQ(cluster.nodes[2]->last_refusal, Refusal::kNotPrimary);
  EXPECT_NE(cluster.nodes[2]->state_text.find(cluster.addresses[0]), std::string::npos);
}

TEST(Members, JoinInTheOrderOfStreamingAndAreSpared) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) {
    cluster.AddNode();
  }
  cluster.MakePrimary(0, AckLevel::kPersisted, 1);
  cluster.Follow(2);
  ASSERT_TRUE(cluster.WaitEqual(2));
  cluster.Follow(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Streams(1); }));
  cluster.RunFor(100'000);
  ASSERT_EQ(cluster.engines[0]->members().members.size(), 1u);
  EXPECT_EQ(cluster.engines[0]->members().members[0].store_id, cluster.nodes[2]->facts()->store_id);
  EXPECT_TRUE(cluster.nodes[2]->facts()->promotable);
  EXPECT_FALSE(cluster.nodes[1]->facts()->promotable);
  EXPECT_EQ(cluster.nodes[2]->facts()->members, cluster.nodes[0]->facts()->members);
  // The member dies: a spare that streams does not take its place by itself.
  cluster.Crash(2);
  cluster.nodes[0]->Write(0, 1);
  cluster.RunFor(3'000'000);
  EXPECT_LT(cluster.nodes[0]->shard(0).committed, cluster.nodes[0]->shard(0).end());
  EXPECT_NE(cluster.engines[0]->progress().silent_since_us(), 0);
  absl::Status result = absl::UnknownError("");
  const auto keep = [&result](absl::Status status) {
    result = std::move(status);
  };
  cluster.engines[0]->ReplaceMember(cluster.nodes[2]->facts()->store_id,
                                    cluster.nodes[1]->facts()->store_id, false, keep);
  cluster.RunFor(100'000);
  EXPECT_EQ(result.code(), absl::StatusCode::kUnavailable) << "needs --force: " << result;
  cluster.engines[0]->ReplaceMember(cluster.nodes[2]->facts()->store_id,
                                    cluster.nodes[1]->facts()->store_id, true, keep);
  cluster.RunFor(2'000'000);
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, cluster.nodes[0]->shard(0).end());
  EXPECT_TRUE(cluster.nodes[1]->facts()->promotable);
}

TEST(Members, LoweringWithdrawsTheRightToBePromotedFirst) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.nodes[1]->facts()->promotable; }));
  absl::Status result = absl::UnknownError("");
  cluster.engines[0]->SetAck(AckLevel::kReceived, 0, false,
                             [&](absl::Status status) { result = std::move(status); });
  cluster.RunFor(100'000);
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_FALSE(cluster.nodes[1]->facts()->promotable);
  cluster.nodes[0]->Write(0, 1);
  cluster.RunFor(10'000);
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, cluster.nodes[0]->shard(0).end());
  // Raised again: the gate waits at once, then the replica joins and counts.
  cluster.engines[0]->SetAck(AckLevel::kPersisted, 1, false, [](absl::Status) {});
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.nodes[1]->facts()->promotable; }));
  EXPECT_EQ(cluster.engines[0]->members().members.size(), 1u);
}

TEST(Members, DropFreesTheWrites) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.nodes[1]->facts()->promotable; }));
  cluster.Crash(1);
  cluster.nodes[0]->Write(0, 1);
  cluster.RunFor(1'000'000);
  EXPECT_LT(cluster.nodes[0]->shard(0).committed, cluster.nodes[0]->shard(0).end());
  absl::Status result;
  const Id128 store = cluster.nodes[1]->facts()->store_id;
  cluster.engines[0]->DropMember(store, false, [&](absl::Status status) { result = status; });
  EXPECT_FALSE(result.ok());
  cluster.engines[0]->DropMember(store, true, [&](absl::Status status) { result = status; });
  cluster.RunFor(10'000);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(cluster.nodes[0]->shard(0).committed, cluster.nodes[0]->shard(0).end());
  EXPECT_EQ(cluster.engines[0]->progress().silent_since_us(), 0);
}

TEST(Members, WhoWasDroppedByForceLosesItsRightWhenItComesBack) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.nodes[1]->facts()->promotable; }));
  cluster.Restart(1);
  cluster.RunFor(500'000);
  cluster.engines[0]->DropMember(cluster.nodes[1]->facts()->store_id, true, [](absl::Status) {});
  cluster.RunFor(10'000);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Streams(1); }));
  cluster.RunFor(100'000);
  EXPECT_FALSE(cluster.nodes[1]->facts()->promotable);
  EXPECT_TRUE(cluster.nodes[1]->facts()->members.members.empty()) << "it was told the new set";
}

TEST(Members, AMemberThatComesBackCountsAgain) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.Restart(1);
  cluster.nodes[0]->Write(0, 3);
  cluster.RunFor(100'000);
  EXPECT_EQ(cluster.engines[0]->progress().MemberFloor(0), 0u) << "a missing member's is 0";
  cluster.Follow(1);
  ASSERT_TRUE(cluster.WaitEqual(1));
  EXPECT_EQ(cluster.engines[0]->members().members.size(), 1u);
}

TEST(Fence, NothingArrivesAfterwards) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kReceived, 1);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.nodes[0]->Write(0, 50, 200);
  cluster.engines[0]->Step(0);
  cluster.engines[1]->FenceAndStop("promotion");
  const Seq end = cluster.nodes[1]->shard(0).end();
  cluster.RunFor(1'000'000);
  EXPECT_EQ(cluster.nodes[1]->shard(0).end(), end);
  EXPECT_FALSE(cluster.engines[1]->follow_status().active);
}

TEST(Peers, AnswerWhoTheyArePromiseAndHearAnnouncements) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kNone, 0);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.WaitEqual(1));
  std::vector<PeerAnswer> answers;
  const auto keep = [&answers](std::vector<PeerAnswer> got) {
    answers = std::move(got);
  };
  cluster.engines[2]->AskPeers({cluster.addresses[0], cluster.addresses[1], "127.0.0.1:1"},
                               PeerQuestion::kWhoAreYou, 0, 2'000'000, keep);
  ASSERT_TRUE(cluster.RunUntil([&] { return !answers.empty(); }));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_TRUE(answers[0].status.ok());
  EXPECT_EQ(answers[0].facts.role, Role::kPrimary);
  EXPECT_EQ(answers[0].facts.ends[0].end, cluster.nodes[0]->shard(0).end());
  EXPECT_EQ(answers[1].facts.role, Role::kReplica);
  EXPECT_FALSE(answers[2].status.ok());

  answers.clear();
  cluster.engines[2]->AskPeers({cluster.addresses[1]}, PeerQuestion::kPromise, 9, 2'000'000, keep);
  ASSERT_TRUE(cluster.RunUntil([&] { return !answers.empty(); }));
  EXPECT_TRUE(answers[0].status.ok());
  EXPECT_EQ(cluster.nodes[1]->facts()->promised, 9u);
  answers.clear();
  cluster.engines[2]->AskPeers({cluster.addresses[1]}, PeerQuestion::kPromise, 8, 2'000'000, keep);
  ASSERT_TRUE(cluster.RunUntil([&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].status.ok());

  answers.clear();
  cluster.engines[0]->AskPeers({cluster.addresses[2]}, PeerQuestion::kAnnounce, 0, 2'000'000, keep);
  ASSERT_TRUE(cluster.RunUntil([&] { return !answers.empty(); }));
  EXPECT_EQ(cluster.nodes[2]->newer_primary_address, cluster.addresses[0]);
  EXPECT_EQ(cluster.nodes[2]->newer_primary.epochs, cluster.nodes[0]->facts()->epochs);
}

TEST(Peers, ATailIsFetchedWholeAndVerified) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kNone, 0);
  cluster.nodes[0]->Write(0, 30, 300'000);
  cluster.StepAll();
  Seq next = 5;
  absl::Status result = absl::UnknownError("");
  cluster.engines[1]->FetchTail(
      cluster.addresses[0], 0, 5, 5'000'000,
      [&](record::BatchRef batch) {
        EXPECT_EQ(batch->first_seq, next);
        next = batch->last_seq + 1;
        return true;
      },
      [&](absl::Status status) { result = std::move(status); });
  ASSERT_TRUE(cluster.RunUntil([&] { return result.code() != absl::StatusCode::kUnknown; }));
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(next, cluster.nodes[0]->shard(0).end() + 1);
}

}  // namespace
}  // namespace kvstored::replication
