#include "log/dump.h"

#include <gmock/gmock.h>

#include "log/checkpoint.h"
#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

using ::testing::HasSubstr;

struct Output {
  absl::Status status;
  std::vector<std::string> lines;
};

Output Dump(Harness* h, const std::string& name, DumpFormat format) {
  Output output;
  output.status = DumpFile(&h->device, name, format,
                           [&output](std::string_view line) { output.lines.emplace_back(line); });
  return output;
}

Output Verify(Harness* h, const std::string& name) {
  Output output;
  output.status = VerifyFile(&h->device, name, DumpFormat::kText,
                             [&output](std::string_view line) { output.lines.emplace_back(line); });
  return output;
}

TEST(DumpTest, SegmentFrameByFrame) {
  Harness h(2);
  h.Create();
  h.SubmitValues(1, {"a", "b"}, 0);
  h.SubmitValues(0, {"c"}, 0);
  h.log->Step();
  const std::string name = SegmentName(kLogDirectory, 1);
  const Output text = Dump(&h, name, DumpFormat::kText);
  ASSERT_TRUE(text.status.ok()) << text.status;
  ASSERT_EQ(text.lines.size(), 7u);  // segment, 2 frames, 3 records, summary
  EXPECT_THAT(text.lines[0], HasSubstr("segment number=1 version=1"));
  EXPECT_THAT(text.lines[1], HasSubstr("frame offset=4096 shard=1 first_seq=1 records=2"));
  EXPECT_THAT(text.lines[2], HasSubstr("op=\"set\""));
  EXPECT_THAT(text.lines[6], HasSubstr("records=3"));
  EXPECT_THAT(text.lines[6], HasSubstr("state=\"whole\""));
  const Output json = Dump(&h, name, DumpFormat::kJsonLines);
  EXPECT_THAT(json.lines[1], HasSubstr(R"({"kind":"frame","offset":4096,"shard":1)"));
  EXPECT_EQ(Verify(&h, name).lines.size(), 1u);
}

TEST(DumpTest, DamageAndTornTailAreTold) {
  Harness h(1);
  h.Create();
  for (int i = 0; i < 3; ++i) {
    h.SubmitValues(0, {"value"});
    h.log->Step();
  }
  const std::string name = SegmentName(kLogDirectory, 1);
  h.device.FlipBit(name, 4096 + 64 + 5, 0);
  Output output = Verify(&h, name);
  EXPECT_EQ(output.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(output.lines[0], HasSubstr("frames=3 bad_frames=1 records=2"));
  EXPECT_THAT(output.lines[0], HasSubstr("state=\"damaged\""));
  h.device.FlipBit(name, 4096 + 64 + 5, 0);
  h.device.FlipBit(name, 4096 + 5, 0);  // a frame's header: goes on behind it
  output = Dump(&h, name, DumpFormat::kText);
  EXPECT_EQ(output.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(output.lines[1], HasSubstr("bad offset=4096 next_frame="));
  h.device.FlipBit(name, 4096 + 5, 0);
  const uint64_t frame = FrameBytes(record::EncodedBytes(3, 5));
  h.device.FlipBit(name, 4096 + 2 * frame + 64 + 5, 0);  // the last one
  output = Verify(&h, name);
  EXPECT_TRUE(output.status.ok()) << output.status;
  EXPECT_THAT(output.lines[0], HasSubstr("state=\"torn\""));
}

TEST(DumpTest, SparesAndGarbage) {
  Harness h(1);
  h.Create();
  EXPECT_THAT(Verify(&h, SegmentName(kLogDirectory, 2)).lines[0], HasSubstr("unused"));
  h.device.SetContents("junk", std::vector<uint8_t>(20000, 7));
  EXPECT_EQ(Verify(&h, "junk").status.code(), absl::StatusCode::kDataLoss);
  h.device.SetContents("short", std::vector<uint8_t>(10, 7));
  EXPECT_EQ(Verify(&h, "short").status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Verify(&h, "absent").status.code(), absl::StatusCode::kNotFound);
}

TEST(DumpTest, Checkpoint) {
  Harness h(1);
  auto writer = CheckpointWriter::Begin(&h.device, "set", kDataSet, 42, {5});
  ASSERT_TRUE(writer.ok());
  record::Batch slice;
  slice.is_snapshot = true;
  record::Record item = Harness::Plain(3, "value");
  item.key = "\xff\xfe";
  item.flags = kRecordSnapshot;
  record::Encode(item, &slice.bytes);
  ASSERT_TRUE((*writer)->Add(slice).ok());
  ASSERT_TRUE((*writer)->Finish({9}, 1).ok());
  ASSERT_TRUE((*writer)->Publish({9}, {9}).ok());
  const std::string name = "set/0000000001.ckpt";
  for (const DumpFormat format : {DumpFormat::kText, DumpFormat::kJsonLines}) {
    const Output output = Dump(&h, name, format);
    ASSERT_TRUE(output.status.ok()) << output.status;
    ASSERT_EQ(output.lines.size(), 4u);  // checkpoint, block, record, summary
  }
  h.device.FlipBit(name, kCheckpointHeaderBytes + 70, 1);
  EXPECT_EQ(Verify(&h, name).status.code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace kvstored::log
