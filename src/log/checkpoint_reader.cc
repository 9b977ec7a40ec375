#include <algorithm>
#include <array>
#include <mutex>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/parallel.h"
#include "log/chain.h"
#include "log/checkpoint.h"
#include "log/checkpoint_format.h"
#include "log/replay_shard.h"

namespace kvstored::log {
namespace {

constexpr uint64_t kReadBytes = uint64_t{8} << 20;
static_assert(kReadBytes > BlockBytes(kBlockPayloadMax), "a read holds any block");

absl::Status Named(const std::string& path, const absl::Status& status) {
  std::string text = absl::StrFormat("checkpoint %s: %s", path, std::string(status.message()));
  if (absl::IsDataLoss(status)) {
    text += "; " + DamageRemedy();
  }
  return absl::Status(status.code(), text);
}

struct Block {
  BlockHeader header;
  std::span<const uint8_t> payload;
};

struct Blocks {
  std::vector<uint8_t> bytes;
  std::vector<Block> blocks;
  uint64_t next_offset = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::OpenNewest(
    NvmDevice* device, const std::string& directory, const Id128& data_set) {
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device->List(directory));
  uint64_t newest = 0;
  for (const std::string& name : names) {
    if (name.size() > 4 && name.substr(name.size() - 4) == ".tmp") {
      KVS_RETURN_IF_ERROR(device->Remove(directory + "/" + name));
    }
    newest = std::max(newest, ParseCheckpointName(name));
  }
  if (newest == 0) {
    return std::unique_ptr<CheckpointReader>();
  }
  KVS_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                       OpenFile(device, CheckpointName(directory, newest)));
  if (reader->facts_.data_set != data_set) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "checkpoint %s belongs to another data set; move it out of this directory", reader->name_));
  }
  return reader;
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::OpenFile(
    NvmDevice* device, const std::string& name) {
  auto reader = std::unique_ptr<CheckpointReader>(new CheckpointReader());
  reader->name_ = device->Describe() + "/" + name;
  KVS_ASSIGN_OR_RETURN(reader->file_, device->Open(name));
  const uint64_t size_bytes = reader->file_->size_bytes();
  reader->facts_.file_bytes = size_bytes;
  if (size_bytes < kCheckpointHeaderBytes + kCheckpointFooterBytes) {
    return Named(reader->name_,
                 absl::DataLossError(absl::StrFormat("it was cut to %d bytes, at offset %d",
                                                     size_bytes, size_bytes)));
  }
  std::array<uint8_t, kCheckpointHeaderBytes> header;
  KVS_RETURN_IF_ERROR(reader->file_->Read(0, header));
  absl::Status status = DecodeCheckpointHeader(header, &reader->facts_, &reader->incarnation_);
  if (status.ok()) {
    std::array<uint8_t, kCheckpointFooterBytes> footer;
    reader->blocks_end_ = size_bytes - kCheckpointFooterBytes;
    KVS_RETURN_IF_ERROR(reader->file_->Read(reader->blocks_end_, footer));
    status = DecodeCheckpointFooter(footer, reader->incarnation_, &reader->facts_);
  }
  return status.ok() ? absl::StatusOr<std::unique_ptr<CheckpointReader>>(std::move(reader))
                     : Named(reader->name_, status);
}

// Whole blocks from `offset` on. Every byte up to blocks_end belongs to a block.
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
                          offset + at + BlockBytes(block.header.payload_bytes) <= blocks_end;
    if (!is_block) {
      return absl::DataLossError(absl::StrFormat("bad block at offset %d", offset + at));
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
    return absl::DataLossError(absl::StrFormat("bad block at offset %d", offset));
  }
  result.next_offset = offset + at;
  return result;
}

absl::Status CheckpointReader::Replay(uint32_t thread_count, RecoverySink* sink) {
  const auto shard_count = static_cast<uint32_t>(facts_.shards.size());
  const uint32_t workers = std::max(1U, std::min(thread_count, shard_count));
  std::vector<uint64_t> record_counts(shard_count);
  std::mutex mutex;
  absl::Status failure;
  Blocks blocks;
  for (uint64_t offset = kCheckpointHeaderBytes; offset < blocks_end_ && failure.ok();
       offset = blocks.next_offset) {
    absl::StatusOr<Blocks> read =
        ReadBlocks(file_.get(), incarnation_, shard_count, offset, blocks_end_, std::move(blocks));
    if (!read.ok()) {
      return Named(name_, read.status());
    }
    blocks = *std::move(read);
    base::ParallelFor(workers, workers, [&](size_t worker) {
      for (const Block& block : blocks.blocks) {
        const ShardId shard = block.header.shard;
        if (shard % workers != worker) {
          continue;
        }
        const bool is_whole =
            base::Crc32c(0, block.payload.data(), block.payload.size()) == block.header.payload_crc;
        absl::Status status = is_whole ? ReplayRecords(shard, block.payload, 0, UINT64_MAX, sink)
                                       : absl::DataLossError("checksum of the block is wrong");
        record_counts[shard] += block.header.record_count;
        if (!status.ok()) {
          const std::lock_guard<std::mutex> lock(mutex);
          failure = absl::Status(status.code(), absl::StrFormat("block at offset %d (shard %d): %s",
                                                                block.header.offset, shard,
                                                                std::string(status.message())));
          return;
        }
      }
    });
  }
  for (uint32_t s = 0; failure.ok() && s < shard_count; ++s) {
    if (record_counts[s] != facts_.shards[s].record_count) {
      failure = absl::DataLossError(
          absl::StrFormat("shard %d has %d records, its footer (offset %d) counts %d", s,
                          record_counts[s], blocks_end_, facts_.shards[s].record_count));
    }
  }
  return failure.ok() ? failure : Named(name_, failure);
}

}  // namespace kvstored::log
