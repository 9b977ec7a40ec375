// The writer: rounds, persists, batches, what it tells, and a reader beside it.
#include "log/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

TEST(LogTest, WritesPersistsAndReadsBack) {
  Harness h(4);
  h.Create();
  for (int i = 0; i < 300; ++i) {
    h.SubmitRandom();
    if (i % 7 == 0) {
      EXPECT_TRUE(h.log->Step());
    }
  }
  h.log->Step();
  EXPECT_FALSE(h.log->Step());
  for (ShardId s = 0; s < 4; ++s) {
    EXPECT_EQ(h.marks.persisted[s], h.submitted[s].size());
    EXPECT_EQ(h.log->appended(s), h.submitted[s].size());
    EXPECT_EQ(h.log->persisted(s), h.submitted[s].size());
  }
  h.device.PowerCut();
  const std::vector<std::vector<std::string>> all = h.submitted;
  h.Reopen();
  EXPECT_EQ(h.submitted, all);
  EXPECT_GT(h.log->segments().Count(), 1u);  // rolled over on the way
}

TEST(LogTest, OneWriteAndOnePersistARound) {
  Harness h(2, 1 << 20);
  h.Create();
  const auto before = h.device.counters();
  for (int i = 0; i < 50; ++i) {
    h.SubmitRandom();
  }
  h.log->Step();
  const auto after = h.device.counters();
  EXPECT_EQ(after.writes - before.writes, 1u);
  EXPECT_EQ(after.persists - before.persists, 1u);
}

TEST(LogTest, WritesASmallRoundWhereItWasSubmitted) {
  Harness h(2, 1 << 20);
  h.Create();
  h.SubmitValues(0, {"a"});
  h.SubmitValues(1, {"b", "c"});
  EXPECT_EQ(h.log->persisted(0), 0u);
  h.log->WriteHere();
  EXPECT_EQ(h.log->persisted(0), 1u);
  EXPECT_EQ(h.log->persisted(1), 2u);
  EXPECT_EQ(h.marks.persisted[1], 2u);
  EXPECT_FALSE(h.log->Step());
}

