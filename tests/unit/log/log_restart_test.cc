// What a restart finds of the log, and what it refuses to go on with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

using ::testing::HasSubstr;

// P10: whoever is idle need not ask after a restart what was committed.
TEST(LogRestartTest, AnIdleLogNotesWhatIsCommitted) {
  Harness h(2);
  h.Create();
  h.SubmitValues(0, {"a", "b"});
  h.SubmitValues(1, {"c"});
  h.log->Step();
  h.log->NoteCommitted(0, 2);
  h.log->Step();
  const auto before = h.device.counters();
  EXPECT_FALSE(h.log->Step());
  h.clock.now_us += 100'000;
  EXPECT_TRUE(h.log->Step());
  EXPECT_EQ(h.device.counters().writes - before.writes, 1u);
  EXPECT_EQ(h.device.counters().persists - before.persists, 1u);
  h.clock.now_us += 100'000;
  EXPECT_FALSE(h.log->Step()) << "once is enough";
  h.device.PowerCut();
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  EXPECT_EQ((*recovery)->result().shards[0].committed, 2u);
  EXPECT_EQ((*recovery)->result().shards[1].committed, 0u);
  h.Reopen();
}

TEST(LogRestartTest, AnOrderlyEndNotesWhatIsCommittedInEveryShard) {
  Harness h(2);
  h.Create();
  h.SubmitValues(0, {"a", "b"});
  h.SubmitValues(1, {"c"});
  h.log->Step();
  h.log->NoteCommitted(0, 2);
  h.log->NoteCommitted(1, 1);
  ASSERT_TRUE(h.log->Close().ok());
  h.device.PowerCut();
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  EXPECT_EQ((*recovery)->result().shards[0].committed, 2u);
  EXPECT_EQ((*recovery)->result().shards[1].committed, 1u);
}

TEST(LogRestartTest, ARestartCommitsNothing) {
  Harness h(1);
  h.Create();
  h.SubmitValues(0, {"a", "b", "c"});
  h.log->Step();
  h.log->NoteCommitted(0, 1);
  ASSERT_TRUE(h.log->Close().ok());
  for (int life = 0; life < 2; ++life) {
    h.Reopen();
    h.SubmitValues(0, {"d"});
    h.log->Step();
    ASSERT_TRUE(h.log->Close().ok());
  }
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  EXPECT_EQ((*recovery)->result().shards[0].last_seq, 5u);
  EXPECT_EQ((*recovery)->result().shards[0].committed, 1u);
}

TEST(LogRestartTest, CommittedAndTimestampComeBack) {
  Harness h(2);
  h.Create();
  h.SubmitValues(0, {"a", "b"}, 0);
  h.SubmitValues(0, {"c"}, 2);
  h.SubmitValues(1, {"x"}, 99);  // a replica may be told more than it has
  h.log->Step();
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok());
  const RecoveryResult& result = (*recovery)->result();
  EXPECT_EQ(result.shards[0].committed, 2u);
  EXPECT_EQ(result.shards[1].committed, 1u);
  EXPECT_EQ(result.newest_timestamp_us, 1000u);  // Plain(0) stamps 1000
  auto last = h.log->Read(0, 3, 1);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(result.shards[0].last_checksum, record::Cursor((*last)->bytes).checksum());
}

TEST(LogRestartTest, DoubleRestartGoesOnWhereItEnded) {
  Harness h(3, 16 << 10);
  h.Create();
  for (int life = 0; life < 30; ++life) {
    for (int i = 0; i < 10; ++i) {
      h.SubmitRandom();
    }
    h.log->Step();
    const std::vector<std::vector<std::string>> confirmed = h.submitted;
    for (int i = 0; i < 3; ++i) {
      h.SubmitRandom();
    }
    h.options.sync = LogSync::kAlways;
    if (life % 3 == 0) {
      h.log->SetSync(LogSync::kOff, 0);
      h.log->Step();
    }
    h.device.PowerCut();
    h.Reopen();
    for (size_t s = 0; s < confirmed.size(); ++s) {
      ASSERT_GE(h.submitted[s].size(), confirmed[s].size()) << "shard " << s;
    }
    if (life % 4 == 0) {
      h.device.PowerCut();
      h.Reopen();  // at once again: nothing was appended between
      for (size_t s = 0; s < confirmed.size(); ++s) {
        ASSERT_GE(h.submitted[s].size(), confirmed[s].size()) << "shard " << s;
      }
    }
  }
}

