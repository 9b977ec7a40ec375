// The scan: verifies every frame of the chain, finds the end, and learns what promotion and
// start-up must know. Reads only; what it decides becomes true with the first append (Log::Open).
#include "log/recovery.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/distinct_estimate.h"
#include "base/log.h"
#include "base/parallel.h"
#include "log/chain.h"
#include "log/damage.h"
#include "log/frame_scan.h"
#include "log/reader.h"
#include "log/txn_cut.h"

namespace kvstored::log {

// One pass over the chain. Control thread only.
class RecoveryScan {
 public:
  explicit RecoveryScan(Recovery* recovery)
      : options_(recovery->options_),
        result_(recovery->result_),
        tail_(recovery->tail_),
        txns_(options_.shard_count),
        committed_(options_.shard_count),
        keys_(options_.shard_count) {
  }

  absl::Status Run() {
    result_.shards.resize(options_.shard_count);
    KVS_ASSIGN_OR_RETURN(Chain chain, FindChain(options_));
    KVS_RETURN_IF_ERROR(CheckStart(chain));
    for (size_t i = 0; i < chain.segments.size(); ++i) {
      KVS_RETURN_IF_ERROR(BeginSegment(chain.segments[i]));
      const bool is_newest = i + 1 == chain.segments.size();
      KVS_RETURN_IF_ERROR(
          ScanSegment(&chain.segments[i], is_newest ? nullptr : &chain.segments[i + 1].header));
    }
    tail_.segments = std::move(chain.segments);
    KVS_RETURN_IF_ERROR(CheckEnd(chain.noted));
    return Finish();
  }

 private:
  absl::Status CheckStart(const Chain& chain);
  absl::Status BeginSegment(const Segment& segment);
  absl::Status ScanSegment(Segment* segment, const SegmentHeader* successor);
  absl::Status AddFrame(Segment* segment, const ScannedFrame& frame);
  absl::Status JudgeEnd(Segment* segment, uint64_t offset, const SegmentHeader* successor);
  absl::Status CheckEnd(const LogFiles& noted);
  absl::Status Finish();
  absl::Status DamageAt(const Segment& segment, uint64_t offset, const std::string& what) const;

