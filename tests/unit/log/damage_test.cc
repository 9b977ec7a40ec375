// Torn tails and damage, exhaustively: a log comes back whole, or as an exact prefix that lost only
// what was never confirmed, or not at all with the place named.
#include <gmock/gmock.h>

#include "log/damage.h"
#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

using ::testing::HasSubstr;

size_t RecordCount(const Recovery& recovery) {
  size_t count = 0;
  for (const RecoveredShard& shard : recovery.result().shards) {
    count += static_cast<size_t>(shard.last_seq - shard.start_seq);
  }
  return count;
}

size_t SubmittedCount(const Harness& h) {
  size_t count = 0;
  for (const auto& values : h.submitted) {
    count += values.size();
  }
  return count;
}

void Fill(Harness* h, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    h->SubmitRandom(60);
    h->log->Step();
  }
}

TEST(DamageTest, TornAtEveryByteOfTheTail) {
  Harness h(3, 16 << 10);
  h.Create();
  Fill(&h, 12);
  const size_t confirmed = SubmittedCount(h);
  ASSERT_EQ(h.log->segments().Count(), 1u);
  const uint64_t confirmed_end = h.log->segments().TotalBytes();
  h.log->SetSync(LogSync::kOff, 0);
  Fill(&h, 6);
  const uint64_t end = h.log->segments().TotalBytes();
  h.log.reset();
  const std::string name = SegmentName(kLogDirectory, 1);
  const std::vector<uint8_t> whole = h.device.Contents()[name];
  size_t last = 0;
  for (uint64_t cut = confirmed_end; cut <= end; ++cut) {
    std::vector<uint8_t> torn = whole;
    std::fill(torn.begin() + static_cast<ptrdiff_t>(cut), torn.end(), uint8_t{0});
    h.device.SetContents(name, torn);
    auto recovery = h.Scan();
    ASSERT_TRUE(recovery.ok()) << "cut at " << cut << ": " << recovery.status();
    h.ExpectPrefix(recovery->get());
    const size_t count = RecordCount(**recovery);
    ASSERT_GE(count, std::max(confirmed, last));
    last = count;
  }
  EXPECT_EQ(last, SubmittedCount(h));
}

TEST(DamageTest, TornTailGoesOnAndStaysCut) {
  Harness h(2, 16 << 10);
  h.Create();
  Fill(&h, 5);
  h.log->SetSync(LogSync::kOff, 0);
  const uint64_t confirmed_end = h.log->segments().TotalBytes();
  Fill(&h, 4);
  const std::string name = SegmentName(kLogDirectory, 1);
  h.log.reset();
  h.device.ProcessCrash();
  h.device.FlipBit(name, confirmed_end + kFrameHeaderBytes + 3, 1);  // first unconfirmed frame
  {
    auto recovery = h.Scan();
    ASSERT_TRUE(recovery.ok()) << recovery.status();
    ASSERT_EQ((*recovery)->result().torn.size(), 1u);
    EXPECT_EQ((*recovery)->result().torn[0].offset, confirmed_end);
    EXPECT_EQ((*recovery)->result().torn[0].file, name);
  }
  h.Reopen();
  Fill(&h, 5);
  h.log.reset();
  // The frames beyond the cut are still in the file, some of them whole: they must not come back.
  h.device.FlipBit(name, confirmed_end + kFrameHeaderBytes + 3, 1);
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  h.ExpectPrefix(recovery->get());
  EXPECT_EQ(RecordCount(**recovery), SubmittedCount(h));
}