TEST(LogRestartTest, CutAboveSurvivesAndSeqsGoOn) {
  Harness h(2, 16 << 10);
  h.Create();
  for (int i = 0; i < 60; ++i) {
    h.SubmitRandom(600);
    h.log->Step();
  }
  const std::vector<Seq> cut = {h.submitted[0].size() / 2, h.submitted[1].size() - 1};
  ASSERT_TRUE(h.log->CutAbove(cut).ok());
  EXPECT_EQ(h.log->persisted(0), cut[0]);
  h.submitted[0].resize(static_cast<size_t>(cut[0]));
  h.submitted[1].resize(static_cast<size_t>(cut[1]));
  EXPECT_EQ(*h.log->Read(0, cut[0] + 1, 1 << 20), nullptr);
  h.device.PowerCut();
  h.Reopen();
  EXPECT_EQ(h.submitted[0].size(), cut[0]);
  EXPECT_EQ(h.submitted[1].size(), cut[1]);
  h.SubmitValues(0, {"after the cut"});
  h.log->Step();
  auto batch = h.log->Read(0, cut[0], 1);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->last_seq, cut[0]);
  batch = h.log->Read(0, cut[0] + 1, 1 << 20);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->last_seq, cut[0] + 1);
  h.device.PowerCut();
  h.Reopen();
  EXPECT_EQ(h.submitted[0].back(), "after the cut");
}

TEST(LogRestartTest, MissingRecordsBelowTheCheckpointAreDamage) {
  Harness h(1, 16 << 10);
  h.options.retain_bytes = 0;
  h.Create();
  for (int i = 0; i < 100; ++i) {
    h.SubmitRandom(1000);
    h.log->Step();
  }
  ASSERT_GT(h.log->segments().Count(), 2u);
  h.log->Retain(h.marks.persisted);
  h.log.reset();
  EXPECT_THAT(std::string(h.Scan().status().message()), HasSubstr("are missing"));
  RecoveryOptions options = h.ScanOptions();
  options.needed_from = {h.submitted[0].size()};
  EXPECT_TRUE(Recovery::Scan(options).ok());
  options.checkpoint_end = {h.submitted[0].size() + 1};
  EXPECT_THAT(std::string(Recovery::Scan(options).status().message()),
              HasSubstr("before its checkpoint's end"));
}

// What a start had to replay is still to be replayed by the next one, until a checkpoint holds it.
TEST(LogRestartTest, KnowsWhatNoCheckpointHolds) {
  Harness h(2, 16 << 10);
  h.Create();
  EXPECT_EQ(h.log->ReplayBytes(), 0u);
  for (int i = 0; i < 30; ++i) {
    h.SubmitRandom(1000);
    h.log->Step();
  }
  const uint64_t written = h.log->ReplayBytes();
  EXPECT_EQ(written, h.log->AppendedBytes());
  h.Reopen();
  EXPECT_EQ(h.log->opened_with().oldest_us, 1000u);
  EXPECT_NEAR(static_cast<double>(h.log->ReplayBytes()), static_cast<double>(written), 4096);
  const uint64_t at_begin = h.log->AppendedBytes();
  h.SubmitValues(0, {std::string(5000, 'v')});
  h.log->Step();
  h.log->SetCheckpointed(at_begin);
  EXPECT_NEAR(static_cast<double>(h.log->ReplayBytes()), 5200, 300);
  h.log.reset();
  RecoveryOptions options = h.ScanOptions();
  options.needed_from = {h.submitted[0].size() - 1, h.submitted[1].size()};
  auto recovery = Recovery::Scan(options);
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  EXPECT_NEAR(static_cast<double>((*recovery)->TakeTail().debt.bytes), 5200, 300);
}

TEST(LogRestartTest, AbsentSegmentInTheMiddleIsDamage) {
  Harness h(1, 16 << 10);
  h.Create();
  for (int i = 0; i < 60; ++i) {
    h.SubmitRandom(1000);
    h.log->Step();
  }
  ASSERT_GT(h.log->segments().Count(), 3u);
  h.log.reset();
  ASSERT_TRUE(h.device.Remove(SegmentName(kLogDirectory, 2)).ok());
  const absl::Status status = h.Scan().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0000000002.seg is absent"));
}

TEST(LogRestartTest, RefusesForeignAndNewerLogs) {
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
  h.device.SetContents(SegmentName(kLogDirectory, 1), {bytes.begin(), bytes.end()});
  EXPECT_THAT(std::string(h.Scan().status().message()), HasSubstr("start a newer kvstored"));
}

}  // namespace
}  // namespace kvstored::log
