// The writer, and what recovery makes of undamaged logs.
#include "log/log.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

using ::testing::HasSubstr;

TEST(LogTest, WritesPersistsAndReadsBack) {
  Harness h(4);
  h.Create();
  for (int i = 0; i < 300; ++i) {
    h.SubmitRandom();
    if (i % 7 == 0) {
      EXPECT_TRUE(h.log_->Step());
    }
  }
  h.log_->Step();
  EXPECT_FALSE(h.log_->Step());
  for (ShardId s = 0; s < 4; ++s) {
    EXPECT_EQ(h.marks_.persisted[s], h.submitted_[s].size());
    EXPECT_EQ(h.log_->appended(s), h.submitted_[s].size());
    EXPECT_EQ(h.log_->persisted(s), h.submitted_[s].size());
  }
  h.device_.PowerCut();
  const std::vector<std::vector<std::string>> all = h.submitted_;
  h.Reopen();
  EXPECT_EQ(h.submitted_, all);
  EXPECT_GT(h.log_->segments().Count(), 1u);  // rolled over on the way
}

TEST(LogTest, OneWriteAndOnePersistARound) {
  Harness h(2, 1 << 20);
  h.Create();
  const auto before = h.device_.counters();
  for (int i = 0; i < 50; ++i) {
    h.SubmitRandom();
  }
  h.log_->Step();
  const auto after = h.device_.counters();
  EXPECT_EQ(after.writes - before.writes, 1u);
  EXPECT_EQ(after.persists - before.persists, 1u);
}

// P10: whoever is idle need not ask after a restart what was committed.
TEST(LogTest, AnIdleLogNotesWhatIsCommitted) {
  Harness h(2);
  h.Create();
  h.SubmitValues(0, {"a", "b"});
  h.SubmitValues(1, {"c"});
  h.log_->Step();
  h.log_->NoteCommitted(0, 2);
  h.log_->Step();
  const auto before = h.device_.counters();
  EXPECT_FALSE(h.log_->Step());
  h.clock_.now_us += 100'000;
  EXPECT_TRUE(h.log_->Step());
  EXPECT_EQ(h.device_.counters().writes - before.writes, 1u);
  EXPECT_EQ(h.device_.counters().persists - before.persists, 1u);
  h.clock_.now_us += 100'000;
  EXPECT_FALSE(h.log_->Step()) << "once is enough";
  h.device_.PowerCut();
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  EXPECT_EQ((*recovery)->result().shards[0].committed, 2u);
  EXPECT_EQ((*recovery)->result().shards[1].committed, 0u);
  h.Reopen();
}

TEST(LogTest, AnOrderlyEndNotesWhatIsCommittedInEveryShard) {
  Harness h(2);
  h.Create();
  h.SubmitValues(0, {"a", "b"});
  h.SubmitValues(1, {"c"});
  h.log_->Step();
  h.log_->NoteCommitted(0, 2);
  h.log_->NoteCommitted(1, 1);
  ASSERT_TRUE(h.log_->Close().ok());
  h.device_.PowerCut();
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  EXPECT_EQ((*recovery)->result().shards[0].committed, 2u);
  EXPECT_EQ((*recovery)->result().shards[1].committed, 1u);
}

TEST(LogTest, ARestartCommitsNothing) {
  Harness h(1);
  h.Create();
  h.SubmitValues(0, {"a", "b", "c"});
  h.log_->Step();
  h.log_->NoteCommitted(0, 1);
  ASSERT_TRUE(h.log_->Close().ok());
  for (int life = 0; life < 2; ++life) {
    h.Reopen();
    h.SubmitValues(0, {"d"});
    h.log_->Step();
    ASSERT_TRUE(h.log_->Close().ok());
  }
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  EXPECT_EQ((*recovery)->result().shards[0].last_seq, 5u);
  EXPECT_EQ((*recovery)->result().shards[0].committed, 1u);
}

// Marks take space that nobody reserved: what was promised must be there all the same (P25).
TEST(LogTest, MarksNeverEatPromisedSpace) {
  Harness h(1, 8 << 10);
  h.Create();
  const std::string value;
  const size_t bytes = record::EncodedBytes(3, 0);  // the key is "key"
  int promised = 0;
  while (h.log_->Reserve(bytes)) {
    ++promised;
  }
  ASSERT_GT(promised, 10);
  h.device_.SetCapacity(h.device_.UsedBytesNow());  // no other segment
  for (int i = 1; i <= promised; ++i) {
    h.SubmitValues(0, {value});
    h.log_->Step();
    h.log_->NoteCommitted(0, static_cast<Seq>(i));
    h.clock_.now_us += 100'000;
    h.log_->Step();
  }
  EXPECT_EQ(h.marks_.failures, 0) << h.marks_.failure;
  EXPECT_EQ(h.log_->persisted(0), static_cast<Seq>(promised));
}

