// The second pass: decodes the records and hands them over, shards in parallel.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/parallel.h"
#include "log/chain.h"
#include "log/frame_scan.h"
#include "log/recovery.h"
#include "log/replay_shard.h"

namespace kvstored::log {

absl::Status ShardReplay::Add(std::span<const uint8_t> bytes, Seq above, Seq up_to) {
  while (!bytes.empty()) {
    size_t size_bytes = 0;
    record::Record record;
    if (record::Decode(bytes, &record, &size_bytes) != record::DecodeResult::kOk) {
      return absl::DataLossError(
          absl::StrFormat("shard %d: a record's own checksum is wrong", shard_));
    }
    bytes = bytes.subspan(size_bytes);
    if (record.seq > above && record.seq <= up_to) {
      pending_.push_back(record);
      if (pending_.size() >= kReplayRecordsMax) {
        KVS_RETURN_IF_ERROR(Flush());
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ShardReplay::Flush() {
  if (pending_.empty()) {
    return absl::OkStatus();
  }
  absl::Status status = sink_->OnRecords(shard_, pending_);
  pending_.clear();
  return status;
}

namespace {

// The chunk's frames of one shard that hold records in (from, up_to].
absl::Status ReplayChunk(const Chunk& chunk, ShardId shard, Seq from, Seq up_to,
                         RecoverySink* sink) {
  ShardReplay replay(shard, sink);
  for (const ScannedFrame& frame : chunk.frames) {
    const FrameHeader& header = frame.header;
    if (header.shard != shard || header.record_count == 0 || header.first_seq > up_to ||
        header.first_seq + header.record_count - 1 <= from) {
      continue;
    }
    const absl::Status status = replay.Add(frame.payload, from, up_to);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrFormat("frame at offset %d: %s", frame.offset,
                                                         std::string(status.message())));
    }
  }
  return replay.Flush();
}

}  // namespace

absl::Status Recovery::Replay(const std::vector<Seq>& from, const std::vector<Seq>& to,
                              RecoverySink* sink) {
  KVS_CHECK(from.size() == options_.shard_count && to.size() == options_.shard_count,
            "from=%zu to=%zu", from.size(), to.size());
  std::vector<absl::Status> results(options_.shard_count);
  Chunk chunk;
  for (size_t i = 0; i < tail_.segments.size(); ++i) {
    const Segment& segment = tail_.segments[i];
    // Records that a later segment's header cut do not exist.
    std::vector<Seq> up_to = to;
    for (size_t later = i + 1; later < tail_.segments.size(); ++later) {
      for (uint32_t s = 0; s < options_.shard_count; ++s) {
        up_to[s] = std::min(up_to[s], tail_.segments[later].header.start_seqs[s]);
      }
    }
    for (uint64_t offset = kSegmentHeaderBytes; offset < segment.end; offset = chunk.next_offset) {
      KVS_ASSIGN_OR_RETURN(chunk, ReadChunk(segment.file.get(), segment.header.incarnation, offset,
                                            segment.end, std::move(chunk)));
      base::ParallelFor(options_.shard_count, options_.thread_count, [&](size_t s) {
        results[s] = ReplayChunk(chunk, static_cast<ShardId>(s), from[s], up_to[s], sink);
      });
      for (const absl::Status& status : results) {
        if (!status.ok()) {
          return absl::Status(
              status.code(), absl::StrFormat("%s/%s: %s", options_.device->Describe(), segment.name,
                                             std::string(status.message())));
        }
      }
      if (chunk.next_offset == offset) {
        return absl::DataLossError(absl::StrFormat("%s/%s: changed under recovery at offset %d",
                                                   options_.device->Describe(), segment.name,
                                                   offset));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kvstored::log
