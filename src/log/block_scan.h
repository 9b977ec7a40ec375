// Walks the blocks of a checkpoint file, for replay and for the operator's dump; and what is inside
// them: records, or LZ4 of records (block format, github.com/lz4/lz4/blob/dev/doc).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstored/nvm_device.h"
#include "log/checkpoint_format.h"

namespace kvstored::log {

struct Block {
  BlockHeader header;
  std::span<const uint8_t> payload;  // borrows Blocks::bytes; its checksum is verified by RecordsOf
};

struct Blocks {
  std::vector<uint8_t> bytes;
  std::vector<Block> blocks;
  uint64_t next_offset = 0;
};

// Whole blocks from `offset` (a block's start) on, at least one. Every byte up to blocks_end
// belongs to a block: IsDamage names the offset where that is not so.
absl::StatusOr<Blocks> ReadBlocks(NvmFile* file, uint64_t incarnation, size_t shard_count,
                                  uint64_t offset, uint64_t blocks_end, Blocks reuse = {});

// The block's records, verified. They borrow `block` or `buffer`, until its next use. IsDamage: the
// checksum is wrong, or they do not expand to what the header says.
absl::StatusOr<std::span<const uint8_t>> RecordsOf(const Block& block,
                                                   std::vector<uint8_t>* buffer);

// LZ4 of a block's records, in `buffer`; empty where that would save less than an eighth.
std::span<const uint8_t> Compress(std::span<const uint8_t> records, std::vector<uint8_t>* buffer);

}  // namespace kvstored::log
