// Bytes of a checkpoint file (docs/formats/checkpoint.md has the tables): header, blocks, footer.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "kvstored/limits.h"
#include "kvstored/types.h"
#include "log/checkpoint.h"

namespace kvstored::log {

inline constexpr size_t kBlockHeaderBytes = 64;
inline constexpr size_t kBlockAlign = 64;
// A block is written when a shard's pending records reach this.
inline constexpr size_t kBlockPayloadTarget = size_t{256} << 10;
inline constexpr size_t kBlockPayloadMax = kBlockPayloadTarget + kRecordBytesMax;

struct BlockHeader {
  ShardId shard = 0;
  uint64_t incarnation = 0;  // of the file
  uint64_t offset = 0;       // where the block stands: a misdirected write shows
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  uint32_t expanded_bytes = 0;  // 0: the payload is the records; else LZ4 of so many bytes of them
  uint32_t record_count = 0;
};

constexpr uint64_t BlockBytes(uint64_t payload_bytes) {
  return (kBlockHeaderBytes + payload_bytes + kBlockAlign - 1) & ~uint64_t{kBlockAlign - 1};
}

void EncodeBlockHeader(const BlockHeader& header, uint8_t* out);
[[nodiscard]] bool DecodeBlockHeader(const uint8_t* bytes, BlockHeader* header);

void EncodeCheckpointHeader(const CheckpointFacts& facts, uint64_t incarnation,
                            std::span<uint8_t, kCheckpointHeaderBytes> out);
// kFailedPrecondition: a newer version; IsDamage: damaged. Fills number, data set and start seqs.
absl::Status DecodeCheckpointHeader(std::span<const uint8_t, kCheckpointHeaderBytes> bytes,
                                    CheckpointFacts* facts, uint64_t* incarnation);

// The footer is the manifest: it closes the file and proves that it is whole.
void EncodeCheckpointFooter(const CheckpointFacts& facts, uint64_t incarnation,
                            std::span<uint8_t, kCheckpointFooterBytes> out);
// Fills the rest of the facts.
absl::Status DecodeCheckpointFooter(std::span<const uint8_t, kCheckpointFooterBytes> bytes,
                                    uint64_t incarnation, CheckpointFacts* facts);

// "directory/0000000003.ckpt"
std::string CheckpointName(const std::string& directory, uint64_t number);
uint64_t ParseCheckpointName(const std::string& name);

}  // namespace kvstored::log
