// CONFIG SET beside the threads of a node that read the configuration: the thread sanitizer judges.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/system_clock.h"
#include "base/thread.h"
#include "fabric/tcp/tcp_fabric.h"
#include "nvm/disk/disk_device.h"
#include "server/node.h"
#include "tests/unit/server/small_config.h"

namespace kvstored::server {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

class NodeConfigTest : public testing::Test {
 protected:
  NodeConfigTest() {
    std::string path = testing::TempDir() + "node_config_XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
    Config config = SmallConfig();
    config.server.data_dir = path;
    config.replication.port = 0;
    config.replication.ack_replicas = 0;
    auto device = nvm::OpenDiskDevice(path);
    EXPECT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    fabric_ = std::make_unique<fabric::TcpFabric>(fabric::TcpOptions{}, &clock_);
    auto node = Node::Create(
        config,
        {.clock = &clock_, .device = device_.get(), .fabric = fabric_.get(), .random_seed = 7},
        "this boot");
    EXPECT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
    EXPECT_TRUE(node_->Start().ok());
    Run("shard", [this] { node_->threads()->thread(0)->Tick(1000); });
    Run("log", [this] {
      if (!node_->StepLog(1000)) {
        std::this_thread::yield();
      }
    });
    Run("replication", [this] { node_->StepReplication(1000); });
    Run("background", [this] {
      if (!node_->StepBackground()) {
        node_->core()->background_event.Wait(1000);
      }
    });
    EXPECT_TRUE(node_->Load().ok());
  }
  ~NodeConfigTest() override {
    NodeCore* core = node_->core();
    for (auto& thread : threads_) {
      thread->Stop([core] {
        core->threads->WakeAll();
        core->replication->Wake();
        core->background_event.Set();
        if (core->log() != nullptr) {
          core->log()->Wake();
        }
      });
    }
    node_.reset();
    fabric_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Run(const std::string& name, std::function<void()> step) {
    threads_.push_back(std::make_unique<base::LoopThread>(name, std::move(step)));
  }
  std::string Get(const std::string& name) {
    const Pairs found = node_->ConfigGet(name);
    return found.size() == 1 ? found[0].second : "?";
  }

  base::SystemClock clock_;
  std::string directory_;
  std::unique_ptr<NvmDevice> device_;
  std::unique_ptr<fabric::TcpFabric> fabric_;
  std::unique_ptr<Node> node_;
  std::vector<std::unique_ptr<base::LoopThread>> threads_;
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