// Of a log that was closed in order every byte is proven: a flip is harmless or it is reported.
TEST(DamageTest, EveryFlippedByteOfAClosedLogIsHarmlessOrNamed) {
  Harness h(2, 8 << 10);
  h.Create();
  Fill(&h, 36);
  ASSERT_TRUE(h.log->Close().ok());
  ASSERT_GE(h.log->segments().Count(), 2u);
  h.log.reset();
  size_t harmless = 0;
  size_t named = 0;
  for (const auto& [name, bytes] : h.device.Contents()) {
    if (ParseSegmentName(name.substr(name.rfind('/') + 1)) == 0) {
      continue;  // the notes about them: meta_test.cc
    }
    for (uint64_t offset = 0; offset < bytes.size(); ++offset) {
      const auto bit = static_cast<uint32_t>(h.random.Below(8));
      h.device.FlipBit(name, offset, bit);
      auto recovery = h.Scan();
      if (recovery.ok()) {
        ++harmless;
        ASSERT_EQ(RecordCount(**recovery), SubmittedCount(h)) << name << " " << offset;
        if (offset % 16 == 0) {
          h.ExpectPrefix(recovery->get());
        }
      } else {
        ++named;
        ASSERT_EQ(recovery.status().code(), absl::StatusCode::kDataLoss);
        const std::string text(recovery.status().message());
        ASSERT_THAT(text, HasSubstr(name));
        ASSERT_THAT(text, HasSubstr("offset"));
        ASSERT_THAT(text, HasSubstr("shard"));
        ASSERT_THAT(text, HasSubstr("restore the file"));
      }
      h.device.FlipBit(name, offset, bit);
    }
  }
  EXPECT_GT(named, 5000u);
  EXPECT_GT(harmless, 1000u);  // padding, what lies behind the end
}

// After a crash only the last frame is not proven by a later one: only it may be taken for torn.
TEST(DamageTest, EveryFlippedByteAfterACrashLosesAtMostTheLastFrame) {
  Harness h(2, 16 << 10);
  h.Create();
  Fill(&h, 20);
  const size_t proven = SubmittedCount(h);
  Fill(&h, 1);
  h.log.reset();
  const std::string name = SegmentName(kLogDirectory, 1);
  const size_t size_bytes = h.device.Contents()[name].size();
  for (uint64_t offset = 0; offset < size_bytes; ++offset) {
    const auto bit = static_cast<uint32_t>(h.random.Below(8));
    h.device.FlipBit(name, offset, bit);
    auto recovery = h.Scan();
    if (recovery.ok()) {
      ASSERT_GE(RecordCount(**recovery), proven) << offset;
      h.ExpectPrefix(recovery->get());
    } else {
      ASSERT_EQ(recovery.status().code(), absl::StatusCode::kDataLoss);
      ASSERT_THAT(std::string(recovery.status().message()), HasSubstr(name));
    }
    h.device.FlipBit(name, offset, bit);
  }
}

TEST(DamageTest, TruncatedFilesAreNamed) {
  Harness h(1, 8 << 10);
  h.Create();
  Fill(&h, 40);
  ASSERT_GE(h.log->segments().Count(), 3u);
  h.log.reset();
  const std::string name = SegmentName(kLogDirectory, 1);
  const std::vector<uint8_t> whole = h.device.Contents()[name];
  for (const size_t keep : {size_t{0}, size_t{100}, size_t{4096}, size_t{5000}}) {
    h.device.SetContents(name, {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(keep)});
    const absl::Status status = h.Scan().status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << keep;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name)) << keep;
  }
  h.device.SetContents(name, whole);
  ASSERT_TRUE(h.Scan().ok());
  // The newest, too, was made in its full size: what is missing of it was no crash's.
  std::string newest;
  std::vector<uint8_t> bytes;
  for (const auto& [each, contents] : h.device.Contents()) {
    SegmentHeader header;
    if (contents.size() >= kSegmentHeaderBytes &&
        DecodeSegmentHeader(std::span(contents).first<kSegmentHeaderBytes>(), &header) ==
            SegmentHeaderResult::kOk) {
      newest = each;
      bytes = contents;
    }
  }
  bytes.resize(bytes.size() - 64);
  h.device.SetContents(newest, bytes);
  const absl::Status status = h.Scan().status();
  ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(newest + ": damaged"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cut short"));
}

