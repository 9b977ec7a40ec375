// What answers of other nodes mean for a promotion.
#include "server/promotion_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvstored::server {
namespace {

using replication::NodeFacts;
using replication::PeerAnswer;
using ::testing::HasSubstr;

const Id128 kCandidateSet = {{1}};

NodeFacts FactsUpTo(Seq end) {
  NodeFacts facts;
  facts.data_set_id = kCandidateSet;
  facts.store_id = {{static_cast<uint8_t>(end)}};
  facts.shard_count = 1;
  facts.epochs = {{{1, 0x11}, {1}}, {{3, 0x33}, {50}}};
  facts.ends = {{end, 0}};
  return facts;
}

PeerAnswer AnswerOf(NodeFacts facts) {
  return {.address = "10.0.0.2:7479", .status = absl::OkStatus(), .facts = std::move(facts)};
}

TEST(PromotionCheck, NotBesideAPeerThatOpensAnEpoch) {
  NodeFacts peer = FactsUpTo(60);
  peer.opening_epoch = true;
  for (const bool accept_loss : {false, true}) {
    const absl::Status judged = JudgePromotion(FactsUpTo(70), {AnswerOf(peer)}, accept_loss);
    EXPECT_EQ(judged.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(judged.message()), HasSubstr("10.0.0.2:7479"));
    EXPECT_THAT(std::string(judged.message()), HasSubstr("try again"));
  }
  // Another data set's promotions, and what nobody has heard of, are no business of ours.
  peer.data_set_id = {{2}};
  EXPECT_TRUE(JudgePromotion(FactsUpTo(70), {AnswerOf(peer)}, false).ok());
  peer.data_set_id = kCandidateSet;
  NodeFacts itself = FactsUpTo(70);
  itself.opening_epoch = true;
  EXPECT_TRUE(JudgePromotion(FactsUpTo(70), {AnswerOf(itself)}, false).ok());
  PeerAnswer silent = AnswerOf(peer);
  silent.status = absl::UnavailableError("no answer");
  EXPECT_TRUE(JudgePromotion(FactsUpTo(70), {silent}, false).ok());
}

TEST(PromotionCheck, NotBelowANewerEpochOrALongerLog) {
  EXPECT_TRUE(JudgePromotion(FactsUpTo(70), {AnswerOf(FactsUpTo(70))}, false).ok());
  const absl::Status shorter = JudgePromotion(FactsUpTo(70), {AnswerOf(FactsUpTo(71))}, false);
  EXPECT_THAT(std::string(shorter.message()), HasSubstr("longer log (71 records, here 70)"));
  EXPECT_TRUE(JudgePromotion(FactsUpTo(70), {AnswerOf(FactsUpTo(71))}, true).ok());
  NodeFacts newer = FactsUpTo(60);
  newer.epochs.push_back({{4, 0x44}, {60}});
  const absl::Status older = JudgePromotion(FactsUpTo(70), {AnswerOf(newer)}, false);
  EXPECT_THAT(std::string(older.message()), HasSubstr("newer epoch (4)"));
  EXPECT_TRUE(JudgePromotion(FactsUpTo(70), {AnswerOf(newer)}, true).ok());
}

TEST(PromotionCheck, NumbersAreAboveAllThatWasHeardOf) {
  NodeFacts other = FactsUpTo(60);
  other.promised = 9;
  EXPECT_EQ(HighestEpochOf(kCandidateSet, {}), 0u);
  EXPECT_EQ(HighestEpochOf(kCandidateSet, {AnswerOf(FactsUpTo(60))}), 3u);
  EXPECT_EQ(HighestEpochOf(kCandidateSet, {AnswerOf(FactsUpTo(60)), AnswerOf(other)}), 9u);
  EXPECT_EQ(HighestEpochOf({{2}}, {AnswerOf(other)}), 0u);
}

}  // namespace
}  // namespace kvstored::server
