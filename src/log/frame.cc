#include "log/frame.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "kvstored/limits.h"

namespace kvstored::log {
namespace {

constexpr uint32_t kFrameMagic = 0x4b565346;            // "KVSF"
constexpr uint64_t kSegmentMagic = 0x4b56534c4f473031;  // "KVSLOG01"
constexpr size_t kFrameCrcOffset = 60;

// Segment header offsets. Magic, version and CRC keep their places in all versions.
constexpr size_t kVersionOffset = 8;
constexpr size_t kHeaderCrcOffset = 12;
constexpr size_t kIncarnationOffset = 16;
constexpr size_t kNumberOffset = 24;
constexpr size_t kPredecessorIncarnationOffset = 32;
constexpr size_t kPredecessorEndOffset = 40;
constexpr size_t kSegmentBytesOffset = 48;
constexpr size_t kDataSetOffset = 56;
constexpr size_t kShardCountOffset = 72;
constexpr size_t kStartSeqsOffset = 128;
static_assert(kStartSeqsOffset + 8 * kShardCountMax <= kSegmentHeaderBytes);

}  // namespace

void EncodeFrameHeader(const FrameHeader& header, uint8_t* out) {
  base::StoreBe32(out, kFrameMagic);
  base::StoreBe16(out + 4, header.shard);
  base::StoreBe16(out + 6, header.flags);
  base::StoreBe64(out + 8, header.incarnation);
  base::StoreBe64(out + 16, header.first_seq);
  base::StoreBe32(out + 24, header.payload_bytes);
  base::StoreBe32(out + 28, header.payload_crc);
  base::StoreBe64(out + 32, header.committed);
  base::StoreBe64(out + 40, header.persisted.segment);
  base::StoreBe64(out + 48, header.persisted.offset);
  base::StoreBe32(out + 56, header.record_count);
  base::StoreBe32(out + kFrameCrcOffset, base::Crc32c(0, out, kFrameCrcOffset));
}

bool DecodeFrameHeader(const uint8_t* bytes, FrameHeader* header) {
  if (base::LoadBe32(bytes) != kFrameMagic ||
      base::LoadBe32(bytes + kFrameCrcOffset) != base::Crc32c(0, bytes, kFrameCrcOffset)) {
    return false;
  }
  header->shard = base::LoadBe16(bytes + 4);
  header->flags = base::LoadBe16(bytes + 6);
  header->incarnation = base::LoadBe64(bytes + 8);
  header->first_seq = base::LoadBe64(bytes + 16);
  header->payload_bytes = base::LoadBe32(bytes + 24);
  header->payload_crc = base::LoadBe32(bytes + 28);
  header->committed = base::LoadBe64(bytes + 32);
  header->persisted = {base::LoadBe64(bytes + 40), base::LoadBe64(bytes + 48)};
  header->record_count = base::LoadBe32(bytes + 56);
  return true;
}

void EncodeSegmentHeader(const SegmentHeader& header, std::span<uint8_t, kSegmentHeaderBytes> out) {
  KVS_CHECK(header.start_seqs.size() <= kShardCountMax, "shards=%zu", header.start_seqs.size());
  std::fill(out.begin(), out.end(), uint8_t{0});
  uint8_t* p = out.data();
  base::StoreBe64(p, kSegmentMagic);
  base::StoreBe32(p + kVersionOffset, header.version);
  base::StoreBe64(p + kIncarnationOffset, header.incarnation);
  base::StoreBe64(p + kNumberOffset, header.number);
  base::StoreBe64(p + kPredecessorIncarnationOffset, header.predecessor_incarnation);
  base::StoreBe64(p + kPredecessorEndOffset, header.predecessor_end);
  base::StoreBe64(p + kSegmentBytesOffset, header.segment_bytes);
  std::memcpy(p + kDataSetOffset, header.data_set.bytes.data(), header.data_set.bytes.size());
  base::StoreBe32(p + kShardCountOffset, static_cast<uint32_t>(header.start_seqs.size()));
  for (size_t s = 0; s < header.start_seqs.size(); ++s) {
    base::StoreBe64(p + kStartSeqsOffset + 8 * s, header.start_seqs[s]);
  }
  base::StoreBe32(p + kHeaderCrcOffset, base::Crc32cAround(p, out.size(), kHeaderCrcOffset));
}

SegmentHeaderResult DecodeSegmentHeader(std::span<const uint8_t, kSegmentHeaderBytes> bytes,
                                        SegmentHeader* header) {
  if (std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; })) {
    return SegmentHeaderResult::kAbsent;
  }
  const uint8_t* p = bytes.data();
  if (base::LoadBe64(p) != kSegmentMagic ||
      base::LoadBe32(p + kHeaderCrcOffset) !=
          base::Crc32cAround(p, bytes.size(), kHeaderCrcOffset)) {
    return SegmentHeaderResult::kBad;
  }
  header->version = base::LoadBe32(p + kVersionOffset);
  if (header->version != kLogVersion) {
    return header->version > kLogVersion ? SegmentHeaderResult::kNewer : SegmentHeaderResult::kBad;
  }
  const uint32_t shard_count = base::LoadBe32(p + kShardCountOffset);
  if (shard_count == 0 || shard_count > kShardCountMax) {
    return SegmentHeaderResult::kBad;
  }
  header->incarnation = base::LoadBe64(p + kIncarnationOffset);
  header->number = base::LoadBe64(p + kNumberOffset);
  header->predecessor_incarnation = base::LoadBe64(p + kPredecessorIncarnationOffset);
  header->predecessor_end = base::LoadBe64(p + kPredecessorEndOffset);
  header->segment_bytes = base::LoadBe64(p + kSegmentBytesOffset);
  std::memcpy(header->data_set.bytes.data(), p + kDataSetOffset, header->data_set.bytes.size());
  header->start_seqs.resize(shard_count);
  for (size_t s = 0; s < shard_count; ++s) {
    header->start_seqs[s] = base::LoadBe64(p + kStartSeqsOffset + 8 * s);
  }
  return SegmentHeaderResult::kOk;
}

std::string SegmentName(const std::string& directory, uint64_t number) {
  return absl::StrFormat("%s/%010d.seg", directory, number);
}

uint64_t ParseSegmentName(const std::string& name) {
  constexpr size_t kDigits = 10;
  if (name.size() < kDigits + 4 || name.substr(name.size() - 4) != ".seg") {
    return 0;
  }
  const std::string digits = name.substr(0, name.size() - 4);
  if (digits.size() > 19 || digits.find_first_not_of("0123456789") != std::string::npos) {
    return 0;
  }
  return std::strtoull(digits.c_str(), nullptr, 10);
}

}  // namespace kvstored::log