// The newest segments cannot be taken away unnoticed, whatever is left: what is noted is noted
// before it is used.
TEST(DamageTest, DeletedAndEmptiedNewestSegmentsAreNamed) {
  Harness h(1, 8 << 10);
  h.Create();
  Fill(&h, 40);
  while (h.log->NeedsSegment()) {
    ASSERT_TRUE(h.log->PrepareSegment().ok());
  }
  h.log.reset();
  ASSERT_TRUE(h.Scan().ok());
  const auto whole = h.device.Contents();
  std::vector<std::string> names;
  uint64_t newest_begun = 0;
  for (const auto& [name, contents] : whole) {
    SegmentHeader header;
    if (contents.size() >= kSegmentHeaderBytes) {
      names.push_back(name);
      if (DecodeSegmentHeader(std::span(contents).first<kSegmentHeaderBytes>(), &header) ==
          SegmentHeaderResult::kOk) {
        newest_begun = header.number;
      }
    }
  }
  ASSERT_GE(newest_begun, 3u);
  ASSERT_GT(names.size(), newest_begun) << "a spare waits";
  const auto expect_named = [&h](uint64_t number, const char* what) {
    const absl::Status status = h.Scan().status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << number;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(SegmentName(kLogDirectory, number) + what));
  };
  // All from the newest one that was begun, and then those before it, one by one.
  for (size_t keep = newest_begun; keep-- > 0;) {
    for (size_t i = keep; i < names.size(); ++i) {
      ASSERT_TRUE(h.device.Remove(names[i]).ok());
    }
    expect_named(keep + 1, " is absent");
  }
  for (const std::string& name : names) {
    h.device.SetContents(name, whole.at(name));
  }
  ASSERT_TRUE(h.Scan().ok());
  // The newest alone, and as an empty file.
  const std::string newest = SegmentName(kLogDirectory, newest_begun);
  ASSERT_TRUE(h.device.Remove(newest).ok());
  expect_named(newest_begun, " is absent");
  h.device.SetContents(newest, {});
  expect_named(newest_begun, " is cut short at offset 0");
  h.device.SetContents(newest, std::vector<uint8_t>(100));
  expect_named(newest_begun, " is cut short at offset 100");
}

