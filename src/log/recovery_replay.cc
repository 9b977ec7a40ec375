// The second pass: decodes the records and hands them over, shards in parallel.
#include <algorithm>
#include <mutex>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/parallel.h"
#include "log/chain.h"
#include "log/frame_scan.h"
#include "log/recovery.h"
#include "log/replay_shard.h"

namespace kvstored::log {

absl::Status ReplayRecords(ShardId shard, std::span<const uint8_t> bytes, Seq above, Seq up_to,
                           RecoverySink* sink) {
  std::array<record::Record, kReplayRecordsMax> records;
  size_t count = 0;
  while (!bytes.empty()) {
    size_t size_bytes = 0;
    record::Record& record = records[count];
    if (record::Decode(bytes, &record, &size_bytes) != record::DecodeResult::kOk) {
      return absl::DataLossError(
          absl::StrFormat("shard %d: a record's own checksum is wrong", shard));
    }
    bytes = bytes.subspan(size_bytes);
    if (record.seq > above && record.seq <= up_to && ++count == records.size()) {
      KVS_RETURN_IF_ERROR(sink->OnRecords(shard, records));
      count = 0;
    }
  }
  return count == 0 ? absl::OkStatus() : sink->OnRecords(shard, std::span(records).first(count));
}

absl::Status Recovery::Replay(const std::vector<Seq>& from, const std::vector<Seq>& to,
                              RecoverySink* sink) {
  KVS_CHECK(from.size() == options_.shard_count && to.size() == options_.shard_count,
            "from=%zu to=%zu", from.size(), to.size());
  const uint32_t workers = std::min(options_.thread_count, options_.shard_count);
  std::mutex mutex;
  absl::Status failure;
  Chunk chunk;
  for (size_t i = 0; i < tail_.segments.size() && failure.ok(); ++i) {
    const Segment& segment = tail_.segments[i];
    // Records that a later segment's header cut do not exist.
    std::vector<Seq> up_to = to;
    for (size_t later = i + 1; later < tail_.segments.size(); ++later) {
      for (uint32_t s = 0; s < options_.shard_count; ++s) {
        up_to[s] = std::min(up_to[s], tail_.segments[later].header.start_seqs[s]);
      }
    }
    for (uint64_t offset = kSegmentHeaderBytes; offset < segment.end && failure.ok();
         offset = chunk.next_offset) {
      KVS_ASSIGN_OR_RETURN(chunk, ReadChunk(segment.file.get(), segment.header.incarnation, offset,
                                            segment.end, std::move(chunk)));
      base::ParallelFor(workers, workers, [&](size_t worker) {
        for (const ScannedFrame& frame : chunk.frames) {
          const ShardId shard = frame.header.shard;
          if (shard % workers != worker || frame.header.record_count == 0 ||
              frame.header.first_seq > up_to[shard] ||
              frame.header.first_seq + frame.header.record_count - 1 <= from[shard]) {
            continue;
          }
          const absl::Status status =
              ReplayRecords(shard, frame.payload, from[shard], up_to[shard], sink);
          if (!status.ok()) {
            const std::lock_guard<std::mutex> lock(mutex);
            failure = absl::Status(
                status.code(),
                absl::StrFormat("%s/%s, frame at offset %d: %s", options_.device->Describe(),
                                segment.name, frame.offset, std::string(status.message())));
            return;
          }
        }
      });
      if (chunk.next_offset == offset) {
        return absl::DataLossError(absl::StrFormat("%s/%s: changed under recovery at offset %d",
                                                   options_.device->Describe(), segment.name,
                                                   offset));
      }
    }
  }
  return failure;
}

}  // namespace kvstored::log