TEST(LogTest, WritesASmallRoundWhereItWasSubmitted) {
  Harness h(2, 1 << 20);
  h.Create();
  h.SubmitValues(0, {"a"});
  h.SubmitValues(1, {"b", "c"});
  EXPECT_EQ(h.log_->persisted(0), 0u);
  h.log_->WriteHere();
  EXPECT_EQ(h.log_->persisted(0), 1u);
  EXPECT_EQ(h.log_->persisted(1), 2u);
  EXPECT_EQ(h.marks_.persisted[1], 2u);
  EXPECT_FALSE(h.log_->Step());
}

TEST(LogTest, LeavesALargeRoundToTheLogThread) {
  Harness h(1, 1 << 20);
  h.Create();
  h.SubmitValues(0, {std::string(300'000, 'x')});
  h.log_->WriteHere();
  EXPECT_EQ(h.log_->written(0), 0u);
  h.log_->WaitForWork(-1);  // returns: it was woken
  EXPECT_TRUE(h.log_->Step());
  EXPECT_EQ(h.log_->persisted(0), 1u);
}

TEST(LogTest, SyncOffWritesOnlyUntilAsked) {
  Harness h(1);
  h.options_.sync = LogSync::kOff;
  h.Create();
  h.SubmitValues(0, {"a"});
  h.log_->Step();
  EXPECT_EQ(h.marks_.written[0], 1u);
  EXPECT_EQ(h.marks_.persisted[0], 0u);
  h.log_->RequestPersist();
  EXPECT_TRUE(h.log_->Step());
  EXPECT_EQ(h.marks_.persisted[0], 1u);
  h.SubmitValues(0, {"b"});
  h.log_->Step();
  EXPECT_EQ(h.marks_.persisted[0], 1u);  // the request was for once
  h.log_->SetPersistEachRound(true);
  h.SubmitValues(0, {"c"});
  h.log_->Step();
  EXPECT_EQ(h.marks_.persisted[0], 3u);
}

TEST(LogTest, SyncIntervalPersistsWhenItIsOver) {
  Harness h(1);
  h.options_.sync = LogSync::kInterval;
  h.options_.sync_interval_us = 1000;
  h.Create();
  h.SubmitValues(0, {"a"});
  h.log_->Step();
  EXPECT_EQ(h.marks_.persisted[0], 0u);
  h.clock_.now_us += 1000;
  EXPECT_TRUE(h.log_->Step());
  EXPECT_EQ(h.marks_.persisted[0], 1u);
  EXPECT_FALSE(h.log_->Step());
}

TEST(LogTest, LargeBatchIsCutAtRecords) {
  Harness h(1, 8 << 20);
  h.Create();
  std::vector<std::string> values;
  for (int i = 0; i < 12; ++i) {
    values.push_back(std::string(700 << 10, static_cast<char>('a' + i)));
  }
  h.SubmitValues(0, values);
  h.log_->Step();
  EXPECT_EQ(h.marks_.persisted[0], 12u);
  EXPECT_EQ(h.marks_.failures, 0) << h.marks_.failure;
  h.Reopen();
  EXPECT_EQ(h.submitted_[0].size(), 12u);
}

TEST(LogTest, DoubleRestartGoesOnWhereItEnded) {
  Harness h(3, 16 << 10);
  h.Create();
  for (int life = 0; life < 30; ++life) {
    for (int i = 0; i < 10; ++i) {
      h.SubmitRandom();
    }
    h.log_->Step();
    const std::vector<std::vector<std::string>> confirmed = h.submitted_;
    for (int i = 0; i < 3; ++i) {
      h.SubmitRandom();
    }
    h.options_.sync = LogSync::kAlways;
    if (life % 3 == 0) {
      h.log_->SetSync(LogSync::kOff, 0);
      h.log_->Step();
    }
    h.device_.PowerCut();
    h.Reopen();
    for (size_t s = 0; s < confirmed.size(); ++s) {
      ASSERT_GE(h.submitted_[s].size(), confirmed[s].size()) << "shard " << s;
    }
    if (life % 4 == 0) {
      h.device_.PowerCut();
      h.Reopen();  // at once again: nothing was appended between
      for (size_t s = 0; s < confirmed.size(); ++s) {
        ASSERT_GE(h.submitted_[s].size(), confirmed[s].size()) << "shard " << s;
      }
    }
  }
}

TEST(LogTest, RecyclesSegmentsAndNeverBelievesTheOldLife) {
  Harness h(2, 16 << 10);
  h.options_.retain_bytes = 0;
  h.Create();
  std::vector<Seq> checkpoint(2);
  for (int round = 0; round < 200; ++round) {
    h.SubmitRandom();
    h.SubmitRandom();
    h.log_->Step();
    if (round % 10 == 9) {
      checkpoint = h.marks_.persisted;
      h.log_->Retain(checkpoint);
    }
    while (h.log_->NeedsSegment()) {
      ASSERT_TRUE(h.log_->PrepareSegment().ok());
    }
    if (round % 20 == 19) {
      h.log_.reset();
      h.device_.PowerCut();
      RecoveryOptions options = h.ScanOptions();
      options.needed_from = checkpoint;
      options.checkpoint_end = checkpoint;
      auto recovery = Recovery::Scan(options);
      ASSERT_TRUE(recovery.ok()) << recovery.status();
      h.ExpectPrefix(recovery->get());
      EXPECT_EQ((*recovery)->result().shards[0].last_seq, h.submitted_[0].size());
      EXPECT_EQ((*recovery)->result().shards[1].last_seq, h.submitted_[1].size());
      auto log = Log::Open(h.options_, (*recovery)->TakeTail());
      ASSERT_TRUE(log.ok()) << log.status();
      h.log_ = *std::move(log);
    }
  }
  EXPECT_LE(h.device_.Contents().size(), 8u);  // files are used again
}

TEST(LogTest, MissingRecordsBelowTheCheckpointAreDamage) {
  Harness h(1, 16 << 10);
  h.options_.retain_bytes = 0;
  h.Create();
  for (int i = 0; i < 100; ++i) {
    h.SubmitRandom(1000);
    h.log_->Step();
  }
  ASSERT_GT(h.log_->segments().Count(), 2u);
  h.log_->Retain(h.marks_.persisted);
  h.log_.reset();
  EXPECT_THAT(std::string(h.Scan().status().message()), HasSubstr("are missing"));
  RecoveryOptions options = h.ScanOptions();
  options.needed_from = {h.submitted_[0].size()};
  EXPECT_TRUE(Recovery::Scan(options).ok());
  options.checkpoint_end = {h.submitted_[0].size() + 1};
  EXPECT_THAT(std::string(Recovery::Scan(options).status().message()),
              HasSubstr("before its checkpoint's end"));
}

TEST(LogTest, AbsentSegmentInTheMiddleIsDamage) {
  Harness h(1, 16 << 10);
  h.Create();
  for (int i = 0; i < 60; ++i) {
    h.SubmitRandom(1000);
    h.log_->Step();
  }
  ASSERT_GT(h.log_->segments().Count(), 3u);
  h.log_.reset();
  ASSERT_TRUE(h.device_.Remove(SegmentName(kLogDirectory, 2)).ok());
  const absl::Status status = h.Scan().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0000000002.seg is absent"));
}

TEST(LogTest, FullDiskRefusesReservationsAndRecovers) {
  Harness h(1, 64 << 10);
  h.device_.SetCapacity(250 << 10);  // three segments, no more
  h.options_.retain_bytes = 0;
  h.Create();
  uint64_t written = 0;
  const std::string value(1000, 'v');
  const uint64_t record_bytes = record::EncodedBytes(3, value.size());
  while (h.log_->Reserve(record_bytes)) {
    h.SubmitValues(0, {value});
    h.log_->Step();
    const absl::Status status = h.log_->PrepareSegment();
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    ++written;
    ASSERT_LT(written, 1000u);
  }
  EXPECT_GT(written, 50u);
  EXPECT_EQ(h.marks_.failures, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(h.log_->PrepareSegment()));
  // Reads go on, nothing is lost, and the epoch's own record still fits.
  h.SubmitValues(0, {"epoch_begin"});
  h.log_->Step();
  EXPECT_EQ(h.marks_.persisted[0], written + 1);
  // Space comes free: writes work again by themselves.
  h.log_->Retain(h.marks_.persisted);
  ASSERT_TRUE(h.log_->PrepareSegment().ok());
  EXPECT_TRUE(h.log_->Reserve(record_bytes));
  EXPECT_EQ(h.marks_.failures, 0);
}

TEST(LogTest, FullDiskTakesBackWhatIsKeptForCatchUp) {
  Harness h(1, 64 << 10);
  h.device_.SetCapacity(400 << 10);
  h.options_.retain_bytes = 1 << 30;
  h.Create();
  const std::string value(1000, 'v');
  const uint64_t record_bytes = record::EncodedBytes(3, value.size());
  for (int i = 0; i < 2000; ++i) {  // 2 MB through 400 KB
    ASSERT_TRUE(h.log_->Reserve(record_bytes)) << i;
    h.SubmitValues(0, {value});
    h.log_->Step();
    h.log_->Retain(h.marks_.persisted);
    while (h.log_->NeedsSegment()) {
      ASSERT_TRUE(h.log_->PrepareSegment().ok());
    }
  }
  EXPECT_GE(h.log_->segments().Count(), 3u);  // what fits is kept
  EXPECT_EQ(h.marks_.failures, 0);
}

TEST(LogTest, ReservedSpaceHoldsTheWorstSplit) {
  Harness h(1, 64 << 10);
  h.device_.SetCapacity(250 << 10);
  h.Create();
  const uint64_t record_bytes = record::EncodedBytes(3, 1);
  uint64_t reserved = 0;
  while (h.log_->Reserve(record_bytes)) {
    ++reserved;
  }
  EXPECT_GT(reserved, 100u);
  for (uint64_t i = 0; i < reserved; ++i) {
    h.SubmitValues(0, {"v"});  // every record in a frame of its own
    h.log_->Step();
  }
  EXPECT_EQ(h.marks_.failures, 0) << h.marks_.failure;
  EXPECT_EQ(h.marks_.persisted[0], reserved);
}

TEST(LogTest, ReturnGivesSpaceBackAndDemandMakesMore) {
  Harness h(1, 64 << 10);
  h.Create();
  const uint64_t all = h.log_->ReservableBytes();
  ASSERT_TRUE(h.log_->Reserve(all));
  EXPECT_FALSE(h.log_->Reserve(1));
  h.log_->Return(all);
  EXPECT_EQ(h.log_->ReservableBytes(), all);
  EXPECT_FALSE(h.log_->Reserve(4 * all));
  while (h.log_->NeedsSegment()) {
    ASSERT_TRUE(h.log_->PrepareSegment().ok());
  }
  EXPECT_TRUE(h.log_->Reserve(4 * all));
}

TEST(LogTest, IoErrorIsFinal) {
  for (const bool at_write : {false, true}) {
    Harness h(1);
    h.Create();
    h.SubmitValues(0, {"a"});
    h.log_->Step();
    h.SubmitValues(0, {"b"});
    at_write ? h.device_.FailNextWrite() : h.device_.FailNextPersist();
    h.log_->Step();
    EXPECT_EQ(h.marks_.failures, 1);
    EXPECT_EQ(h.marks_.persisted[0], 1u);
    const auto before = h.device_.counters();
    h.SubmitValues(0, {"c"});
    h.log_->Step();
    EXPECT_FALSE(h.log_->Close().ok());
    EXPECT_EQ(h.device_.counters().writes, before.writes);
    EXPECT_EQ(h.device_.counters().persists, before.persists);
    EXPECT_EQ(h.marks_.failures, 1);
    EXPECT_EQ(h.marks_.persisted[0], 1u);
  }
}

TEST(LogTest, CutAboveSurvivesAndSeqsGoOn) {
  Harness h(2, 16 << 10);
  h.Create();
  for (int i = 0; i < 60; ++i) {
    h.SubmitRandom(600);
    h.log_->Step();
  }
  const std::vector<Seq> cut = {h.submitted_[0].size() / 2, h.submitted_[1].size() - 1};
  ASSERT_TRUE(h.log_->CutAbove(cut).ok());
  EXPECT_EQ(h.log_->persisted(0), cut[0]);
  h.submitted_[0].resize(static_cast<size_t>(cut[0]));
  h.submitted_[1].resize(static_cast<size_t>(cut[1]));
  EXPECT_EQ(*h.log_->Read(0, cut[0] + 1, 1 << 20), nullptr);
  h.device_.PowerCut();
  h.Reopen();
  EXPECT_EQ(h.submitted_[0].size(), cut[0]);
  EXPECT_EQ(h.submitted_[1].size(), cut[1]);
  h.SubmitValues(0, {"after the cut"});
  h.log_->Step();
  auto batch = h.log_->Read(0, cut[0], 1);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->last_seq, cut[0]);
  batch = h.log_->Read(0, cut[0] + 1, 1 << 20);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->last_seq, cut[0] + 1);
  h.device_.PowerCut();
  h.Reopen();
  EXPECT_EQ(h.submitted_[0].back(), "after the cut");
}

TEST(LogTest, CommittedAndTimestampComeBack) {
  Harness h(2);
  h.Create();
  h.SubmitValues(0, {"a", "b"}, 0);
  h.SubmitValues(0, {"c"}, 2);
  h.SubmitValues(1, {"x"}, 99);  // a replica may be told more than it has
  h.log_->Step();
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok());
  const RecoveryResult& result = (*recovery)->result();
  EXPECT_EQ(result.shards[0].committed, 2u);
  EXPECT_EQ(result.shards[1].committed, 1u);
  EXPECT_EQ(result.newest_timestamp_us, 1000u);  // Plain(0) stamps 1000
  auto last = h.log_->Read(0, 3, 1);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(result.shards[0].last_checksum, record::Cursor((*last)->bytes).checksum());
}