TEST(LogTest, LeavesALargeRoundToTheLogThread) {
  Harness h(1, 1 << 20);
  h.Create();
  h.SubmitValues(0, {std::string(300'000, 'x')});
  h.log->WriteHere();
  EXPECT_EQ(h.log->written(0), 0u);
  h.log->WaitForWork(-1);  // returns: it was woken
  EXPECT_TRUE(h.log->Step());
  EXPECT_EQ(h.log->persisted(0), 1u);
}

TEST(LogTest, SyncOffWritesOnlyUntilAsked) {
  Harness h(1);
  h.options.sync = LogSync::kOff;
  h.Create();
  h.SubmitValues(0, {"a"});
  h.log->Step();
  EXPECT_EQ(h.marks.written[0], 1u);
  EXPECT_EQ(h.marks.persisted[0], 0u);
  h.log->RequestPersist();
  EXPECT_TRUE(h.log->Step());
  EXPECT_EQ(h.marks.persisted[0], 1u);
  h.SubmitValues(0, {"b"});
  h.log->Step();
  EXPECT_EQ(h.marks.persisted[0], 1u);  // the request was for once
  h.log->SetPersistEachRound(true);
  h.SubmitValues(0, {"c"});
  h.log->Step();
  EXPECT_EQ(h.marks.persisted[0], 3u);
}

TEST(LogTest, SyncIntervalPersistsWhenItIsOver) {
  Harness h(1);
  h.options.sync = LogSync::kInterval;
  h.options.sync_interval_us = 1000;
  h.Create();
  h.SubmitValues(0, {"a"});
  h.log->Step();
  EXPECT_EQ(h.marks.persisted[0], 0u);
  h.clock.now_us += 1000;
  EXPECT_TRUE(h.log->Step());
  EXPECT_EQ(h.marks.persisted[0], 1u);
  EXPECT_FALSE(h.log->Step());
}

TEST(LogTest, LargeBatchIsCutAtRecords) {
  Harness h(1, 8 << 20);
  h.Create();
  std::vector<std::string> values;
  values.reserve(12);
  for (int i = 0; i < 12; ++i) {
    values.push_back(std::string(700 << 10, static_cast<char>('a' + i)));
  }
  h.SubmitValues(0, values);
  h.log->Step();
  EXPECT_EQ(h.marks.persisted[0], 12u);
  EXPECT_EQ(h.marks.failures, 0) << h.marks.failure;
  h.Reopen();
  EXPECT_EQ(h.submitted[0].size(), 12u);
}

// A transaction of many records may be longer than several segments.
TEST(LogTest, OneBatchFillsSegmentAfterSegment) {
  Harness h(1, 16 << 10);
  h.Create();
  h.SubmitValues(0, std::vector<std::string>(100, std::string(1000, 'v')));
  h.log->Step();
  EXPECT_EQ(h.marks.failures, 0) << h.marks.failure;
  EXPECT_EQ(h.marks.persisted[0], 100u);
  EXPECT_GT(h.log->segments().Count(), 5u);
  h.Reopen();
  EXPECT_EQ(h.submitted[0].size(), 100u);
}

TEST(LogTest, IoErrorIsFinal) {
  for (const bool at_write : {false, true}) {
    Harness h(1);
    h.Create();
    h.SubmitValues(0, {"a"});
    h.log->Step();
    h.SubmitValues(0, {"b"});
    at_write ? h.device.FailNextWrite() : h.device.FailNextPersist();
    h.log->Step();
    EXPECT_EQ(h.marks.failures, 1);
    EXPECT_EQ(h.marks.persisted[0], 1u);
    const auto before = h.device.counters();
    h.SubmitValues(0, {"c"});
    h.log->Step();
    EXPECT_FALSE(h.log->Close().ok());
    EXPECT_EQ(h.device.counters().writes, before.writes);
    EXPECT_EQ(h.device.counters().persists, before.persists);
    EXPECT_EQ(h.marks.failures, 1);
    EXPECT_EQ(h.marks.persisted[0], 1u);
  }
}

TEST(LogTest, ReaderBesideTheWriter) {
  Harness h(3, 16 << 10);
  h.options.retain_bytes = 40 << 10;
  h.Create();
  std::vector<Seq> next(3, 1);
  int not_kept = 0;
  for (int round = 0; round < 400; ++round) {
    h.SubmitRandom(300);
    h.log->Step();
    if (round % 50 == 0) {
      h.log->Retain(h.marks.persisted);
    }
    while (h.log->NeedsSegment()) {
      ASSERT_TRUE(h.log->PrepareSegment().ok());
    }
    const auto shard = static_cast<ShardId>(round % 3);
    auto batch = h.log->Read(shard, next[shard], 1 + h.random.Below(2000));
    if (absl::IsNotFound(batch.status())) {
      ++not_kept;
      next[shard] = h.log->segments().OldestStart()[shard] + 1;
      continue;
    }
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (*batch == nullptr) {
      EXPECT_EQ(next[shard], h.submitted[shard].size() + 1);
      continue;
    }
    EXPECT_EQ((*batch)->first_seq, next[shard]);
    for (record::Cursor cursor((*batch)->bytes); cursor.at_record(); cursor.Next()) {
      ASSERT_EQ(cursor.seq(), next[shard]);
      ASSERT_EQ(cursor.value(), h.submitted[shard][static_cast<size_t>(cursor.seq()) - 1]);
      ++next[shard];
    }
    EXPECT_EQ((*batch)->last_seq + 1, next[shard]);
  }
  EXPECT_TRUE(absl::IsNotFound(h.log->Read(0, 1, 100).status()));
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
      h.log->WaitForWork(1000);
      h.log->Step();
    }
  });
  Seq next = 1;
  while (next <= 2 * kBatches) {
    auto batch = h.log->Read(0, next, 4096);
    ASSERT_TRUE(batch.ok()) << batch.status();
    next = *batch == nullptr ? next : (*batch)->last_seq + 1;
    (void)h.log->PrepareSegment();
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  stop = true;
  h.log->Wake();
  writer.join();
  h.log->Step();
  EXPECT_EQ(h.log->persisted(1), 2u * kBatches);
}

}  // namespace
}  // namespace kvstored::log
