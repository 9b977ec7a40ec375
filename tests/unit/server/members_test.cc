// When an incomplete member set refuses writes (P8).
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/server/node_fixture.h"

namespace kvstored::server {
namespace {

class MembersTest : public NodesTest {
 protected:
  // A primary that asks for nobody, and a replica that streams.
  void StandUpLearner() {
    StandUp(2);
    SetAckReplicas(0);
    ASSERT_TRUE(StepUntil([this] { return machine(0).meta().members.empty(); }));
  }
  void SetAckReplicas(uint32_t count) {
    machine(0).node->ConfigSet({{"replication.ack_replicas", std::to_string(count)}},
                               [](const absl::Status& set) { EXPECT_TRUE(set.ok()) << set; });
  }
  bool Refuses() {
    return machine(0).node->core()->gate.no_replicas.load();
  }
  int64_t CommitTimeoutUs() {
    return static_cast<int64_t>(machine(0).config.replication.commit_timeout_us);
  }
};

TEST_F(MembersTest, WritesWaitForAReplicaThatJoins) {
  StandUpLearner();
  SetAckReplicas(1);
  bool refused = false;
  EXPECT_TRUE(StepUntil([&] {
    refused = refused || Refuses();
    return machine(0).meta().members.size() == 1;
  }));
  EXPECT_FALSE(refused);
  EXPECT_FALSE(Refuses());
}

TEST_F(MembersTest, ButNoLongerThanForASilentMember) {
  StandUpLearner();
  SetAckReplicas(1);
  const int64_t began_us = clock_.now_us();
  while (!Refuses() && clock_.now_us() < began_us + 2 * CommitTimeoutUs()) {
    clock_.Advance(50);
    machine(0).Step();  // the replica's link is open, but it says nothing
  }
  EXPECT_TRUE(Refuses());
  EXPECT_GE(clock_.now_us() - began_us, CommitTimeoutUs());
  EXPECT_TRUE(StepUntil([this] { return machine(0).meta().members.size() == 1 && !Refuses(); }));
}

TEST_F(MembersTest, NobodyIsWaitedForWhereNobodyStreams) {
  StandUpLearner();
  machine(1).Kill();
  ASSERT_TRUE(StepUntil([this] { return machine(0).node->report().replicas.empty(); }));
  SetAckReplicas(1);
  const int64_t began_us = clock_.now_us();
  ASSERT_TRUE(StepUntil([this] { return Refuses(); }));
  EXPECT_LT(clock_.now_us() - began_us, CommitTimeoutUs());
  // One that streams is not enough for two places.
  ASSERT_TRUE(machine(1).Start().ok());
  ASSERT_TRUE(StepUntil([this] { return !Refuses(); }));
  SetAckReplicas(2);
  const int64_t raised_us = clock_.now_us();
  ASSERT_TRUE(StepUntil([this] { return Refuses(); }));
  EXPECT_LT(clock_.now_us() - raised_us, CommitTimeoutUs());
}

}  // namespace
}  // namespace kvstored::server
