#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/parallel.h"
#include "log/block_scan.h"
#include "log/chain.h"
#include "log/checkpoint.h"
#include "log/checkpoint_format.h"
#include "log/damage.h"
#include "log/replay_shard.h"

namespace kvstored::log {
namespace {

absl::Status Named(const std::string& path, const absl::Status& status) {
  std::string text = absl::StrFormat("checkpoint %s: %s", path, std::string(status.message()));
  if (IsDamage(status)) {
    text += "; " + DamageRemedy();
  }
  return Reworded(status, text);
}

absl::Status ReplayBlocks(const Blocks& blocks, ShardId shard, uint64_t* record_count,
                          RecoverySink* sink) {
  ShardReplay replay(shard);
  std::vector<uint8_t> buffer;
  for (const Block& block : blocks.blocks) {
    if (block.header.shard != shard) {
      continue;
    }
    const absl::StatusOr<std::span<const uint8_t>> records = RecordsOf(block, &buffer);
    absl::Status status = records.ok() ? replay.Add(*records, 0, UINT64_MAX) : records.status();
    if (status.ok() && block.header.expanded_bytes != 0) {
      status = replay.Flush(sink);  // the next block expands into the same buffer
    }
    if (!status.ok()) {
      return Reworded(
          status, absl::StrFormat("block at offset %d (shard %d): %s", block.header.offset, shard,
                                  std::string(status.message())));
    }
    *record_count += block.header.record_count;
  }
  return replay.Flush(sink);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::OpenNewest(
    NvmDevice* device, const std::string& directory, const Id128& data_set) {
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device->List(directory));
  uint64_t newest = 0;
  for (const std::string& name : names) {
    if (name.size() > 4 && name.substr(name.size() - 4) == ".tmp") {
      KVS_RETURN_IF_ERROR(device->Remove(absl::StrFormat("%s/%s", directory, name)));
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
  if (reader->facts_.number != newest) {
    return absl::FailedPreconditionError(
        absl::StrFormat("checkpoint %s says that it is number %d; give it its own name back, or "
                        "move it out of this directory",
                        reader->name_, reader->facts_.number));
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
    return Named(reader->name_, DamageError(absl::StrFormat("it was cut to %d bytes, at offset %d",
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

absl::Status CheckpointReader::Replay(uint32_t thread_count, RecoverySink* sink) {
  const size_t shard_count = facts_.shards.size();
  std::vector<uint64_t> record_counts(shard_count);
  std::vector<absl::Status> results(shard_count);
  // While some blocks are replayed, the next are read.
  Blocks blocks;
  absl::StatusOr<Blocks> ahead = Blocks();
  uint64_t next_offset = kCheckpointHeaderBytes;
  bool is_first = true;
  while (is_first || !blocks.blocks.empty()) {
    base::ParallelFor(1 + shard_count, thread_count, [&](size_t i) {
      if (i != 0) {
        const size_t s = i - 1;
        results[s] = ReplayBlocks(blocks, static_cast<ShardId>(s), &record_counts[s], sink);
      } else if (next_offset < blocks_end_) {
        ahead = ReadBlocks(file_.get(), incarnation_, shard_count, next_offset, blocks_end_,
                           *std::move(ahead));
      } else {
        ahead->blocks.clear();
      }
    });
    for (const absl::Status& status : results) {
      if (!status.ok()) {
        return Named(name_, status);
      }
    }
    if (!ahead.ok()) {
      return Named(name_, ahead.status());
    }
    std::swap(blocks, *ahead);
    next_offset = blocks.blocks.empty() ? next_offset : blocks.next_offset;
    is_first = false;
  }
  for (size_t s = 0; s < shard_count; ++s) {
    if (record_counts[s] != facts_.shards[s].record_count) {
      return Named(name_, DamageError(absl::StrFormat(
                              "shard %d has %d records, its footer (offset %d) counts %d", s,
                              record_counts[s], blocks_end_, facts_.shards[s].record_count)));
    }
  }
  return absl::OkStatus();
}

}  // namespace kvstored::log
