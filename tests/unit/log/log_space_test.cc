// Space of the log: promised, taken, given back, used again (P25).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

// Marks take space that nobody reserved: what was promised must be there all the same (P25).
TEST(LogSpaceTest, MarksNeverEatPromisedSpace) {
  Harness h(1, 8 << 10);
  h.Create();
  const std::string value;
  const size_t bytes = record::EncodedBytes(3, 0);  // the key is "key"
  int promised = 0;
  while (h.log->Reserve(bytes) == OpResult::kOk) {
    ++promised;
  }
  ASSERT_GT(promised, 10);
  h.device.SetCapacity(h.device.UsedBytesNow());  // no other segment
  for (int i = 1; i <= promised; ++i) {
    h.SubmitValues(0, {value});
    h.log->Step();
    h.log->NoteCommitted(0, static_cast<Seq>(i));
    h.clock.now_us += 100'000;
    h.log->Step();
  }
  EXPECT_EQ(h.marks.failures, 0) << h.marks.failure;
  EXPECT_EQ(h.log->persisted(0), static_cast<Seq>(promised));
}

TEST(LogSpaceTest, RecyclesSegmentsAndNeverBelievesTheOldLife) {
  Harness h(2, 16 << 10);
  h.options.retain_bytes = 0;
  h.Create();
  std::vector<Seq> checkpoint(2);
  for (int round = 0; round < 200; ++round) {
    h.SubmitRandom();
    h.SubmitRandom();
    h.log->Step();
    if (round % 10 == 9) {
      checkpoint = h.marks.persisted;
      h.log->Retain(checkpoint);
    }
    while (h.log->NeedsSegment()) {
      ASSERT_TRUE(h.log->PrepareSegment().ok());
    }
    if (round % 20 == 19) {
      h.log.reset();
      h.device.PowerCut();
      RecoveryOptions options = h.ScanOptions();
      options.needed_from = checkpoint;
      options.checkpoint_end = checkpoint;
      auto recovery = Recovery::Scan(options);
      ASSERT_TRUE(recovery.ok()) << recovery.status();
      h.ExpectPrefix(recovery->get());
      EXPECT_EQ((*recovery)->result().shards[0].last_seq, h.submitted[0].size());
      EXPECT_EQ((*recovery)->result().shards[1].last_seq, h.submitted[1].size());
      auto log = Log::Open(h.options, (*recovery)->TakeTail());
      ASSERT_TRUE(log.ok()) << log.status();
      h.log = *std::move(log);
    }
  }
  EXPECT_LE(h.device.Contents().size(), 8u);  // files are used again
}

TEST(LogSpaceTest, FullDiskRefusesReservationsAndRecovers) {
  Harness h(1, 64 << 10);
  h.device.SetCapacity(250 << 10);  // three segments, no more
  h.options.retain_bytes = 0;
  h.Create();
  uint64_t written = 0;
  const std::string value(1000, 'v');
  const uint64_t record_bytes = record::EncodedBytes(3, value.size());
  while (h.log->Reserve(record_bytes) == OpResult::kOk) {
    h.SubmitValues(0, {value});
    h.log->Step();
    const absl::Status status = h.log->PrepareSegment();
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    ++written;
    ASSERT_LT(written, 1000u);
  }
  EXPECT_GT(written, 50u);
  EXPECT_EQ(h.marks.failures, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(h.log->PrepareSegment()));
  EXPECT_EQ(h.log->Reserve(record_bytes), OpResult::kDiskFull);
  // Reads go on, nothing is lost, and the epoch's own record still fits.
  h.SubmitValues(0, {"epoch_begin"});
  h.log->Step();
  EXPECT_EQ(h.marks.persisted[0], written + 1);
  // Space comes free: writes work again by themselves.
  h.log->Retain(h.marks.persisted);
  ASSERT_TRUE(h.log->PrepareSegment().ok());
  EXPECT_EQ(h.log->Reserve(record_bytes), OpResult::kOk);
  EXPECT_EQ(h.marks.failures, 0);
}

TEST(LogSpaceTest, FullDiskTakesBackWhatIsKeptForCatchUp) {
  Harness h(1, 64 << 10);
  h.device.SetCapacity(400 << 10);
  h.options.retain_bytes = 1 << 30;
  h.Create();
  const std::string value(1000, 'v');
  const uint64_t record_bytes = record::EncodedBytes(3, value.size());
  for (int i = 0; i < 2000; ++i) {  // 2 MB through 400 KB
    ASSERT_EQ(h.log->Reserve(record_bytes), OpResult::kOk) << i;
    h.SubmitValues(0, {value});
    h.log->Step();
    h.log->Retain(h.marks.persisted);
    while (h.log->NeedsSegment()) {
      ASSERT_TRUE(h.log->PrepareSegment().ok());
    }
  }
  EXPECT_GE(h.log->segments().Count(), 3u);  // what fits is kept
  EXPECT_EQ(h.marks.failures, 0);
}

