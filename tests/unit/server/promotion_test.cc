// Promotions beside each other: never two primaries where the nodes can reach each other.
#include <gmock/gmock.h>

#include <optional>

#include "tests/unit/server/node_fixture.h"

namespace kvstored::server {
namespace {

using ::testing::HasSubstr;
using Answer = std::optional<absl::StatusOr<std::string>>;

class PromotionTest : public NodesTest {
 protected:
  static void Promote(SimMachine* machine, Answer* answer) {
    machine->node->Control(
        {"promote", "ack-replicas", "0"},
        [answer](absl::StatusOr<std::string> said) { *answer = std::move(said); });
  }
};

TEST_F(PromotionTest, TwoAtOnceBothFailAndSayWhy) {
  StandUp(3);
  machine(0).Kill();
  Answer second;
  Answer third;
  Promote(&machine(1), &second);
  Promote(&machine(2), &third);
  ASSERT_TRUE(StepUntil([&] { return second && third; }));
  for (const auto& [answer, other] : {std::pair{&second, &machine(2)}, {&third, &machine(1)}}) {
    EXPECT_FALSE((*answer)->ok());
    EXPECT_THAT(std::string((*answer)->status().message()), HasSubstr(other->address()));
    EXPECT_THAT(std::string((*answer)->status().message()), HasSubstr("try again"));
  }
  // Both are the replicas that they were; one by itself is promoted.
  EXPECT_EQ(machine(1).meta().role, Role::kReplica);
  EXPECT_EQ(machine(2).meta().role, Role::kReplica);
  second.reset();
  Promote(&machine(1), &second);
  ASSERT_TRUE(StepUntil([&] { return second.has_value(); }));
  EXPECT_TRUE(second->ok()) << second->status();
  third.reset();
  Promote(&machine(2), &third);
  ASSERT_TRUE(StepUntil([&] { return third.has_value(); }));
  EXPECT_FALSE(third->ok());
}

// It heard of the new primary, and died before it noted that: the announcement is not repeated.
TEST_F(PromotionTest, WhoHasNoPrimaryAsksTheNodesThatItKnows) {
  StandUp(2);
  Answer demoted;
  machine(0).node->Control(
      {"demote"}, [&demoted](absl::StatusOr<std::string> said) { demoted = std::move(said); });
  ASSERT_TRUE(StepUntil([&] { return demoted.has_value(); }));
  ASSERT_TRUE(demoted->ok()) << demoted->status();
  Answer promoted;
  Promote(&machine(1), &promoted);
  const auto follows = [this] {
    return machine(0).meta().primary_address == machine(1).address();
  };
  ASSERT_TRUE(StepUntil([&] { return promoted.has_value() && follows(); }));
  ASSERT_TRUE(promoted->ok()) << promoted->status();
  machine(0).Kill();
  absl::StatusOr<log::Meta> meta = log::LoadMeta(&machine(0).device);
  ASSERT_TRUE(meta.ok()) << meta.status();
  meta->primary_address = "";
  ASSERT_TRUE(log::SaveMeta(&machine(0).device, *meta).ok());
  ASSERT_TRUE(machine(0).Start().ok());
  EXPECT_TRUE(StepUntil(follows));
}

// Whenever the second one begins, it fails or it comes after the first in one history.
TEST_F(PromotionTest, NeverTwoHistories) {
  for (int later = 0; later < 24; ++later) {
    machines_.clear();
    StandUp(3);
    machine(0).Kill();
    Answer second;
    Answer third;
    Promote(&machine(1), &second);
    const int64_t at_us = clock_.now_us() + later * 50;
    ASSERT_TRUE(StepUntil([&] { return clock_.now_us() >= at_us; }));
    Promote(&machine(2), &third);
    ASSERT_TRUE(StepUntil([&] { return second && third; }));
    EXPECT_FALSE(second->ok() && third->ok()) << later;
  }
}

}  // namespace
}  // namespace kvstored::server