TEST(LogTest, RefusesForeignAndNewerLogs) {
  Harness h(2);
  h.Create();
  RecoveryOptions options = h.ScanOptions();
  options.data_set.bytes[0] = 77;
  EXPECT_THAT(std::string(Recovery::Scan(options).status().message()),
              HasSubstr("another data set"));
  options = h.ScanOptions();
  options.shard_count = 3;
  EXPECT_THAT(std::string(Recovery::Scan(options).status().message()),
              HasSubstr("set server.shards to 2"));
  std::array<uint8_t, kSegmentHeaderBytes> bytes;
  SegmentHeader header;
  header.version = 2;
  header.number = 1;
  header.start_seqs = {0, 0};
  EncodeSegmentHeader(header, bytes);
  h.device_.SetContents(SegmentName(kLogDirectory, 1), {bytes.begin(), bytes.end()});
  EXPECT_THAT(std::string(h.Scan().status().message()), HasSubstr("start a newer kvstored"));
}

TEST(LogTest, ReaderBesideTheWriter) {
  Harness h(3, 16 << 10);
  h.options_.retain_bytes = 40 << 10;
  h.Create();
  std::vector<Seq> next(3, 1);
  int not_kept = 0;
  for (int round = 0; round < 400; ++round) {
    h.SubmitRandom(300);
    h.log_->Step();
    if (round % 50 == 0) {
      h.log_->Retain(h.marks_.persisted);
    }
    while (h.log_->NeedsSegment()) {
      ASSERT_TRUE(h.log_->PrepareSegment().ok());
    }
    const auto shard = static_cast<ShardId>(round % 3);
    auto batch = h.log_->Read(shard, next[shard], 1 + h.random_.Below(2000));
    if (absl::IsNotFound(batch.status())) {
      ++not_kept;
      next[shard] = h.log_->segments().OldestStart()[shard] + 1;
      continue;
    }
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (*batch == nullptr) {
      EXPECT_EQ(next[shard], h.submitted_[shard].size() + 1);
      continue;
    }
    EXPECT_EQ((*batch)->first_seq, next[shard]);
    for (record::Cursor cursor((*batch)->bytes); cursor.at_record(); cursor.Next()) {
      ASSERT_EQ(cursor.seq(), next[shard]);
      ASSERT_EQ(cursor.value(), h.submitted_[shard][static_cast<size_t>(cursor.seq()) - 1]);
      ++next[shard];
    }
    EXPECT_EQ((*batch)->last_seq + 1, next[shard]);
  }
  EXPECT_TRUE(absl::IsNotFound(h.log_->Read(0, 1, 100).status()));
  (void)not_kept;
}

// Several producers, a writer and a reader at once: for the thread sanitizer.
TEST(LogTest, ThreadsTogether) {
  Harness h(2, 256 << 10);
  h.Create();
  std::atomic<bool> stop{false};
  constexpr int kBatches = 300;
  std::vector<std::thread> threads;
  for (ShardId shard = 0; shard < 2; ++shard) {
    threads.emplace_back([&h, shard] {
      for (int i = 0; i < kBatches; ++i) {
        h.SubmitValues(shard, {"one", "two"});
      }
    });
  }
  std::thread writer([&] {
    while (!stop.load()) {
      h.log_->WaitForWork(1000);
      h.log_->Step();
    }
  });
  Seq next = 1;
  while (next <= 2 * kBatches) {
    auto batch = h.log_->Read(0, next, 4096);
    ASSERT_TRUE(batch.ok()) << batch.status();
    next = *batch == nullptr ? next : (*batch)->last_seq + 1;
    (void)h.log_->PrepareSegment();
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  stop = true;
  h.log_->Wake();
  writer.join();
  h.log_->Step();
  EXPECT_EQ(h.log_->persisted(1), 2u * kBatches);
}

}  // namespace
}  // namespace kvstored::log
