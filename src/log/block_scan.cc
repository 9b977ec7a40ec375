#include "log/block_scan.h"

#include <lz4.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "log/damage.h"

namespace kvstored::log {
namespace {

constexpr uint64_t kReadBytes = uint64_t{8} << 20;
static_assert(kReadBytes > BlockBytes(kBlockPayloadMax), "a read holds any block");
// 1 is LZ4's default; higher is faster and packs less.
constexpr int kAcceleration = 1;

}  // namespace

absl::StatusOr<Blocks> ReadBlocks(NvmFile* file, uint64_t incarnation, size_t shard_count,
                                  uint64_t offset, uint64_t blocks_end, Blocks reuse) {
  Blocks result = std::move(reuse);
  result.blocks.clear();
  result.bytes.resize(static_cast<size_t>(std::min(kReadBytes, blocks_end - offset)));
  KVS_RETURN_IF_ERROR(file->Read(offset, result.bytes));
  uint64_t at = 0;
  while (at + kBlockHeaderBytes <= result.bytes.size()) {
    Block block;
    const bool is_block = DecodeBlockHeader(result.bytes.data() + at, &block.header) &&
                          block.header.incarnation == incarnation &&
                          block.header.offset == offset + at && block.header.shard < shard_count &&
                          block.header.payload_bytes <= kBlockPayloadMax &&
                          block.header.expanded_bytes <= kBlockPayloadMax &&
                          offset + at + BlockBytes(block.header.payload_bytes) <= blocks_end;
    if (!is_block) {
      return DamageError(absl::StrFormat("bad block at offset %d", offset + at));
    }
    const uint64_t total = BlockBytes(block.header.payload_bytes);
    if (at + total > result.bytes.size()) {
      break;
    }
    block.payload =
        std::span<const uint8_t>(result.bytes)
            .subspan(static_cast<size_t>(at) + kBlockHeaderBytes, block.header.payload_bytes);
    result.blocks.push_back(block);
    at += total;
  }
  if (at == 0) {
    return DamageError(absl::StrFormat("bad block at offset %d", offset));
  }
  result.next_offset = offset + at;
  return result;
}

absl::StatusOr<std::span<const uint8_t>> RecordsOf(const Block& block,
                                                   std::vector<uint8_t>* buffer) {
  if (base::Crc32c(0, block.payload.data(), block.payload.size()) != block.header.payload_crc) {
    return DamageError("checksum of the block is wrong");
  }
  if (block.header.expanded_bytes == 0) {
    return block.payload;
  }
  buffer->resize(block.header.expanded_bytes);
  const int expanded = LZ4_decompress_safe(
      reinterpret_cast<const char*>(block.payload.data()), reinterpret_cast<char*>(buffer->data()),
      static_cast<int>(block.payload.size()), static_cast<int>(buffer->size()));
  if (expanded != static_cast<int>(buffer->size())) {
    return DamageError(absl::StrFormat("it does not expand to the %d bytes of its header",
                                       block.header.expanded_bytes));
  }
  return std::span<const uint8_t>(*buffer);
}

std::span<const uint8_t> Compress(std::span<const uint8_t> records, std::vector<uint8_t>* buffer) {
  buffer->resize(records.size() - records.size() / 8);
  const int bytes = LZ4_compress_fast(
      reinterpret_cast<const char*>(records.data()), reinterpret_cast<char*>(buffer->data()),
      static_cast<int>(records.size()), static_cast<int>(buffer->size()), kAcceleration);
  return std::span<const uint8_t>(*buffer).first(static_cast<size_t>(bytes));
}

}  // namespace kvstored::log
