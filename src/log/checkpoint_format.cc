#include "log/checkpoint_format.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "log/damage.h"

namespace kvstored::log {
namespace {

constexpr uint64_t kCheckpointMagic = 0x4b5653434b505431;  // "KVSCKPT1"
constexpr uint64_t kFooterMagic = 0x4b5653434b505445;      // "KVSCKPTE"
constexpr uint32_t kBlockMagic = 0x4b565342;               // "KVSB"
constexpr size_t kBlockCrcOffset = 60;

// Of header and footer alike: magic, version and CRC keep their places in all versions.
constexpr size_t kCheckpointVersionOffset = 8;
constexpr size_t kCheckpointCrcOffset = 12;
constexpr size_t kCheckpointIncarnationOffset = 16;
constexpr size_t kCheckpointNumberOffset = 24;
constexpr size_t kCheckpointDataSetOffset = 32;  // header
constexpr size_t kCheckpointShardCountOffset = 48;
constexpr size_t kCheckpointFileBytesOffset = 32;  // footer
constexpr size_t kCheckpointTimestampOffset = 40;  // footer
constexpr size_t kCheckpointTableOffset = 128;
constexpr size_t kFooterEntryBytes = 24;
static_assert(kCheckpointTableOffset + 8 * kShardCountMax <= kCheckpointHeaderBytes);
static_assert(kCheckpointTableOffset + kFooterEntryBytes * kShardCountMax <=
              kCheckpointFooterBytes);

void EncodeStart(uint64_t magic, uint64_t incarnation, const CheckpointFacts& facts,
                 std::span<uint8_t> out) {
  KVS_CHECK(facts.shards.size() <= kShardCountMax, "shards=%zu", facts.shards.size());
  std::fill(out.begin(), out.end(), uint8_t{0});
  base::StoreBe64(out.data(), magic);
  base::StoreBe32(out.data() + kCheckpointVersionOffset, kCheckpointVersion);
  base::StoreBe64(out.data() + kCheckpointIncarnationOffset, incarnation);
  base::StoreBe64(out.data() + kCheckpointNumberOffset, facts.number);
  base::StoreBe32(out.data() + kCheckpointShardCountOffset,
                  static_cast<uint32_t>(facts.shards.size()));
}

absl::Status CheckStart(uint64_t magic, std::span<const uint8_t> bytes, const char* what) {
  if (base::LoadBe64(bytes.data()) != magic ||
      base::LoadBe32(bytes.data() + kCheckpointCrcOffset) !=
          base::Crc32cAround(bytes.data(), bytes.size(), kCheckpointCrcOffset)) {
    return DamageError(absl::StrFormat("its %s is damaged", what));
  }
  const uint32_t version = base::LoadBe32(bytes.data() + kCheckpointVersionOffset);
  if (version == 0 || version > kCheckpointVersion) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "it has format version %d, this kvstored reads up to %d; start a newer kvstored on this "
        "directory",
        version, kCheckpointVersion));
  }
  const uint32_t shard_count = base::LoadBe32(bytes.data() + kCheckpointShardCountOffset);
  if (shard_count == 0 || shard_count > kShardCountMax) {
    return DamageError(absl::StrFormat("its %s names %d shards", what, shard_count));
  }
  return absl::OkStatus();
}

}  // namespace

void EncodeBlockHeader(const BlockHeader& header, uint8_t* out) {
  std::fill(out, out + kBlockHeaderBytes, uint8_t{0});
  base::StoreBe32(out, kBlockMagic);
  base::StoreBe16(out + 4, header.shard);
  base::StoreBe64(out + 8, header.incarnation);
  base::StoreBe64(out + 16, header.offset);
  base::StoreBe32(out + 24, header.payload_bytes);
  base::StoreBe32(out + 28, header.payload_crc);
  base::StoreBe32(out + 32, header.record_count);
  base::StoreBe32(out + 36, header.expanded_bytes);
  base::StoreBe32(out + kBlockCrcOffset, base::Crc32c(0, out, kBlockCrcOffset));
}

bool DecodeBlockHeader(const uint8_t* bytes, BlockHeader* header) {
  if (base::LoadBe32(bytes) != kBlockMagic ||
      base::LoadBe32(bytes + kBlockCrcOffset) != base::Crc32c(0, bytes, kBlockCrcOffset)) {
    return false;
  }
  header->shard = base::LoadBe16(bytes + 4);
  header->incarnation = base::LoadBe64(bytes + 8);
  header->offset = base::LoadBe64(bytes + 16);
  header->payload_bytes = base::LoadBe32(bytes + 24);
  header->payload_crc = base::LoadBe32(bytes + 28);
  header->record_count = base::LoadBe32(bytes + 32);
  header->expanded_bytes = base::LoadBe32(bytes + 36);
  return true;
}

