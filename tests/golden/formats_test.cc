// The frozen files under vN/ are what version N wrote. Today's code must read them all, and must
// write the same bytes as long as a file's version is N. A new version gets a new folder; old ones
// are never rewritten. KVS_GOLDEN_WRITE=DIR writes the files of the current versions there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "log/checkpoint.h"
#include "log/meta.h"
#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

constexpr char kSegment[] = "set/log/0000000001.seg";
constexpr char kCheckpoint[] = "set/0000000001.ckpt";
constexpr char kManifest[] = "set/manifest";
constexpr char kLogFiles[] = "set/log_files";
constexpr char kRecord[] = "record";

std::string FileOf(const std::string& name) {
  return name.substr(name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1);
}

uint32_t CurrentVersion(const std::string& name) {
  return name == kCheckpoint ? kCheckpointVersion : 1;
}

std::vector<uint8_t> Frozen(const std::string& name, uint32_t version) {
  std::ifstream in(absl::StrFormat("%s/v%d/%s", KVS_GOLDEN_DIR, version, FileOf(name)),
                   std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The record of the worked example in docs/formats/record.md.
record::Record Example() {
  record::Record record;
  record.seq = 42;
  record.digest = {0x0123456789abcdef, 0xfedcba9876543210};
  record.timestamp_us = 1700000000000000;
  record.op = RecordOp::kSet;
  record.epoch = 3;
  record.expiry_ms = 1700000060000;
  record.key = "user:1";
  record.value = "hello";
  return record;
}

record::Record InTxn(std::string_view value) {
  record::Record record = Harness::Plain(0, value);
  record.flags = kRecordInTxn;
  return record;
}

void WriteLog(Harness* h) {
  h->options.random = [] {
    return 0x1122334455667788;
  };
  h->options.spare_segments = 0;
  h->Create();
  const std::string parts = record::EncodeTxnParts(std::vector<record::TxnPart>{{0, 4}, {1, 2}});
  record::Record end;
  end.op = RecordOp::kTxnEnd;
  end.flags = kRecordInTxn;
  end.aux = 77;
  end.value = parts;
  h->SubmitValues(0, {"one", "two"});
  h->log->Step();
  h->Submit(0, {InTxn("three"), end}, 2);
  h->Submit(1, {InTxn("four"), end});
  h->SubmitValues(1, {std::string(100, 'x')}, 1);
  h->log->Step();
  ASSERT_TRUE(h->log->Close().ok());
}

void WriteCheckpoint(Harness* h) {
  auto writer = CheckpointWriter::Begin(&h->device, "set", kDataSet, 0x99aabbccddeeff00, {1, 2});
  ASSERT_TRUE(writer.ok()) << writer.status();
  record::Batch slice;
  slice.is_snapshot = true;
  for (Seq seq = 1; seq <= 2; ++seq) {
    record::Record item = Harness::Plain(seq, "value");
    item.flags = kRecordSnapshot;
    record::Encode(item, &slice.bytes);
  }
  ASSERT_TRUE((*writer)->Add(slice).ok());
  const std::string value(1000, 'z');  // a block that is compressed
  record::Record item = Harness::Plain(2, value);
  item.flags = kRecordSnapshot;
  slice.shard = 1;
  slice.bytes.clear();
  record::Encode(item, &slice.bytes);
  ASSERT_TRUE((*writer)->Add(slice).ok());
  ASSERT_TRUE((*writer)->Finish({3, 2}, 1700000000000000).ok());
  ASSERT_TRUE((*writer)->Publish({3, 2}, {3, 2}).ok());
}

Meta ExampleMeta() {
  Meta meta;
  meta.role = Role::kPrimary;
  meta.store = kDataSet;
  meta.data_set = {{0xaa, 0xbb}};
  meta.data_set_directory = "set";
  meta.members = {{kDataSet, "10.0.0.2:7479"}};
  meta.highest_epoch = 3;
  meta.promise = 2;
  meta.ack = AckLevel::kPersisted;
  meta.ack_replicas = 1;
  meta.boot_id = "3f4c8e70-0000-4000-8000-000000000000";
  return meta;
}

Manifest ExampleManifest() {
  Manifest manifest;
  manifest.data_set = kDataSet;
  manifest.seed = {{7, 7, 7}};
  manifest.shard_count = 2;
  manifest.start_seqs = {0, 0};
  manifest.epochs = {{{1, 0x1111}, {1, 1}}, {{3, 0x3333}, {4, 2}}};
  return manifest;
}

std::map<std::string, std::vector<uint8_t>> WriteAll() {
  Harness h(2, 8 << 10);
  WriteLog(&h);
  WriteCheckpoint(&h);
  EXPECT_TRUE(SaveMeta(&h.device, ExampleMeta()).ok());
  EXPECT_TRUE(SaveManifest(&h.device, "set", ExampleManifest()).ok());
  auto files = h.device.Contents();
  record::Encode(Example(), &files[kRecord]);
  return files;
}

TEST(GoldenTest, TodayWritesTheSameBytes) {
  const auto files = WriteAll();
  const char* directory = std::getenv("KVS_GOLDEN_WRITE");
  for (const char* name : {kRecord, kSegment, kCheckpoint, kMetaName, kManifest, kLogFiles}) {
    const std::vector<uint8_t>& bytes = files.at(name);
    if (directory != nullptr) {
      std::ofstream out(std::string(directory) + "/" + FileOf(name), std::ios::binary);
      out.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
    }
    EXPECT_TRUE(bytes == Frozen(name, CurrentVersion(name)))
        << name << " differs from what its version wrote";
  }
}

TEST(GoldenTest, RecordReadsBack) {
  const std::vector<uint8_t> bytes = Frozen(kRecord, 1);
  record::Record record;
  size_t size_bytes = 0;
  ASSERT_EQ(record::Decode(bytes, &record, &size_bytes), record::DecodeResult::kOk);
  EXPECT_EQ(size_bytes, bytes.size());
  EXPECT_EQ(record.seq, 42u);
  EXPECT_EQ(record.digest, Example().digest);
  EXPECT_EQ(record.key, "user:1");
  EXPECT_EQ(record.value, "hello");
  EXPECT_EQ(record.expiry_ms, 1700000060000u);
}

TEST(GoldenTest, LogReadsBack) {
  Harness h(2, 8 << 10);
  h.device.SetContents(kSegment, Frozen(kSegment, 1));
  h.device.SetContents(kLogFiles, Frozen(kLogFiles, 1));
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  const RecoveryResult& result = (*recovery)->result();
  EXPECT_EQ(result.shards[0].last_seq, 4u);
  EXPECT_EQ(result.shards[1].last_seq, 3u);
  EXPECT_EQ(result.shards[0].committed, 2u);
  EXPECT_EQ(result.shards[1].committed, 1u);
  EXPECT_EQ(result.shards[0].whole_txn_seq, 4u);
  EXPECT_TRUE(result.torn.empty());
  auto sink = h.ReadAll(recovery->get());
  ASSERT_TRUE(sink.ok()) << sink.status();
  EXPECT_EQ(sink->records[0][1], (std::pair<Seq, std::string>{2, "two"}));
  EXPECT_EQ(sink->records[1][2], (std::pair<Seq, std::string>{3, std::string(100, 'x')}));
}

TEST(GoldenTest, CheckpointReadsBack) {
  for (const uint32_t version : {1U, 2U}) {
    Harness h(2);
    h.device.SetContents(kCheckpoint, Frozen(kCheckpoint, version));
    auto reader = CheckpointReader::OpenNewest(&h.device, "set", kDataSet);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->facts().StartSeqs(), (std::vector<Seq>{1, 2}));
    EXPECT_EQ((*reader)->facts().EndSeqs(), (std::vector<Seq>{3, 2}));
    MemorySink sink(2);
    ASSERT_TRUE((*reader)->Replay(1, &sink).ok());
    EXPECT_EQ(sink.records[0].size(), 2u);
    const auto compressed = std::pair<Seq, std::string>{2, std::string(1000, 'z')};
    EXPECT_EQ(sink.records[1].size(), version - 1);
    EXPECT_TRUE(version == 1 || sink.records[1].front() == compressed);
  }
}

TEST(GoldenTest, TextsReadBack) {
  Harness h(2);
  h.device.SetContents(kMetaName, Frozen(kMetaName, 1));
  h.device.SetContents(kManifest, Frozen(kManifest, 1));
  auto meta = LoadMeta(&h.device);
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_EQ(*meta, ExampleMeta());
  auto manifest = LoadManifest(&h.device, "set");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(*manifest, ExampleManifest());
  h.device.SetContents(kLogFiles, Frozen(kLogFiles, 1));
  auto files = LoadLogFiles(&h.device, kLogDirectory);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(*files,
            (LogFiles{.newest = 1, .segment_bytes = 8 << 10, .begun = 1, .persisted = {4, 3}}));
}

}  // namespace
}  // namespace kvstored::log
