#include "log/checkpoint.h"

#include <gmock/gmock.h>

#include "log/damage.h"
#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

using ::testing::HasSubstr;

constexpr char kDirectory[] = "set";

record::Batch Slice(ShardId shard, Seq applied, const std::vector<record::Record>& items) {
  record::Batch batch;
  batch.shard = shard;
  batch.is_snapshot = true;
  batch.first_seq = batch.last_seq = applied;
  for (record::Record item : items) {
    item.flags |= kRecordSnapshot;
    record::Encode(item, &batch.bytes);
  }
  return batch;
}

// Two shards; shard s holds 1000 items with seqs 1000 down to 1 (order of a scan is not seq order).
std::unique_ptr<CheckpointWriter> WriteSample(Harness* h) {
  auto writer = CheckpointWriter::Begin(&h->device, kDirectory, kDataSet, 42, {900, 950});
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (Seq seq = 1000; seq > 0; --seq) {
    for (ShardId shard = 0; shard < 2; ++shard) {
      const std::string value = absl::StrFormat("%d:%d", shard, seq) + std::string(seq % 900, 'x');
      EXPECT_TRUE((*writer)->Add(Slice(shard, 1000, {Harness::Plain(seq, value)})).ok());
    }
  }
  EXPECT_TRUE((*writer)->Finish({1000, 1001}, 777).ok());
  return *std::move(writer);
}

void ExpectSample(CheckpointReader* reader, uint32_t threads) {
  MemorySink sink(2);
  ASSERT_TRUE(reader->Replay(threads, &sink).ok());
  for (ShardId shard = 0; shard < 2; ++shard) {
    ASSERT_EQ(sink.records[shard].size(), 1000u);
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(sink.records[shard][i].first, 1000 - i);
      ASSERT_THAT(sink.records[shard][i].second,
                  ::testing::StartsWith(absl::StrFormat("%d:%d", shard, 1000 - i)));
    }
  }
}

TEST(CheckpointTest, RoundTripAfterPublication) {
  Harness h(2);
  auto writer = WriteSample(&h);
  EXPECT_EQ(writer->Publish({1000, 1000}, {1000, 1001}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->Publish({1000, 1001}, {999, 1001}).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(writer->Publish({1000, 1001}, {2000, 1001}).ok());
  writer.reset();
  h.device.PowerCut();
  auto reader = CheckpointReader::OpenNewest(&h.device, kDirectory, kDataSet);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_NE(*reader, nullptr);
  EXPECT_EQ((*reader)->facts().StartSeqs(), (std::vector<Seq>{900, 950}));
  EXPECT_EQ((*reader)->facts().EndSeqs(), (std::vector<Seq>{1000, 1001}));
  EXPECT_EQ((*reader)->facts().newest_timestamp_us, 777u);
  ExpectSample(reader->get(), 1);
  ExpectSample(reader->get(), 2);
}

TEST(CheckpointTest, UnpublishedVanishesAndTheOldOneStays) {
  Harness h(2);
  ASSERT_TRUE(WriteSample(&h)->Publish({1000, 1001}, {1000, 1001}).ok());
  {
    auto second = WriteSample(&h);
    EXPECT_EQ(second->facts().number, 2u);
    h.device.PowerCut();  // before publication; the writer can't clean up
  }
  auto reader = CheckpointReader::OpenNewest(&h.device, kDirectory, kDataSet);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->facts().number, 1u);
  for (const auto& [name, bytes] : h.device.Contents()) {
    EXPECT_THAT(name, ::testing::Not(HasSubstr(".tmp")));
  }
  ASSERT_TRUE(WriteSample(&h)->Publish({1000, 1001}, {1000, 1001}).ok());
  EXPECT_EQ(h.device.Contents().size(), 1u);  // the older one is gone
  reader = CheckpointReader::OpenNewest(&h.device, kDirectory, kDataSet);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->facts().number, 2u);
}

TEST(CheckpointTest, PowerCutAtEveryCallLeavesAWholeOne) {
  for (uint64_t cut_at = 0; cut_at < 30; ++cut_at) {
    Harness h(2, 64 << 10, cut_at + 1);
    ASSERT_TRUE(WriteSample(&h)->Publish({1000, 1001}, {1000, 1001}).ok());
    h.device.CrashAfter(cut_at);
    auto writer = CheckpointWriter::Begin(&h.device, kDirectory, kDataSet, 43, {900, 950});
    if (writer.ok()) {
      absl::Status status = (*writer)->Add(Slice(0, 1000, {Harness::Plain(1, "v")}));
      if (status.ok()) {
        status = (*writer)->Finish({1000, 1001}, 1);
      }
      if (status.ok()) {
        (void)(*writer)->Publish({1000, 1001}, {1000, 1001});
      }
    }
    writer = absl::UnknownError("gone");
    h.device.PowerCut();
    auto reader = CheckpointReader::OpenNewest(&h.device, kDirectory, kDataSet);
    ASSERT_TRUE(reader.ok()) << cut_at << ": " << reader.status();
    ASSERT_NE(*reader, nullptr);
    MemorySink sink(2);
    ASSERT_TRUE((*reader)->Replay(1, &sink).ok()) << cut_at;
    EXPECT_EQ(sink.records[0].size(), (*reader)->facts().number == 1 ? 1000u : 1u);
  }
}