void EncodeCheckpointHeader(const CheckpointFacts& facts, uint64_t incarnation,
                            std::span<uint8_t, kCheckpointHeaderBytes> out) {
  EncodeStart(kCheckpointMagic, incarnation, facts, out);
  std::memcpy(out.data() + kCheckpointDataSetOffset, facts.data_set.bytes.data(),
              facts.data_set.bytes.size());
  for (size_t s = 0; s < facts.shards.size(); ++s) {
    base::StoreBe64(out.data() + kCheckpointTableOffset + 8 * s, facts.shards[s].start_seq);
  }
  base::StoreBe32(out.data() + kCheckpointCrcOffset,
                  base::Crc32cAround(out.data(), out.size(), kCheckpointCrcOffset));
}

absl::Status DecodeCheckpointHeader(std::span<const uint8_t, kCheckpointHeaderBytes> bytes,
                                    CheckpointFacts* facts, uint64_t* incarnation) {
  KVS_RETURN_IF_ERROR(CheckStart(kCheckpointMagic, bytes, "header"));
  const uint8_t* p = bytes.data();
  *incarnation = base::LoadBe64(p + kCheckpointIncarnationOffset);
  facts->number = base::LoadBe64(p + kCheckpointNumberOffset);
  std::memcpy(facts->data_set.bytes.data(), p + kCheckpointDataSetOffset,
              facts->data_set.bytes.size());
  facts->shards.resize(base::LoadBe32(p + kCheckpointShardCountOffset));
  for (size_t s = 0; s < facts->shards.size(); ++s) {
    facts->shards[s].start_seq = base::LoadBe64(p + kCheckpointTableOffset + 8 * s);
  }
  return absl::OkStatus();
}

void EncodeCheckpointFooter(const CheckpointFacts& facts, uint64_t incarnation,
                            std::span<uint8_t, kCheckpointFooterBytes> out) {
  EncodeStart(kFooterMagic, incarnation, facts, out);
  base::StoreBe64(out.data() + kCheckpointFileBytesOffset, facts.file_bytes);
  base::StoreBe64(out.data() + kCheckpointTimestampOffset, facts.newest_timestamp_us);
  for (size_t s = 0; s < facts.shards.size(); ++s) {
    uint8_t* entry = out.data() + kCheckpointTableOffset + kFooterEntryBytes * s;
    base::StoreBe64(entry, facts.shards[s].end_seq);
    base::StoreBe64(entry + 8, facts.shards[s].item_bytes);
    base::StoreBe64(entry + 16, facts.shards[s].record_count);
  }
  base::StoreBe32(out.data() + kCheckpointCrcOffset,
                  base::Crc32cAround(out.data(), out.size(), kCheckpointCrcOffset));
}

absl::Status DecodeCheckpointFooter(std::span<const uint8_t, kCheckpointFooterBytes> bytes,
                                    uint64_t incarnation, CheckpointFacts* facts) {
  KVS_RETURN_IF_ERROR(CheckStart(kFooterMagic, bytes, "footer"));
  const uint8_t* p = bytes.data();
  if (base::LoadBe64(p + kCheckpointIncarnationOffset) != incarnation ||
      base::LoadBe64(p + kCheckpointNumberOffset) != facts->number ||
      base::LoadBe64(p + kCheckpointFileBytesOffset) != facts->file_bytes ||
      base::LoadBe32(p + kCheckpointShardCountOffset) != facts->shards.size()) {
    return DamageError("its footer belongs to another file, or the file was cut");
  }
  facts->newest_timestamp_us = base::LoadBe64(p + kCheckpointTimestampOffset);
  for (size_t s = 0; s < facts->shards.size(); ++s) {
    const uint8_t* entry = p + kCheckpointTableOffset + kFooterEntryBytes * s;
    facts->shards[s].end_seq = base::LoadBe64(entry);
    facts->shards[s].item_bytes = base::LoadBe64(entry + 8);
    facts->shards[s].record_count = base::LoadBe64(entry + 16);
  }
  return absl::OkStatus();
}

std::string CheckpointName(const std::string& directory, uint64_t number) {
  return absl::StrFormat("%s/%010d.ckpt", directory, number);
}

uint64_t ParseCheckpointName(const std::string& name) {
  if (name.size() < 15 || name.size() > 24 || name.substr(name.size() - 5) != ".ckpt") {
    return 0;
  }
  const std::string digits = name.substr(0, name.size() - 5);
  return digits.find_first_not_of("0123456789") == std::string::npos
             ? std::strtoull(digits.c_str(), nullptr, 10)
             : 0;
}

}  // namespace kvstored::log
