// A replica whose log is damaged, and one whose device fails to read it (P24).
#include <gmock/gmock.h>

#include "log/checkpoint.h"
#include "log/damage.h"
#include "tests/unit/server/node_fixture.h"

namespace kvstored::server {
namespace {

class Damage : public NodesTest {
 protected:
  // A member that is down, whose log later frames prove to be persistent.
  SimMachine& DownReplica(const char* on_damage) {
    StandUp(2);
    machine(1).config.recovery.on_damage = on_damage;
    const int64_t until_us = clock_.now_us() + 1'000'000;
    EXPECT_TRUE(StepUntil([&] { return clock_.now_us() >= until_us; }));
    directory_ = machine(1).meta().data_set_directory;
    machine(1).Kill();
    return machine(1);
  }
  void FlipFirstFrame(SimMachine* of) {
    of->device.FlipBit(log::SegmentName(Identity::LogDirectory(directory_), 1),
                       log::kSegmentHeaderBytes + log::kFrameHeaderBytes + 8, 2);
  }
  static size_t SetAside(SimMachine* of) {
    const auto names = of->device.List("");
    EXPECT_TRUE(names.ok()) << names.status();
    return static_cast<size_t>(std::count_if(
        names->begin(), names->end(),
        [](const std::string& name) { return name.find(".damaged-") != std::string::npos; }));
  }

  std::string directory_;
};

TEST_F(Damage, StopsTheStartUnlessItIsToldToRejoin) {
  SimMachine& replica = DownReplica("refuse");
  FlipFirstFrame(&replica);
  const absl::Status refused = replica.Start();
  EXPECT_TRUE(log::IsDamage(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("recovery.on_damage = \"rejoin\""));
  EXPECT_EQ(SetAside(&replica), 0u);
  replica.Kill();
  replica.config.recovery.on_damage = "rejoin";
  ASSERT_TRUE(replica.Start().ok());
  EXPECT_FALSE(replica.meta().promotable);
  EXPECT_EQ(SetAside(&replica), 1u);
  EXPECT_TRUE(replica.node->restart_wanted());
  // The same member, with all that its primary has.
  EXPECT_TRUE(StepUntil([&] { return replica.node != nullptr && replica.meta().promotable; }));
  EXPECT_EQ(SetAside(&replica), 1u);
}

TEST_F(Damage, AReadThatFailsSetsNothingAside) {
  SimMachine& replica = DownReplica("rejoin");
  int failed = 0;
  for (uint64_t read = 0;; ++read) {
    replica.device.FailReadAfter(read);
    const absl::Status started = replica.Start();
    replica.device.Disarm();
    EXPECT_EQ(SetAside(&replica), 0u) << read;
    if (started.ok()) {
      break;
    }
    ++failed;
    EXPECT_EQ(started.code(), absl::StatusCode::kDataLoss) << started;
    EXPECT_FALSE(log::IsDamage(started)) << started;
    replica.Kill();
  }
  EXPECT_GT(failed, 3);
  EXPECT_EQ(replica.meta().data_set_directory, directory_);
  EXPECT_TRUE(replica.meta().promotable);
}

TEST_F(Damage, ACheckpointOfAnotherCopyIsRefused) {
  SimMachine& replica = DownReplica("rejoin");
  auto manifest = log::LoadManifest(&replica.device, directory_);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const size_t shard_count = manifest->shard_count;
  const auto expect_refused = [&](size_t shards, const char* text) {
    const std::vector<Seq> none(shards, 0);
    auto writer =
        log::CheckpointWriter::Begin(&replica.device, directory_, manifest->data_set, 7, none);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Finish(none, 1).ok());
    ASSERT_TRUE((*writer)->Publish(none, none).ok());
    const absl::Status refused = replica.Start();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(text));
    EXPECT_EQ(SetAside(&replica), 0u);
    replica.Kill();
  };
  expect_refused(shard_count + 1, "it has other shards, or begins before this copy does");
  manifest->start_seqs.back() = 1;
  ASSERT_TRUE(log::SaveManifest(&replica.device, directory_, *manifest).ok());
  expect_refused(shard_count, "it has other shards, or begins before this copy does");
}

}  // namespace
}  // namespace kvstored::server
