// Members and the right to be promoted, the fence, questions between peers.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/replication/cluster.h"

namespace kvstored::replication {
namespace {

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
  cluster.StartPair(AckLevel::kReceived);
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
  cluster.StartPair(AckLevel::kReceived);
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
  cluster.StartPair(AckLevel::kReceived);
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
  cluster.StartPair(AckLevel::kReceived);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.Restart(1);
  cluster.nodes[0]->Write(0, 3);
  cluster.RunFor(100'000);
  EXPECT_EQ(cluster.engines[0]->progress().MemberFloor(0), 0u) << "a missing member's is 0";
  cluster.Follow(1);
  ASSERT_TRUE(cluster.WaitEqual(1));
  EXPECT_EQ(cluster.engines[0]->members().members.size(), 1u);
}

TEST(Members, ASilentMembersClockGoesOnWhenItsLinkEnds) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kPersisted);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.nodes[1]->facts()->promotable; }));
  Replication& primary = *cluster.engines[0];
  const auto primary_alone = [&](int64_t us) {
    for (const int64_t end_us = cluster.clock.now_us() + us; cluster.clock.now_us() < end_us;) {
      primary.Step(0);
      cluster.clock.Advance(1'000);
    }
  };
  cluster.RunFor(50'000);
  ASSERT_EQ(primary.progress().silent_since_us(), 0);
  cluster.nodes[0]->Write(0, 1);
  const int64_t stopped_us = cluster.clock.now_us();
  primary_alone(100'000);
  const int64_t since_us = primary.progress().silent_since_us();
  EXPECT_GE(since_us, stopped_us);
  primary_alone(2 * Cluster::SmallOptions().link_timeout_us);
  ASSERT_FALSE(primary.replicas().at(0).connected);
  EXPECT_EQ(primary.progress().silent_since_us(), since_us);
  // It goes on, and its log does not: a new link alone acknowledges nothing.
  cluster.nodes[1]->persist_at_once = false;
  ASSERT_TRUE(cluster.RunUntil([&] { return primary.replicas().at(0).connected; }));
  EXPECT_EQ(primary.progress().silent_since_us(), since_us);
  cluster.nodes[1]->persist_at_once = true;
  cluster.nodes[0]->Write(0, 1);
  ASSERT_TRUE(cluster.WaitEqual(1));
  cluster.RunFor(50'000);
  EXPECT_EQ(primary.progress().silent_since_us(), 0);
}

TEST(Fence, NothingArrivesAfterwards) {
  Cluster cluster;
  cluster.StartPair(AckLevel::kReceived);
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
  cluster.StartPair(AckLevel::kNone);
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