// What left the chain is used again only while the room for the next checkpoint is there (P25).
TEST(LogSpaceTest, TheReserveIsNotEatenByRecycledSegments) {
  Harness h(1, 64 << 10);
  h.options.retain_bytes = 0;
  h.Create();
  const std::string value(1000, 'v');
  const uint64_t record_bytes = record::EncodedBytes(3, value.size());
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(h.log->Reserve(record_bytes), OpResult::kOk) << i;
    h.SubmitValues(0, {value});
    h.log->Step();
    while (h.log->NeedsSegment()) {
      ASSERT_TRUE(h.log->PrepareSegment().ok());
    }
  }
  constexpr uint64_t kReserve = 200 << 10;
  h.device.SetCapacity(h.device.UsedBytesNow() + (10 << 10));
  h.log->SetReserveBytes(kReserve);
  h.log->Retain(h.marks.persisted);  // segments come free, some of them to be recycled
  while (h.log->Reserve(record_bytes) == OpResult::kOk) {
    h.SubmitValues(0, {value});
    h.log->Step();
    const absl::Status status = h.log->PrepareSegment();
    ASSERT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
  }
  const auto free_bytes = h.device.FreeBytes();
  ASSERT_TRUE(free_bytes.ok());
  EXPECT_GE(*free_bytes, kReserve);
}

TEST(LogSpaceTest, ReservedSpaceHoldsTheWorstSplit) {
  Harness h(1, 64 << 10);
  h.device.SetCapacity(250 << 10);
  h.Create();
  const uint64_t record_bytes = record::EncodedBytes(3, 1);
  uint64_t reserved = 0;
  while (h.log->Reserve(record_bytes) == OpResult::kOk) {
    ++reserved;
  }
  EXPECT_GT(reserved, 100u);
  for (uint64_t i = 0; i < reserved; ++i) {
    h.SubmitValues(0, {"v"});  // every record in a frame of its own
    h.log->Step();
  }
  EXPECT_EQ(h.marks.failures, 0) << h.marks.failure;
  EXPECT_EQ(h.marks.persisted[0], reserved);
}

TEST(LogSpaceTest, ReturnGivesSpaceBackAndDemandMakesMore) {
  Harness h(1, 64 << 10);
  h.Create();
  const uint64_t all = h.log->ReservableBytes();
  ASSERT_EQ(h.log->Reserve(all), OpResult::kOk);
  EXPECT_EQ(h.log->Reserve(1), OpResult::kWait);
  h.log->Return(all);
  EXPECT_EQ(h.log->ReservableBytes(), all);
  EXPECT_EQ(h.log->Reserve(4 * all), OpResult::kWait);
  while (h.log->NeedsSegment()) {
    ASSERT_TRUE(h.log->PrepareSegment().ok());
  }
  EXPECT_EQ(h.log->Reserve(4 * all), OpResult::kOk);
}

// What no disk could hold is refused, the disk is not filled for it, and nothing else waits.
TEST(LogSpaceTest, ADemandThatCannotBeMetIsRefusedAndForgotten) {
  Harness h(1, 64 << 10);
  h.Create();
  while (h.log->NeedsSegment()) {
    ASSERT_TRUE(h.log->PrepareSegment().ok());
  }
  h.device.SetCapacity(h.device.UsedBytesNow() + 4 * h.options.segment_bytes);
  const size_t files = h.device.Contents().size();
  const uint64_t far_too_much = uint64_t{10} << 20;
  EXPECT_EQ(h.log->Reserve(far_too_much), OpResult::kWait) << "nobody has asked the device yet";
  const absl::Status status = h.log->PrepareSegment();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_FALSE(h.log->NeedsSegment());
  EXPECT_FALSE(h.log->IsShortOfSegments());
  EXPECT_EQ(h.device.Contents().size(), files);
  EXPECT_EQ(h.log->Reserve(far_too_much), OpResult::kDiskFull);
  const uint64_t ready = h.log->ReservableBytes();
  EXPECT_EQ(h.log->Reserve(ready), OpResult::kOk) << "others go on";
  h.log->Return(ready);
  // The refusal asked for another look at the device: by now there is room.
  h.device.SetCapacity(uint64_t{1} << 30);
  while (h.log->NeedsSegment()) {
    ASSERT_TRUE(h.log->PrepareSegment().ok());
  }
  EXPECT_EQ(h.log->Reserve(far_too_much), OpResult::kOk);
}

}  // namespace
}  // namespace kvstored::log
