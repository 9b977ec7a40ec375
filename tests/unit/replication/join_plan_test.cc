// The plan of a join: the common point, refusals, catch-up or full sync.
#include "replication/join_plan.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

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

}  // namespace
}  // namespace kvstored::replication
