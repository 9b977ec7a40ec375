// The second pass: decodes the records and hands them over. A pipeline of three: while one chunk is
// applied, the next is decoded and the one after it is read, each shard by itself.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/parallel.h"
#include "log/chain.h"
#include "log/damage.h"
#include "log/frame_scan.h"
#include "log/recovery.h"
#include "log/replay_shard.h"

namespace kvstored::log {

absl::Status ShardReplay::Add(std::span<const uint8_t> bytes, Seq above, Seq up_to) {
  while (!bytes.empty()) {
    size_t size_bytes = 0;
    record::Record record;
    if (record::Decode(bytes, &record, &size_bytes) != record::DecodeResult::kOk) {
      return DamageError(absl::StrFormat("shard %d: a record's own checksum is wrong", shard_));
    }
    bytes = bytes.subspan(size_bytes);
    if (record.seq > above && record.seq <= up_to) {
      pending_.push_back(record);
    }
  }
  return absl::OkStatus();
}

absl::Status ShardReplay::Flush(RecoverySink* sink) {
  std::span<const record::Record> left = pending_;
  while (!left.empty()) {
    const size_t count = std::min(left.size(), kReplayRecordsMax);
    KVS_RETURN_IF_ERROR(sink->OnRecords(shard_, left.first(count)));
    left = left.subspan(count);
  }
  pending_.clear();
  return absl::OkStatus();
}

namespace {

// One chunk on its way through the pipeline.
struct Stage {
  Chunk chunk;
  const Segment* segment = nullptr;  // null: empty
  std::vector<Seq> up_to;            // per shard
  std::vector<ShardReplay> shards;   // what was decoded
};

// Reads the chain chunk by chunk, leaving out segments that hold nothing of (from, to].
class ChunkFeed {
 public:
  ChunkFeed(const std::vector<Segment>& segments, const std::vector<Seq>& from,
            const std::vector<Seq>& to)
      : segments_(segments), from_(from), to_(to) {
    Enter(0);
  }

  // The next chunk; no segment: that was all.
  absl::Status Read(Stage* stage) {
    stage->segment = nullptr;
    if (at_ == segments_.size()) {
      return absl::OkStatus();
    }
    const Segment& segment = segments_[at_];
    KVS_ASSIGN_OR_RETURN(stage->chunk, ReadChunk(segment.file.get(), segment.header.incarnation,
                                                 offset_, segment.end, std::move(stage->chunk)));
    if (stage->chunk.next_offset == offset_) {
      // No damage: it was whole a moment ago, so it is the device that reads badly.
      return absl::DataLossError(
          absl::StrFormat("%s: changed under recovery at offset %d", segment.name, offset_));
    }
    stage->segment = &segment;
    stage->up_to = up_to_;
    offset_ = stage->chunk.next_offset;
    if (offset_ >= segment.end) {
      Enter(at_ + 1);
    }
    return absl::OkStatus();
  }

 private:
  // Goes to the first segment from `at` on that is worth reading.
  void Enter(size_t at) {
    offset_ = kSegmentHeaderBytes;
    for (at_ = at; at_ < segments_.size(); ++at_) {
      // Records that a later segment's header cut do not exist.
      up_to_ = to_;
      for (size_t later = at_ + 1; later < segments_.size(); ++later) {
        for (size_t s = 0; s < up_to_.size(); ++s) {
          up_to_[s] = std::min(up_to_[s], segments_[later].header.start_seqs[s]);
        }
      }
      bool is_wanted = false;
      for (size_t s = 0; s < up_to_.size(); ++s) {
        is_wanted =
            is_wanted || up_to_[s] > std::max(from_[s], segments_[at_].header.start_seqs[s]);
      }
      if (is_wanted && segments_[at_].end > kSegmentHeaderBytes) {
        return;
      }
    }
  }

  const std::vector<Segment>& segments_;
  const std::vector<Seq>& from_;
  const std::vector<Seq>& to_;
  size_t at_ = 0;
  uint64_t offset_ = 0;
  std::vector<Seq> up_to_;
};

// The chunk's frames of one shard that hold records in (from, stage.up_to].
absl::Status DecodeShard(Stage* stage, ShardId shard, Seq from) {
  const Seq up_to = stage->up_to[shard];
  for (const ScannedFrame& frame : stage->chunk.frames) {
    const FrameHeader& header = frame.header;
    if (header.shard != shard || header.record_count == 0 || header.first_seq > up_to ||
        header.first_seq + header.record_count - 1 <= from) {
      continue;
    }
    const absl::Status status = stage->shards[shard].Add(frame.payload, from, up_to);
    if (!status.ok()) {
      return Reworded(status, absl::StrFormat("%s: frame at offset %d: %s", stage->segment->name,
                                              frame.offset, std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Recovery::Replay(const std::vector<Seq>& from, const std::vector<Seq>& to,
                              RecoverySink* sink) {
  const size_t shards = options_.shard_count;
  KVS_CHECK(from.size() == shards && to.size() == shards, "from=%zu to=%zu", from.size(),
            to.size());
  ChunkFeed feed(tail_.segments, from, to);
  Stage stages[3];
  for (Stage& stage : stages) {
    for (size_t s = 0; s < shards; ++s) {
      stage.shards.emplace_back(static_cast<ShardId>(s));
    }
  }
  Stage* reading = &stages[0];
  Stage* decoding = &stages[1];
  Stage* applying = &stages[2];
  std::vector<absl::Status> results(1 + 2 * shards);
  do {
    base::ParallelFor(results.size(), options_.thread_count, [&](size_t i) {
      if (i == 0) {
        results[i] = feed.Read(reading);
      } else if (i <= shards) {
        const size_t s = i - 1;
        results[i] =
            applying->segment == nullptr ? absl::OkStatus() : applying->shards[s].Flush(sink);
      } else {
        const size_t s = i - 1 - shards;
        results[i] = decoding->segment == nullptr
                         ? absl::OkStatus()
                         : DecodeShard(decoding, static_cast<ShardId>(s), from[s]);
      }
    });
    for (size_t i = 0; i < results.size(); ++i) {
      const bool is_sinks = i != 0 && i <= shards;  // it knows no file
      if (!results[i].ok()) {
        return is_sinks ? results[i]
                        : Reworded(results[i], absl::StrFormat("%s/%s", options_.device->Describe(),
                                                               std::string(results[i].message())));
      }
    }
    Stage* const applied = std::exchange(applying, decoding);
    decoding = std::exchange(reading, applied);
  } while (applying->segment != nullptr || decoding->segment != nullptr);
  return absl::OkStatus();
}

}  // namespace kvstored::log
