#include "log/meta.h"

#include <gmock/gmock.h>

#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

using ::testing::HasSubstr;

Meta Sample() {
  Meta meta;
  meta.role = Role::kReplica;
  meta.store = kDataSet;
  meta.data_set = {{0xff, 0, 1}};
  meta.data_set_directory = "set-1";
  meta.members = {{kDataSet, "10.0.0.1:7479"}};
  meta.known_nodes = {{kDataSet, "10.0.0.1:7479"}, {{{9}}, "[::1]:7479"}};
  meta.promise = 7;
  meta.highest_epoch = 4294967295;
  meta.promotable = true;
  meta.ack = AckLevel::kPersisted;
  meta.ack_replicas = 1;
  meta.primary_address = "10.0.0.2:7479";
  meta.boot_id = "f5b8\"\n";
  return meta;
}

TEST(MetaTest, RoundTrip) {
  sim::SimNvmDevice device(1);
  EXPECT_TRUE(absl::IsNotFound(LoadMeta(&device).status()));
  ASSERT_TRUE(SaveMeta(&device, Sample()).ok());
  device.PowerCut();
  auto meta = LoadMeta(&device);
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_EQ(*meta, Sample());
  ASSERT_TRUE(SaveMeta(&device, Meta()).ok());
  meta = LoadMeta(&device);
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_EQ(*meta, Meta());
}

TEST(MetaTest, CrashAtEveryCallLeavesOldOrNew) {
  for (uint64_t cut_at = 0; cut_at < 8; ++cut_at) {
    sim::SimNvmDevice device(cut_at + 1);
    ASSERT_TRUE(SaveMeta(&device, Meta()).ok());
    device.CrashAfter(cut_at);
    const bool saved = SaveMeta(&device, Sample()).ok();
    device.PowerCut();
    auto meta = LoadMeta(&device);
    ASSERT_TRUE(meta.ok()) << meta.status();
    EXPECT_TRUE(*meta == Sample() || (!saved && *meta == Meta()));
    ASSERT_TRUE(SaveMeta(&device, Sample()).ok());
  }
}

TEST(MetaTest, EveryFlippedBitIsReported) {
  sim::SimNvmDevice device(1);
  ASSERT_TRUE(SaveMeta(&device, Sample()).ok());
  const size_t size_bytes = device.Contents()[kMetaName].size();
  for (size_t offset = 0; offset < size_bytes; ++offset) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      device.FlipBit(kMetaName, offset, bit);
      const absl::Status status = LoadMeta(&device).status();
      EXPECT_FALSE(status.ok()) << offset;
      EXPECT_THAT(std::string(status.message()), HasSubstr("sim/meta"));
      device.FlipBit(kMetaName, offset, bit);
    }
  }
}

TEST(MetaTest, NewerVersionIsRefused) {
  sim::SimNvmDevice device(1);
  const std::string text = "kvstored meta 2 crc32c=00000000\n{}";
  device.SetContents(kMetaName, {text.begin(), text.end()});
  EXPECT_EQ(LoadMeta(&device).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(MetaTest, ManifestRoundTrip) {
  sim::SimNvmDevice device(1);
  ASSERT_TRUE(device.MakeDirectory("set-1").ok());
  Manifest manifest;
  manifest.data_set = kDataSet;
  manifest.seed = {{5, 6}};
  manifest.shard_count = 2;
  manifest.start_seqs = {0, 18446744073709551615U};
  manifest.epochs = {{{1, 0xfedcba9876543210}, {1, 1}}, {{3, 5}, {100, 200}}};
  ASSERT_TRUE(SaveManifest(&device, "set-1", manifest).ok());
  auto loaded = LoadManifest(&device, "set-1");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, manifest);
  manifest.start_seqs.pop_back();  // inconsistent: written, never believed
  ASSERT_TRUE(SaveManifest(&device, "set-1", manifest).ok());
  EXPECT_THAT(std::string(LoadManifest(&device, "set-1").status().message()),
              HasSubstr("start_seqs"));
}

TEST(MetaTest, LogFilesRoundTripAndFlippedBits) {
  sim::SimNvmDevice device(1);
  ASSERT_TRUE(device.MakeDirectory("set-1").ok());
  auto loaded = LoadLogFiles(&device, "set-1/log");
  EXPECT_TRUE(absl::IsNotFound(loaded.status())) << loaded.status();
  const LogFiles files{
      .newest = 12, .segment_bytes = uint64_t{64} << 20, .begun = 10, .persisted = {77, 0}};
  ASSERT_TRUE(SaveLogFiles(&device, "set-1/log", files).ok());
  device.PowerCut();
  loaded = LoadLogFiles(&device, "set-1/log");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, files);
  const std::string name = "set-1/log_files";
  for (size_t offset = 0; offset < device.Contents().at(name).size(); ++offset) {
    device.FlipBit(name, offset, 2);
    EXPECT_THAT(std::string(LoadLogFiles(&device, "set-1/log").status().message()),
                HasSubstr("sim/set-1/log_files"));
    device.FlipBit(name, offset, 2);
  }
}

}  // namespace
}  // namespace kvstored::log
