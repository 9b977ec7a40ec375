// Damage is told from a device that fails to read: only what verification finds has the mark.
#include "log/damage.h"

#include "log/checkpoint.h"
#include "log/meta.h"
#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

TEST(DamageMark, StaysWithTheErrorWhateverItsTextBecomes) {
  const absl::Status damage = DamageError("a bad frame");
  EXPECT_EQ(damage.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(IsDamage(damage));
  EXPECT_TRUE(IsDamage(Reworded(damage, "data: a bad frame")));
  EXPECT_EQ(Reworded(damage, "data: a bad frame").message(), "data: a bad frame");
  EXPECT_FALSE(IsDamage(absl::DataLossError("reading: Input/output error")));
  EXPECT_FALSE(IsDamage(Reworded(absl::DataLossError("reading"), "data: reading")));
  EXPECT_FALSE(IsDamage(absl::OkStatus()));
}

// A log of several segments, persisted to its end.
void FillSegments(Harness* h) {
  h->Create();
  for (int i = 0; i < 36; ++i) {
    h->SubmitRandom(60);
    h->log->Step();
  }
  ASSERT_TRUE(h->log->Close().ok());
  ASSERT_GE(h->log->segments().Count(), 2u);
  h->log.reset();
}

absl::Status ReadBack(Harness* h) {
  const auto recovery = h->Scan();
  return recovery.ok() ? h->ReadAll(recovery->get()).status() : recovery.status();
}

TEST(DamageMark, AFlippedBitOfTheLogHasIt) {
  Harness h(2, 8 << 10);
  FillSegments(&h);
  int found = 0;
  for (const auto& [name, bytes] : h.device.Contents()) {
    for (uint64_t offset = 0; offset < bytes.size(); offset += 7) {
      h.device.FlipBit(name, offset, 3);
      const absl::Status status = ReadBack(&h);
      EXPECT_EQ(IsDamage(status), !status.ok()) << status;
      found += status.ok() ? 0 : 1;
      h.device.FlipBit(name, offset, 3);
    }
  }
  EXPECT_GT(found, 100);
}

TEST(DamageMark, AReadThatFailsHasItNever) {
  Harness h(2, 8 << 10);
  FillSegments(&h);
  int failed = 0;
  for (uint64_t read = 0;; ++read) {
    h.device.FailReadAfter(read);
    const absl::Status status = ReadBack(&h);
    h.device.Disarm();
    if (status.ok()) {
      break;
    }
    ++failed;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_FALSE(IsDamage(status)) << status;
  }
  EXPECT_GT(failed, 5);
}

TEST(DamageMark, MissingRecordsHaveIt) {
  Harness h(2, 8 << 10);
  FillSegments(&h);
  ASSERT_TRUE(h.device.Remove(SegmentName(kLogDirectory, 1)).ok());
  const absl::Status status = ReadBack(&h);
  EXPECT_TRUE(IsDamage(status)) << status;
}

// Of manifest and meta as well.
TEST(DamageMark, Texts) {
  sim::SimNvmDevice device(1);
  ASSERT_TRUE(SaveMeta(&device, {}).ok());
  ASSERT_TRUE(LoadMeta(&device).ok());
  device.FailReadAfter(0);
  EXPECT_EQ(LoadMeta(&device).status().code(), absl::StatusCode::kDataLoss);
  device.FailReadAfter(0);
  EXPECT_FALSE(IsDamage(LoadMeta(&device).status()));
  device.FlipBit(kMetaName, device.Contents()[kMetaName].size() / 2, 1);
  EXPECT_TRUE(IsDamage(LoadMeta(&device).status()));
}

}  // namespace
}  // namespace kvstored::log
