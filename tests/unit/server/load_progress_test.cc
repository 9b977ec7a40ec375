// What a node says while it loads.
#include "server/load_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/server/threaded_node.h"

namespace kvstored::server {
namespace {

using ::testing::HasSubstr;
using Phase = LoadProgress::Phase;

TEST(LoadProgress, NamesThePhaseAndCountsWithinIt) {
  LoadProgress progress;
  EXPECT_EQ(progress.Text(), "starting");
  progress.Begin(Phase::kCheckpoint, 100);
  progress.Add(30);
  progress.Add(12);
  EXPECT_EQ(progress.Text(), "loading the checkpoint: 42 of 100 records");
  progress.Add(58);
  progress.Begin(Phase::kScan, 0);
  EXPECT_EQ(progress.Text(), "reading and checking the log");
  progress.Begin(Phase::kReplay, 7);
  EXPECT_EQ(progress.Text(), "replaying the log: 0 of 7 records");
  progress.Add(7);
  EXPECT_EQ(progress.Text(), "replaying the log: 7 of 7 records");
  EXPECT_EQ(progress.records(), 107u);
  progress.Begin(Phase::kTail, 2);
  EXPECT_EQ(progress.Text(), "reading the log's newest part: 0 of 2 records");
  progress.Begin(Phase::kDone, 0);
  EXPECT_EQ(progress.Text(), "loaded, taking up its role");
}

std::string StateOf(Node* node) {
  return nlohmann::json::parse(node->StatusJson())["state"].get<std::string>();
}

void WaitUntilWritable(Node* node) {
  while (!node->core()->gate.writable.load()) {
    std::this_thread::yield();
  }
}

TEST(LoadProgress, IsTheStateOfANodeThatLoads) {
  TemporaryDirectory directory;
  {
    ThreadedNode first(directory.path());
    first.RunShards();
    first.RunOthers();
    ASSERT_TRUE(first.node()->Load().ok());
    WaitUntilWritable(first.node());
  }
  ThreadedNode again(directory.path());
  EXPECT_EQ(StateOf(again.node()), "starting");
  again.RunOthers();
  std::thread loader([&again] { EXPECT_TRUE(again.node()->Load().ok()); });
  // It has read its log and waits for the shard's thread to apply it.
  while (StateOf(again.node()).find("replaying the log: 0 of ") == std::string::npos) {
    std::this_thread::yield();
  }
  std::string text;
  EXPECT_FALSE(again.node()->ready(&text));
  EXPECT_THAT(text, HasSubstr("loading: replaying the log: 0 of "));
  again.RunShards();
  loader.join();
  WaitUntilWritable(again.node());
  while (StateOf(again.node()) != "primary, epoch 2") {
    std::this_thread::yield();  // told a few times a second
  }
}

}  // namespace
}  // namespace kvstored::server