  const RecoveryOptions& options_;
  RecoveryResult& result_;
  LogTail& tail_;
  TxnTracker txns_;
  std::vector<Seq> committed_;
  std::vector<base::DistinctEstimate> keys_;
  uint64_t frames_since_prune_ = 0;
  ShardId last_shard_ = 0;
};

absl::Status RecoveryScan::DamageAt(const Segment& segment, uint64_t offset,
                                    const std::string& what) const {
  std::array<uint8_t, kFrameHeaderBytes> bytes{};
  FrameHeader header;
  const bool is_readable = segment.file->Read(offset, bytes).ok() &&
                           DecodeFrameHeader(bytes.data(), &header) &&
                           header.incarnation == segment.header.incarnation;
  const std::string place =
      is_readable ? absl::StrFormat("shard %d, records from seq %d", header.shard, header.first_seq)
                  : absl::StrFormat("after shard %d, seq %d", last_shard_,
                                    result_.shards[last_shard_].last_seq);
  return DamageError(absl::StrFormat("%s/%s: damaged at offset %d (%s): %s; %s",
                                     options_.device->Describe(), segment.name, offset, place, what,
                                     DamageRemedy()));
}

absl::Status RecoveryScan::CheckStart(const Chain& chain) {
  for (uint32_t s = 0; s < options_.shard_count; ++s) {
    RecoveredShard& shard = result_.shards[s];
    const Seq needed = options_.needed_from.empty() ? 0 : options_.needed_from[s];
    shard.start_seq = chain.segments.empty() ? needed : chain.segments.front().header.start_seqs[s];
    shard.last_seq = shard.start_seq;
    if (shard.start_seq > needed) {
      return DamageError(absl::StrFormat(
          "%s/%s: shard %d: records %d to %d are missing: %s; %s", options_.device->Describe(),
          options_.directory, s, needed + 1, shard.start_seq,
          chain.break_reason.empty() ? "the log begins later" : chain.break_reason,
          DamageRemedy()));
    }
  }
  return absl::OkStatus();
}

// The header says what exists before this segment: less than was read = cut.
absl::Status RecoveryScan::BeginSegment(const Segment& segment) {
  for (uint32_t s = 0; s < options_.shard_count; ++s) {
    RecoveredShard& shard = result_.shards[s];
    const Seq start = segment.header.start_seqs[s];
    if (start > shard.last_seq) {
      return DamageAt(segment, 0,
                      absl::StrFormat("it continues shard %d after seq %d, but the log before ends "
                                      "at seq %d",
                                      s, start, shard.last_seq));
    }
    if (start < shard.last_seq) {
      shard.last_seq = start;
      shard.start_seq = std::min(shard.start_seq, start);
      committed_[s] = std::min(committed_[s], start);
      txns_.CutAbove(static_cast<ShardId>(s), start);
    }
  }
  return absl::OkStatus();
}

absl::Status RecoveryScan::AddFrame(Segment* segment, const ScannedFrame& frame) {
  const FrameHeader& header = frame.header;
  if (header.shard >= options_.shard_count) {
    return DamageAt(*segment, frame.offset,
                    absl::StrFormat("shard %d of %d", header.shard, options_.shard_count));
  }
  RecoveredShard& shard = result_.shards[header.shard];
  if (header.record_count == 0) {
    committed_[header.shard] =
        std::max(committed_[header.shard], std::min(header.committed, shard.last_seq));
    return absl::OkStatus();
  }
  if (header.first_seq != shard.last_seq + 1) {
    return DamageAt(*segment, frame.offset,
                    absl::StrFormat("seq %d is expected next", shard.last_seq + 1));
  }
  const Seq needed = options_.needed_from.empty() ? 0 : options_.needed_from[header.shard];
  ReplayDebt& debt = tail_.debt;
  record::Cursor cursor(frame.payload);
  for (; cursor.at_record(); cursor.Next()) {
    if (cursor.seq() != shard.last_seq + 1) {
      return DamageAt(
          *segment, frame.offset,
          absl::StrFormat("record %d where %d is expected", cursor.seq(), shard.last_seq + 1));
    }
    shard.last_seq = cursor.seq();
    if (cursor.op() == RecordOp::kSet || cursor.op() == RecordOp::kLink) {
      keys_[header.shard].Add(cursor.digest_high());
    }
    result_.newest_timestamp_us = std::max(result_.newest_timestamp_us, cursor.timestamp_us());
    if (shard.last_seq > needed && debt.oldest_us == 0) {
      debt.oldest_us = cursor.timestamp_us();  // shards' records stand in the order of time, nearly
    }
    const absl::Status status = txns_.Add(header.shard, cursor);
    if (!status.ok()) {
      return DamageAt(*segment, frame.offset, std::string(status.message()));
    }
  }
  if (cursor.is_bad() || shard.last_seq - header.first_seq + 1 != header.record_count) {
    return DamageAt(*segment, frame.offset, "the frame's records do not fill it");
  }
  if (shard.last_seq > needed) {
    debt.bytes += kFrameHeaderBytes + frame.payload.size();
  }
  last_shard_ = header.shard;
  committed_[header.shard] =
      std::max(committed_[header.shard], std::min(header.committed, shard.last_seq));
  if (++frames_since_prune_ == 1024) {
    frames_since_prune_ = 0;
    txns_.Prune(committed_);
  }
  segment->Note(header, frame.offset);
  return absl::OkStatus();
}

absl::Status RecoveryScan::ScanSegment(Segment* segment, const SegmentHeader* successor) {
  const uint64_t limit =
      successor != nullptr ? successor->predecessor_end : segment->file->size_bytes();
  Chunk chunk;
  absl::StatusOr<Chunk> ahead = Chunk();
  // Every segment has its full size before its header is written.
  const uint64_t size_bytes = segment->file->size_bytes();
  if (size_bytes < std::max(limit, segment->header.segment_bytes)) {
    return DamageAt(*segment, size_bytes,
                    absl::StrFormat("the file is cut short: it held %d bytes",
                                    std::max(limit, segment->header.segment_bytes)));
  }
  KVS_ASSIGN_OR_RETURN(chunk, ReadChunk(segment->file.get(), segment->header.incarnation,
                                        kSegmentHeaderBytes, limit));
  while (true) {
    // While this chunk is verified, the next is read.
    std::vector<char> whole(chunk.frames.size());
    base::ParallelFor(options_.thread_count + 1, options_.thread_count, [&](size_t worker) {
      if (worker == 0) {
        if (!chunk.ended) {
          ahead = ReadChunk(segment->file.get(), segment->header.incarnation, chunk.next_offset,
                            limit, *std::move(ahead));
        }
        return;
      }
      for (size_t i = worker - 1; i < whole.size(); i += options_.thread_count) {
        whole[i] = PayloadIsWhole(chunk.frames[i]) ? 1 : 0;
      }
    });
    for (size_t i = 0; i < chunk.frames.size(); ++i) {
      if (whole[i] == 0) {
        return JudgeEnd(segment, chunk.frames[i].offset, successor);
      }
      KVS_RETURN_IF_ERROR(AddFrame(segment, chunk.frames[i]));
    }
    if (chunk.ended) {
      return JudgeEnd(segment, chunk.next_offset, successor);
    }
    KVS_RETURN_IF_ERROR(ahead.status());
    std::swap(chunk, *ahead);
  }
}

// What stands at `offset` is not a whole frame: the end of the segment, a torn tail, or damage.
absl::Status RecoveryScan::JudgeEnd(Segment* segment, uint64_t offset,
                                    const SegmentHeader* successor) {
  segment->end = offset;
  result_.total_bytes += offset;
  if (successor != nullptr) {
    // The successor's header was written after this segment was persisted to its end.
    return offset == successor->predecessor_end
               ? absl::OkStatus()
               : DamageAt(*segment, offset,
                          absl::StrFormat("a bad frame, but the log was confirmed persistent up to "
                                          "offset %d",
                                          successor->predecessor_end));
  }
  KVS_ASSIGN_OR_RETURN(const TailClaim claim,
                       SearchTail(segment->file.get(), segment->header.incarnation, offset,
                                  segment->file->size_bytes()));
  if (claim.persisted > LogPosition{segment->header.number, offset}) {
    return DamageAt(*segment, offset,
                    absl::StrFormat("a bad frame, but a later frame proves that the log was "
                                    "persistent up to offset %d",
                                    claim.persisted.offset));
  }
  if (claim.has_frames) {
    result_.torn.push_back({segment->name, offset, claim.last_frame_end - offset});
    base::LogWarning(absl::StrFormat(
        "%s/%s: torn tail cut at offset %d (%d bytes, never confirmed persistent)",
        options_.device->Describe(), segment->name, offset, claim.last_frame_end - offset));
  }
  return absl::OkStatus();
}

absl::Status RecoveryScan::CheckEnd(const LogFiles& noted) {
  for (uint32_t s = 0; s < options_.shard_count && s < noted.persisted.size(); ++s) {
    if (result_.shards[s].last_seq < noted.persisted[s]) {
      return DamageError(absl::StrFormat(
          "%s/%s: shard %d ends at seq %d, but its records were confirmed persistent up to seq %d: "
          "the newest part of the log is missing; %s",
          options_.device->Describe(), options_.directory, s, result_.shards[s].last_seq,
          noted.persisted[s], DamageRemedy()));
    }
  }
  return absl::OkStatus();
}

absl::Status RecoveryScan::Finish() {
  SegmentIndex index(options_.shard_count);
  for (const Segment& segment : tail_.segments) {
    index.Add(segment);
  }
  for (const RecoveredShard& shard : result_.shards) {
    tail_.last_seqs.push_back(shard.last_seq);
  }
  index.SetLastSeqs(tail_.last_seqs);
  txns_.Prune(committed_);
  const std::vector<Seq> whole = txns_.WholeCut(tail_.last_seqs);
  for (uint32_t s = 0; s < options_.shard_count; ++s) {
    RecoveredShard& shard = result_.shards[s];
    shard.committed = std::max(committed_[s], shard.start_seq);
    shard.whole_txn_seq = whole[s];
    shard.key_count = keys_[s].Count();
    shard.open_run_first = txns_.OpenRunFirst(static_cast<ShardId>(s));
    if (!options_.checkpoint_end.empty() && shard.last_seq < options_.checkpoint_end[s]) {
      return DamageError(
          absl::StrFormat("%s/%s: shard %d ends at seq %d, before its checkpoint's end at seq %d: "
                          "the newest part of "
                          "the log is missing; %s",
                          options_.device->Describe(), options_.directory, s, shard.last_seq,
                          options_.checkpoint_end[s], DamageRemedy()));
    }
    if (shard.last_seq > shard.start_seq) {
      KVS_ASSIGN_OR_RETURN(const record::BatchRef last,
                           ReadRecords(index, static_cast<ShardId>(s), shard.last_seq, 1));
      shard.last_checksum = record::Cursor(last->bytes).checksum();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Recovery>> Recovery::Scan(RecoveryOptions options) {
  KVS_CHECK(options.thread_count > 0 && options.shard_count > 0, "threads=%u shards=%u",
            options.thread_count, options.shard_count);
  auto recovery = std::unique_ptr<Recovery>(new Recovery(std::move(options)));
  KVS_RETURN_IF_ERROR(RecoveryScan(recovery.get()).Run());
  return recovery;
}

LogTail Recovery::TakeTail() {
  return std::move(tail_);
}

}  // namespace kvstored::log
