#include "replication/receive_stream.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "record/cursor.h"

namespace kvstored::replication {

ReceiveStream::ReceiveStream(EngineContext* context, ShardId shard, RingReader* ring,
                             const JoinPlan* plan, std::atomic<Seq>* local_persisted)
    : context_(context),
      shard_(shard),
      ring_(ring),
      plan_(plan),
      local_persisted_(local_persisted) {
  ring_->Reset();
  if (plan->mode == JoinMode::kCatchUp) {
    received_ = plan->common[shard];
    begun_ = true;
    sync_reported_ = true;
  }
}

absl::Status ReceiveStream::Bad(const char* what) const {
  return absl::DataLossError(absl::StrFormat("shard %d, after record %d: %s; the link is made anew",
                                             shard_, received_, what));
}

absl::Status ReceiveStream::OnArrival(const Immediate& immediate, uint16_t lane,
                                      std::optional<uint32_t>* credit) {
  Arrived arrived;
  arrived.begin = ring_->arrived();
  arrived.kind = immediate.kind;
  const auto bytes = ring_->Arrive(immediate.advance_bytes, freed_);
  if (!bytes) {
    return Bad("a write reached over ring space that was not given back");
  }
  arrived.bytes = *bytes;
  arrived.end = ring_->arrived();
  lane_ = lane;
  if (blocked()) {
    waiting_.push_back(arrived);
    return absl::OkStatus();
  }
  return Take(arrived, credit);
}

absl::Status ReceiveStream::CheckHeader(const Arrived& arrived, const FrameHeader& header) {
  if (header.kind != arrived.kind || header.shard != shard_) {
    return Bad("the immediate and the frame's header disagree");
  }
  if (header.record_bytes + kFrameHeaderBytes != arrived.bytes.size() ||
      header.position != static_cast<uint32_t>(arrived.begin / kFrameUnitBytes)) {
    return Bad("the frame is not where it says that it is");
  }
  const bool snapshot = header.kind == FrameKind::kSnapshot;
  if (snapshot && plan_->mode != JoinMode::kFullSync) {
    return Bad("items outside of a full sync");
  }
  if (!begun_) {
    received_ = snapshot ? header.last_seq : header.first_seq - 1;
    begun_ = true;
  }
  if (snapshot ? header.last_seq != received_
               : header.first_seq != received_ + 1 || header.last_seq + 1 < header.first_seq) {
    return Bad("a gap in the sequence");
  }
  return absl::OkStatus();
}

absl::Status ReceiveStream::CheckRecords(const FrameHeader& header,
                                         std::span<const uint8_t> records) const {
  const bool snapshot = header.kind == FrameKind::kSnapshot;
  bool check_epoch = true;
#ifdef KVS_TEST_SWITCHES
  check_epoch = !context_->options.plant_no_epoch_check;
  if (context_->options.plant_no_checksum_check) {
    return absl::OkStatus();
  }
#endif
  Seq seq = header.first_seq;
  while (!records.empty()) {
    record::Record record;
    size_t size_bytes = 0;
    if (record::Decode(records, &record, &size_bytes) != record::DecodeResult::kOk) {
      return Bad("a damaged record");
    }
    if (snapshot) {
      if ((record.flags & kRecordSnapshot) == 0 || record.seq > header.last_seq) {
        return Bad("a live record among items");
      }
    } else {
      if (record.seq != seq || (record.flags & kRecordSnapshot) != 0) {
        return Bad("records out of sequence inside a frame");
      }
      if (check_epoch && record.epoch != EpochNumberAt(plan_->primary.epochs, shard_, seq)) {
        return Bad("a record of an epoch that the primary's history does not have there");
      }
      ++seq;
    }
    records = records.subspan(size_bytes);
  }
  if (!snapshot && seq != header.last_seq + 1) {
    return Bad("a frame that ends before its last record");
  }
  return absl::OkStatus();
}

absl::Status ReceiveStream::Take(const Arrived& arrived, std::optional<uint32_t>* credit) {
  const std::optional<FrameHeader> header = DecodeFrameHeader(arrived.bytes);
  if (!header) {
    return Bad("a damaged frame header");
  }
  if (header->generation < generation_) {
    freed_ = arrived.end;  // P14: a late completion of a lane that the stream left
    return absl::OkStatus();
  }
  KVS_RETURN_IF_ERROR(CheckHeader(arrived, *header));
  generation_ = header->generation;
  *credit = header->lane_consumed;
  const auto records = arrived.bytes.subspan(kFrameHeaderBytes);
  KVS_RETURN_IF_ERROR(CheckRecords(*header, records));
  blocked_header_ = *header;
  blocked_end_ = arrived.end;
  if (records.empty()) {
    Finish(*header, arrived.end);
    return absl::OkStatus();
  }
  auto batch = std::make_shared<record::Batch>();
  batch->shard = shard_;
  batch->is_snapshot = header->kind == FrameKind::kSnapshot;
  batch->first_seq = header->first_seq;
  batch->last_seq = header->last_seq;
  batch->committed = header->committed;
  batch->clock_us = header->clock_us;
  batch->bytes.assign(records.begin(), records.end());
  blocked_ = std::move(batch);
  return Offer();
}

absl::Status ReceiveStream::Offer() {
  const OpResult result = blocked_->is_snapshot ? context_->sink->OnSnapshotBatch(blocked_)
                                                : context_->sink->OnBatch(blocked_);
  switch (result) {
    case OpResult::kOk:
      blocked_.reset();
      Finish(blocked_header_, blocked_end_);
      return absl::OkStatus();
    case OpResult::kWait:
    case OpResult::kDiskFull:
    case OpResult::kOutOfMemory:
      blocked_why_ = result;
      return absl::OkStatus();
    case OpResult::kMiss:
    case OpResult::kNoReplicas:
    case OpResult::kReadOnly:
    case OpResult::kLoading:
    case OpResult::kTooLarge:
    case OpResult::kSteppedDown:
      break;
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("shard %d: this node takes no records any more", shard_));
}

void ReceiveStream::Finish(const FrameHeader& header, uint64_t end) {
  if (header.kind == FrameKind::kUpdate) {
    received_ = header.last_seq;
  } else if ((header.flags & kSnapshotLast) != 0) {
    context_->sink->OnSnapshotEnd(shard_, header.last_seq, header.extra);
  }
  freed_ = end;
  const Seq committed = std::min(header.committed, received_);
  if (committed > committed_) {
    committed_ = committed;
    context_->sink->OnCommitted(shard_, committed, header.clock_us);
  }
}

bool ReceiveStream::Retry(absl::Status* status, std::optional<uint32_t>* credit) {
  if (!blocked()) {
    return false;
  }
  *status = Offer();
  if (blocked() || !status->ok()) {
    return false;
  }
  while (!waiting_.empty() && !blocked() && status->ok()) {
    const Arrived arrived = waiting_.front();
    waiting_.pop_front();
    *status = Take(arrived, credit);
  }
  return true;
}

WatermarkEntry ReceiveStream::Report() const {
  WatermarkEntry entry;
  entry.shard = shard_;
  entry.generation = std::max(generation_, 1u);
  entry.received = begun_ ? received_ : 0;
  entry.persisted =
      sync_reported_ ? std::min(received_, local_persisted_->load(std::memory_order_acquire)) : 0;
  entry.ring_freed = freed_;
  return entry;
}

}  // namespace kvstored::replication
