// CONFIG SET beside the threads of a node that read the configuration: the thread sanitizer judges.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/server/threaded_node.h"

namespace kvstored::server {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

class NodeConfigTest : public testing::Test {
 protected:
  NodeConfigTest() : threaded_(directory_.path()), node_(threaded_.node()) {
    threaded_.RunShards();
    threaded_.RunOthers();
    EXPECT_TRUE(node_->Load().ok());
  }
  std::string Get(const std::string& name) {
    const Pairs found = node_->ConfigGet(name);
    return found.size() == 1 ? found[0].second : "?";
  }

  TemporaryDirectory directory_;
  ThreadedNode threaded_;
  Node* const node_;
};

TEST_F(NodeConfigTest, SetWhileOthersRead) {
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load()) {
      EXPECT_NE(node_->InfoSection("server").find("tcp_port:"), std::string::npos);
      EXPECT_FALSE(node_->ConfigGet("*").empty());
      std::this_thread::yield();
    }
  });
  for (int i = 1; i <= 100; ++i) {
    const std::string n = std::to_string(i);
    EXPECT_FALSE(node_->ConfigSet({{"replication.commit_timeout", n + "ms0"}}).ok());
    const absl::Status set = node_->ConfigSet({{"replication.commit_timeout", n + "0ms"},
                                               {"log.checkpoint_interval", n + "h"},
                                               {"log.checkpoint_log_size", n + "GiB"},
                                               {"maxmemory", std::to_string(100 + i) + "mb"},
                                               {"timeout", n}});
    if (i <= 24) {
      EXPECT_TRUE(set.ok()) << set;
    } else {
      EXPECT_FALSE(set.ok()) << "an interval of more than 24 hours";
    }
  }
  stop.store(true);
  reader.join();
  EXPECT_EQ(Get("replication.commit_timeout"), "240ms");
  EXPECT_EQ(Get("maxmemory"), std::to_string(uint64_t{124} << 20));
}

TEST_F(NodeConfigTest, ChecksRulesBetweenKeysAsAtTheStart) {
  const absl::Status crossed = node_->ConfigSet({{"replication.gate_timeout", "100ms"}});
  EXPECT_FALSE(crossed.ok());
  EXPECT_NE(std::string(crossed.message()).find("CONFIG SET failed - replication.gate_timeout"),
            std::string::npos)
      << crossed;
  EXPECT_EQ(Get("replication.gate_timeout"), "10s");
  EXPECT_TRUE(node_
                  ->ConfigSet({{"replication.gate_timeout", "100ms"},
                               {"replication.commit_timeout", "100ms"}})
                  .ok());
  EXPECT_FALSE(node_->ConfigSet({{"maxmemory", "1mb"}}).ok());
  // The pool of 64 MiB that it started with is nobody's wish.
  EXPECT_TRUE(node_->ConfigSet({{"maxmemory", "32mb"}}).ok());
  // 0 is half of the machine here too, and the pool hears of it.
  EXPECT_TRUE(node_->ConfigSet({{"maxmemory", "0"}}).ok());
  EXPECT_EQ(Get("maxmemory"), std::to_string(ThisMachine().memory_bytes / 2));
  EXPECT_EQ(node_->core()->pool.max_bytes(), ThisMachine().memory_bytes / 2);
}

TEST_F(NodeConfigTest, AnswersWhenTheMemberSetIsInForce) {
  while (!node_->core()->gate.writable.load()) {  // nobody is a primary before its epoch is open
    std::this_thread::yield();
  }
  const auto set = [this](Pairs pairs) {
    std::promise<absl::Status> result;
    node_->ConfigSet(std::move(pairs),
                     [&result](const absl::Status& status) { result.set_value(status); });
    return result.get_future().get();
  };
  EXPECT_TRUE(set({{"replication.ack_replicas", "2"}, {"timeout", "7"}}).ok());
  EXPECT_EQ(Get("replication.ack_replicas"), "2");
  EXPECT_EQ(Get("timeout"), "7");
  EXPECT_FALSE(set({{"replication.ack_replicas", "9"}}).ok());
  EXPECT_FALSE(node_->ConfigSet({{"replication.ack_replicas", "0"}, {"timeout", "8"}}).ok());
  EXPECT_EQ(Get("timeout"), "7");
  EXPECT_EQ(Get("replication.ack_replicas"), "2");
  EXPECT_TRUE(set({{"replication.ack_replicas", "0"}}).ok());
  EXPECT_EQ(Get("replication.ack_replicas"), "0");
}

}  // namespace
}  // namespace kvstored::server
