#include "server/control_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvstored::server {
namespace {

using Words = std::vector<std::string>;
using ::testing::HasSubstr;

TEST(ControlRequest, WordsAndRequestsAreTheSame) {
  const Words all[] = {
      {"status"},
      {"checkpoint"},
      {"promote"},
      {"promote", "ack-replicas", "0"},
      {"promote", "ack-replicas", "8", "accept-loss"},
      {"demote"},
      {"demote", "10.0.0.1:7479"},
      {"member", "list"},
      {"member", "replace", "a", "b"},
      {"member", "replace", "a", "b", "force"},
      {"member", "drop", "a"},
      {"member", "drop", "a", "force"},
      {"join", "host:1"},
      {"join", "host:1", "discard-local-data"},
      {"replicaof", "10.0.0.1", "7379"},
      {"save"},
      {"bgsave"},
      {"shutdown"},
      {"shutdown", "nosave"},
  };
  for (const Words& words : all) {
    const absl::StatusOr<ControlRequest> request = ParseControl(words);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(ControlWords(*request), words);
  }
}

TEST(ControlRequest, ReadsOptionsInAnyOrderAndCase) {
  const auto request = ParseControl({"PROMOTE", "Accept-Loss", "ACK-REPLICAS", "2"});
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->accept_loss);
  EXPECT_EQ(request->ack_replicas, 2u);
  EXPECT_FALSE(ParseControl({"promote"})->ack_replicas.has_value());
}

TEST(ControlRequest, RefusesWhatItDoesNotKnowAndSaysWhatThereIs) {
  const Words bad[] = {
      {},
      {"explode"},
      {"status", "now"},
      {"promote", "ack-replicas"},
      {"promote", "ack-replicas", "9"},
      {"promote", "ack-replicas", "-1"},
      {"promote", "force"},
      {"demote", "nowhere"},
      {"member"},
      {"member", "drop"},
      {"member", "drop", "a", "now"},
      {"member", "replace", "a"},
      {"join"},
      {"join", "host"},
      {"join", "host:1", "discard"},
      {"replicaof", "host"},
      {"replicaof", "host", "0"},
      {"shutdown", "later"},
  };
  for (const Words& words : bad) {
    const absl::StatusOr<ControlRequest> request = ParseControl(words);
    ASSERT_FALSE(request.ok()) << (words.empty() ? "nothing" : words.back());
    EXPECT_THAT(std::string(request.status().message()), HasSubstr("usage: KVSTORED"));
  }
}

}  // namespace
}  // namespace kvstored::server