TEST(DamageTest, AnAbsentDirectoryIsNamed) {
  Harness h(1, 8 << 10);
  h.Create();
  Fill(&h, 1);
  h.log.reset();
  ASSERT_TRUE(h.device.Remove(kLogDirectory).ok());
  const absl::Status status = h.Scan().status();
  EXPECT_TRUE(IsDamage(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(HasSubstr(std::string("/") + kLogDirectory + ", the directory"),
                               HasSubstr("restore the file")));
}

// What stops the one who takes the records says nothing of a file.
TEST(DamageTest, ASinksErrorIsPassedOnAsItIs) {
  class FullSink : public RecoverySink {
    absl::Status OnRecords(ShardId, std::span<const record::Record>) override {
      return absl::ResourceExhaustedError("out of memory");
    }
  };
  Harness h(1, 8 << 10);
  h.Create();
  Fill(&h, 1);
  h.log.reset();
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  FullSink sink;
  EXPECT_EQ((*recovery)->Replay({0}, {(*recovery)->result().shards[0].last_seq}, &sink),
            absl::ResourceExhaustedError("out of memory"));
}

// Zeroed, a begun segment looks like a spare and lost frames like a torn tail: what was noted
// outside of the log tells.
TEST(DamageTest, ZeroedNewestSegmentsAreNamed) {
  for (const bool orderly : {false, true}) {
    Harness h(2, 8 << 10);
    h.Create();
    Fill(&h, 60);
    while (h.log->NeedsSegment()) {
      ASSERT_TRUE(h.log->PrepareSegment().ok());
    }
    const uint64_t newest = h.log->segments().Count();
    ASSERT_GE(newest, 3u);
    if (orderly) {
      ASSERT_TRUE(h.log->Close().ok());
    }
    h.log.reset();
    const std::string name = SegmentName(kLogDirectory, newest);
    const std::vector<uint8_t> whole = h.device.Contents().at(name);
    h.device.SetContents(name, std::vector<uint8_t>(whole.size()));
    absl::Status status = h.Scan().status();
    EXPECT_TRUE(IsDamage(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name + ": its header (offset 0) is gone"));
    std::vector<uint8_t> without_frames = whole;
    std::fill(without_frames.begin() + kSegmentHeaderBytes, without_frames.end(), 0);
    h.device.SetContents(name, without_frames);
    status = h.Scan().status();
    if (orderly) {
      EXPECT_TRUE(IsDamage(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("confirmed persistent up to seq"));
    }
    h.device.SetContents(name, whole);
    ASSERT_TRUE(h.Scan().ok());
    ASSERT_TRUE(h.device.Remove(std::string(kLogDirectory) + "_files").ok());
    status = h.Scan().status();
    EXPECT_TRUE(IsDamage(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("log_files is absent, though"));
  }
}

// A cut takes back records that were confirmed: no crash on its way looks like damage.
TEST(DamageTest, PowerCutAtEveryCallOfACut) {
  bool was_cut = false;
  for (uint64_t cut_at = 0; !was_cut; ++cut_at) {
    Harness h(1, 16 << 10, cut_at + 1);
    h.Create();
    Fill(&h, 40);
    while (h.log->NeedsSegment()) {
      ASSERT_TRUE(h.log->PrepareSegment().ok());
    }
    const Seq half = h.submitted[0].size() / 2;
    h.device.CrashAfter(cut_at);
    was_cut = h.log->CutAbove({half}).ok();
    if (was_cut) {
      EXPECT_GE(cut_at, 4u) << "the cut and its note are calls of the device";
      while (!h.device.crashed() && h.log->NeedsSegment()) {
        (void)h.log->PrepareSegment();
      }
    }
    h.log.reset();
    h.device.PowerCut();
    auto recovery = h.Scan();
    ASSERT_TRUE(recovery.ok()) << "cut at call " << cut_at << ": " << recovery.status();
    const Seq last = (*recovery)->result().shards[0].last_seq;
    EXPECT_TRUE(last == half || last == h.submitted[0].size()) << last;
    EXPECT_TRUE(last == half || !was_cut);
  }
}

TEST(DamageTest, SegmentsUnderEachOthersNamesAreNamed) {
  Harness h(1, 8 << 10);
  h.Create();
  Fill(&h, 40);
  const uint64_t newest = h.log->segments().Count();
  ASSERT_GE(newest, 3u);
  while (h.log->NeedsSegment()) {
    ASSERT_TRUE(h.log->PrepareSegment().ok());
  }
  h.log.reset();
  const auto whole = h.device.Contents();
  const auto swapped = [&](uint64_t a, uint64_t b) {
    const std::string first = SegmentName(kLogDirectory, a);
    const std::string second = SegmentName(kLogDirectory, b);
    h.device.SetContents(first, whole.at(second));
    h.device.SetContents(second, whole.at(first));
    const absl::Status status = h.Scan().status();
    h.device.SetContents(first, whole.at(first));
    h.device.SetContents(second, whole.at(second));
    return status;
  };
  for (uint64_t a = 1; a <= newest; ++a) {
    for (uint64_t b = a + 1; b <= newest + 1; ++b) {
      EXPECT_EQ(swapped(a, b).code(), absl::StatusCode::kDataLoss) << a << " and " << b;
    }
  }
  EXPECT_TRUE(h.Scan().ok());
  RecoveryOptions options = h.ScanOptions();
  options.data_set = {{9}};
  h.device.SetContents(SegmentName(kLogDirectory, newest + 1),
                       whole.at(SegmentName(kLogDirectory, 1)));
  EXPECT_EQ(Recovery::Scan(options).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Spares that no longer fit are removed at the start, in whatever order a crash sees them.
TEST(DamageTest, AnotherSegmentSizeMakesNoFileMissed) {
  for (uint64_t cut_at = 0; cut_at < 40; ++cut_at) {
    Harness h(1, 16 << 10, cut_at + 1);
    h.Create();
    Fill(&h, 10);
    h.log.reset();
    h.options.segment_bytes = 8 << 10;
    auto recovery = h.Scan();
    ASSERT_TRUE(recovery.ok()) << recovery.status();
    h.device.CrashAfter(cut_at);
    (void)Log::Open(h.options, (*recovery)->TakeTail());
    h.device.PowerCut();
    h.Reopen();
    Fill(&h, 10);
    h.device.PowerCut();
    h.Reopen();
  }
}

// The same where spares were made and no segment was ever begun.
TEST(DamageTest, AnotherSegmentSizeBeforeTheFirstRecordMakesNoFileMissed) {
  for (uint64_t first_cut = 1; first_cut < 24; ++first_cut) {
    for (uint64_t second_cut = 0; second_cut < 24; ++second_cut) {
      Harness h(1, 16 << 10, first_cut * 100 + second_cut);
      h.device.CrashAfter(first_cut);
      (void)Log::Create(h.options, {0});
      h.device.PowerCut();
      h.options.segment_bytes = 8 << 10;
      auto recovery = h.Scan();
      ASSERT_TRUE(recovery.ok()) << first_cut << ": " << recovery.status();
      h.device.CrashAfter(second_cut);
      (void)Log::Open(h.options, (*recovery)->TakeTail());
      h.device.PowerCut();
      ASSERT_TRUE(h.Scan().ok()) << first_cut << ", " << second_cut << ": " << h.Scan().status();
    }
  }
}

// The whole life of a log under power cuts at every call of the device.
TEST(DamageTest, PowerCutAtEveryCall) {
  for (uint64_t cut_at = 0; cut_at < 160; ++cut_at) {
    Harness h(2, 8 << 10, /*seed=*/cut_at + 1);
    h.options.retain_bytes = 0;
    h.Create();
    std::vector<Seq> kept(2);
    h.device.CrashAfter(cut_at);
    for (int i = 0; i < 60 && !h.device.crashed(); ++i) {
      h.SubmitRandom(300);
      h.log->Step();
      if (i % 8 == 7 && !h.device.crashed()) {
        kept = h.marks.persisted;
        h.log->Retain(kept);
      }
      while (!h.device.crashed() && h.log->NeedsSegment()) {
        (void)h.log->PrepareSegment();
      }
    }
    h.log.reset();
    h.device.PowerCut();
    RecoveryOptions options = h.ScanOptions();
    options.needed_from = kept;
    auto recovery = Recovery::Scan(options);
    ASSERT_TRUE(recovery.ok()) << "cut at call " << cut_at << ": " << recovery.status();
    h.ExpectPrefix(recovery->get());
    for (uint32_t s = 0; s < 2; ++s) {
      ASSERT_GE((*recovery)->result().shards[s].last_seq, h.marks.persisted[s]) << cut_at;
      h.submitted[s].resize(static_cast<size_t>((*recovery)->result().shards[s].last_seq));
    }
    auto log = Log::Open(h.options, (*recovery)->TakeTail());
    ASSERT_TRUE(log.ok()) << log.status();
    h.log = *std::move(log);
    h.SubmitRandom();
    h.log->Step();
    h.log.reset();
    h.device.PowerCut();
    recovery = Recovery::Scan(options);
    ASSERT_TRUE(recovery.ok()) << recovery.status();
    h.ExpectPrefix(recovery->get());
    EXPECT_EQ((*recovery)->result().shards[0].last_seq, h.submitted[0].size());
    EXPECT_EQ((*recovery)->result().shards[1].last_seq, h.submitted[1].size());
  }
}

TEST(DamageTest, CreateCrashedMidwayStartsAfresh) {
  for (uint64_t cut_at = 0; cut_at < 20; ++cut_at) {
    Harness h(1, 8 << 10, cut_at + 1);
    h.device.CrashAfter(cut_at);
    (void)Log::Create(h.options, {0});
    h.device.PowerCut();
    h.Reopen();
    h.SubmitValues(0, {"first"});
    h.log->Step();
    h.device.PowerCut();
    h.Reopen();
    EXPECT_EQ(h.submitted[0].size(), 1u);
  }
}

}  // namespace
}  // namespace kvstored::log
