// What a node says of itself: whether it would accept a write, and why not.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/unit/server/node_fixture.h"

namespace kvstored::server {
namespace {

using ::testing::HasSubstr;

class StatusTest : public NodesTest {
 protected:
  nlohmann::json Status(size_t i) {
    return nlohmann::json::parse(machine(i).node->StatusJson());
  }
  std::string Refusal(size_t i = 0) {
    const nlohmann::json status = Status(i);
    EXPECT_EQ(status["writable"].get<bool>(), status["refuses_writes"] == "");
    return status["refuses_writes"].get<std::string>();
  }
  shard::NodeGate& gate() {
    return machine(0).node->core()->gate;
  }
  void StandUpAlone() {
    StandUp(1);
    ASSERT_TRUE(StepUntil([this] { return gate().writable.load(); }));
  }
};

TEST_F(StatusTest, ReplicasAndPrimariesWithoutAcknowledgementsRefuseWrites) {
  StandUp(2);
  EXPECT_EQ(Refusal(0), "");
  EXPECT_EQ(Refusal(1), "this node is a replica (-READONLY)");
  std::string text;
  EXPECT_TRUE(StepUntil([&] {  // told a few times a second
    return machine(1).node->ready(&text) && text == "replica of " + machine(0).address();
  }));
  machine(1).Kill();
  ASSERT_TRUE(StepUntil([this] { return gate().no_replicas.load(); }));
  EXPECT_THAT(Refusal(), HasSubstr("does not acknowledge (-NOREPLICAS)"));
  EXPECT_TRUE(machine(0).node->ready(&text)) << "it serves reads";
  EXPECT_THAT(text, HasSubstr("primary, epoch 1; writes are refused: the member set"));
}

TEST_F(StatusTest, AFullDiskRefusesWritesOnceWhatLiesReadyIsUsedUp) {
  StandUpAlone();
  gate().disk_full.store(true);
  EXPECT_EQ(Refusal(), "");
  gate().disk_full.store(false);
  log::Log* log = machine(0).node->core()->log();
  machine(0).device.SetCapacity(0);
  uint64_t reserved_bytes = 0;
  while (log->Reserve(4096) == OpResult::kOk) {
    reserved_bytes += 4096;
  }
  EXPECT_EQ(Refusal(), "") << "nobody knows yet whether the log can grow";
  ASSERT_TRUE(StepUntil([this] { return !Refusal().empty(); }));
  EXPECT_EQ(Refusal(), "the log's file system is full (-MISCONF)");
  log->Return(reserved_bytes);
  machine(0).device.SetCapacity(UINT64_MAX / 2);
  EXPECT_TRUE(StepUntil([this] { return Refusal().empty(); }));
}

TEST_F(StatusTest, EveryOtherReason) {
  StandUpAlone();
  EXPECT_EQ(Refusal(), "");
  memory::RegionPool& pool = machine(0).node->core()->pool;
  const uint64_t max_bytes = pool.max_bytes();
  pool.SetMaxBytes(static_cast<uint64_t>(pool.charged_bytes()) + 100);
  EXPECT_EQ(Refusal(), "memory.max_memory is reached (-OOM)");
  pool.SetMaxBytes(max_bytes);
  gate().writable.store(false);
  EXPECT_EQ(Refusal(), "no epoch of this node is open (-NOREPLICAS)");
  gate().stepped_down.store(true);
  EXPECT_THAT(Refusal(), HasSubstr("(-MISCONF)"));
  gate().loading.store(true);
  EXPECT_EQ(Refusal(), "the data set is not complete (-LOADING)");
}

}  // namespace
}  // namespace kvstored::server