TEST(CheckpointTest, FullDiskLeavesNothing) {
  Harness h(2);
  h.device.SetCapacity(100 << 10);
  auto writer = CheckpointWriter::Begin(&h.device, kDirectory, kDataSet, 42, {0, 0});
  ASSERT_TRUE(writer.ok());
  absl::Status status;
  std::string value(1000, '\0');
  for (Seq seq = 1; status.ok() && seq < 10000; ++seq) {
    for (char& byte : value) {
      byte = static_cast<char>(h.random.Next());  // blocks that stay as they are
    }
    status = (*writer)->Add(Slice(0, 1, {Harness::Plain(1, value)}));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  *writer = nullptr;
  EXPECT_TRUE(h.device.Contents().empty());
}

TEST(CheckpointTest, EveryFlippedByteIsHarmlessOrNamed) {
  Harness h(1);
  auto writer = CheckpointWriter::Begin(&h.device, kDirectory, kDataSet, 42, {0});
  ASSERT_TRUE(writer.ok());
  for (Seq seq = 1; seq <= 10; ++seq) {
    ASSERT_TRUE((*writer)->Add(Slice(0, 10, {Harness::Plain(seq, "value")})).ok());
  }
  ASSERT_TRUE((*writer)->Finish({10}, 1).ok());
  ASSERT_TRUE((*writer)->Publish({10}, {10}).ok());
  const std::string name = "set/0000000001.ckpt";
  const size_t size_bytes = h.device.Contents()[name].size();
  size_t harmless = 0;
  for (uint64_t offset = 0; offset < size_bytes; ++offset) {
    h.device.FlipBit(name, offset, static_cast<uint32_t>(offset % 8));
    auto reader = CheckpointReader::OpenNewest(&h.device, kDirectory, kDataSet);
    MemorySink sink(1);
    const absl::Status status = reader.ok() ? (*reader)->Replay(1, &sink) : reader.status();
    if (status.ok()) {
      ++harmless;
      ASSERT_EQ(sink.records[0].size(), 10u);
    } else {
      ASSERT_TRUE(IsDamage(status)) << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr(name));
    }
    h.device.FlipBit(name, offset, static_cast<uint32_t>(offset % 8));
  }
  EXPECT_LT(harmless, 64u);  // a block's padding
  // Cut short at any length.
  const std::vector<uint8_t> whole = h.device.Contents()[name];
  for (size_t keep = 0; keep < size_bytes; keep += 61) {
    h.device.SetContents(name, {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(keep)});
    EXPECT_TRUE(IsDamage(CheckpointReader::OpenNewest(&h.device, kDirectory, kDataSet).status()));
  }
  // What cannot be read is not damaged.
  h.device.SetContents(name, whole);
  for (uint64_t read = 0; read < 3; ++read) {
    h.device.FailReadAfter(read);
    auto reader = CheckpointReader::OpenNewest(&h.device, kDirectory, kDataSet);
    MemorySink sink(1);
    const absl::Status status = reader.ok() ? (*reader)->Replay(1, &sink) : reader.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << read;
    EXPECT_FALSE(IsDamage(status)) << status;
  }
}

TEST(CheckpointTest, ForeignDataSetIsRefused) {
  Harness h(2);
  ASSERT_TRUE(WriteSample(&h)->Publish({1000, 1001}, {1000, 1001}).ok());
  Id128 other = kDataSet;
  other.bytes[3] = 99;
  EXPECT_EQ(CheckpointReader::OpenNewest(&h.device, kDirectory, other).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CheckpointTest, OneUnderAnothersNameIsRefused) {
  Harness h(2);
  ASSERT_TRUE(WriteSample(&h)->Publish({1000, 1001}, {1000, 1001}).ok());
  ASSERT_TRUE(h.device.Rename("set/0000000001.ckpt", "set/0000000003.ckpt").ok());
  const absl::Status refused =
      CheckpointReader::OpenNewest(&h.device, kDirectory, kDataSet).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("set/0000000003.ckpt says that it is number 1"));
}

}  // namespace
}  // namespace kvstored::log
