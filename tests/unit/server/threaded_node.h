// One node on a real disk and the real fabric, run by threads as the daemon runs it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <memory>
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

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(testing::TempDir() + "threaded_node_XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~TemporaryDirectory() {
    std::filesystem::remove_all(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const {
    return path_;
  }

 private:
  std::string path_;
};

// A primary of one shard that asks for nobody. Made, listening, not loaded; no thread runs yet.
class ThreadedNode {
 public:
  explicit ThreadedNode(const std::string& path) {
    Config config = SmallConfig();
    config.server.data_dir = path;
    config.server.shards = 1;
    config.log.segment_size_bytes = uint64_t{4} << 20;
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
  }
  ~ThreadedNode() {
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
  }
  ThreadedNode(const ThreadedNode&) = delete;
  ThreadedNode& operator=(const ThreadedNode&) = delete;

  void RunShards() {
    Run("shard", [this] { node_->threads()->thread(0)->Tick(1000); });
  }
  void RunOthers() {
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
  }
  Node* node() {
    return node_.get();
  }

 private:
  void Run(const std::string& name, std::function<void()> step) {
    threads_.push_back(std::make_unique<base::LoopThread>(name, std::move(step)));
  }

  base::SystemClock clock_;
  std::unique_ptr<NvmDevice> device_;
  std::unique_ptr<fabric::TcpFabric> fabric_;
  std::unique_ptr<Node> node_;
  std::vector<std::unique_ptr<base::LoopThread>> threads_;
};

}  // namespace kvstored::server
