#include "replication/send_stream.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "record/cursor.h"

namespace kvstored::replication {
namespace {

// A log read is one step of a catch-up; more would only hold memory.
constexpr size_t kReadBytesMax = kRecordBytesMax;
// Slices of a full sync that wait in memory, a stream; BeginFullSync bounds their size.
constexpr size_t kSlicesAhead = 2;

struct Prefix {
  size_t bytes = 0;
  Seq last_seq = 0;
};

// The longest run of whole records from `offset` on that fits `bytes_max` with no seq above
// `bound`.
Prefix TakePrefix(const record::Batch& batch, size_t offset, size_t bytes_max, Seq bound) {
  Prefix prefix;
  const std::span<const uint8_t> rest = std::span(batch.bytes).subspan(offset);
  for (record::Cursor cursor(rest); cursor.at_record(); cursor.Next()) {
    if (cursor.offset() + cursor.size_bytes() > bytes_max ||
        (!batch.is_snapshot && cursor.seq() > bound)) {
      break;
    }
    prefix.bytes = cursor.offset() + cursor.size_bytes();
    prefix.last_seq = cursor.seq();
  }
  return prefix;
}

iovec PieceOf(const record::Batch& batch, size_t offset, size_t bytes) {
  // The fabric only reads; iovec has no const.
  return {const_cast<uint8_t*>(batch.bytes.data()) + offset, bytes};
}

}  // namespace

SendStream::SendStream(EngineContext* context, const Backlog* backlog, ShardId shard,
                       uint16_t lane_id)
    : lane(lane_id), target_lane(lane_id), context_(context), backlog_(backlog), shard_(shard) {
}

void SendStream::BeginAfter(Seq common) {
  next_seq_ = common + 1;
  received_ = common;
}

void SendStream::BeginFullSync(size_t slice_bytes) {
  syncing_ = true;
  slice_bytes_ = slice_bytes;
}

void SendStream::SetRing(RingKey key, uint64_t ring_bytes) {
  ring_ = RingWriter(ring_bytes);
  ring_key_ = key;
}

SendStream::Choice SendStream::Next(Piece* piece) {
  if (!error_.ok()) {
    return Choice::kFailed;
  }
  piece->count = 0;
  piece->flags = 0;
  piece->extra = 0;
  Seq bound = ProgressTable::kUnbounded;
  if (syncing_) {
    RequestSlice();
    if (slices_.empty()) {
      return Choice::kIdle;
    }
    bound = slices_.front().batch->last_seq;
    if (next_seq_ > bound) {
      piece->kind = FrameKind::kSnapshot;
      return Take(slices_.front().batch, slice_offset_, bound, piece);
    }
  }
  if (next_seq_ > backlog_->end(shard_) || !FindLive()) {
    return Choice::kIdle;
  }
  piece->kind = FrameKind::kUpdate;
  return Take(live_, live_offset_, bound, piece);
}

bool SendStream::FindLive() {
  if (live_ != nullptr) {
    return true;
  }
  live_ = backlog_->Find(shard_, next_seq_);
  if (live_ == nullptr) {
    ReadFromLog();
    return false;
  }
  live_offset_ = 0;
  if (live_->first_seq < next_seq_) {
    live_offset_ = TakePrefix(*live_, 0, live_->bytes.size(), next_seq_ - 1).bytes;
  }
  return true;
}

void SendStream::ReadFromLog() {
  if (reading_ || context_->now_us() < read_again_us_) {
    return;
  }
  reading_ = true;
  ++context_->counters->backlog_misses;
  const Seq from = next_seq_;
  context_->source->ReadLog(
      shard_, from, kReadBytesMax,
      alive_.Guard<absl::StatusOr<record::BatchRef>>(
          *context_, [this, from](const absl::StatusOr<record::BatchRef>& batch) {
            reading_ = false;
            if (absl::IsUnavailable(batch.status())) {
              // On its way to the log, and out of the backlog already: a batch is larger than that.
              read_again_us_ = context_->now_us() + kReadAgainUs;
              context_->log_awaited = true;
              return;
            }
            if (!batch.ok()) {
              error_ = absl::Status(batch.status().code(),
                                    absl::StrFormat("reading shard %d from %d for a replica: %s",
                                                    shard_, from, batch.status().message()));
              return;
            }
            if ((*batch)->first_seq != from || (*batch)->last_seq < from) {
              error_ = absl::InternalError(
                  absl::StrFormat("the log gave records %d to %d of shard %d when asked from %d",
                                  (*batch)->first_seq, (*batch)->last_seq, shard_, from));
              return;
            }
            live_ = *batch;
            live_offset_ = 0;
          }));
}

// The shard scans the next slice while the last one travels.
void SendStream::RequestSlice() {
  if (slice_requested_ || last_requested_ || slices_.size() >= kSlicesAhead) {
    return;
  }
  slice_requested_ = true;
  context_->source->RequestSlice(
      shard_, cursor_, slice_bytes_,
      alive_.Guard<absl::StatusOr<Slice>>(*context_, [this](absl::StatusOr<Slice> slice) {
        slice_requested_ = false;
        if (!slice.ok()) {
          error_ = slice.status();
          return;
        }
        if (cursor_ == 0 && next_seq_ == 0) {
          next_seq_ = slice->live_from;
          received_ = slice->live_from - 1;
        }
        cursor_ = slice->next_cursor;
        last_requested_ = slice->is_last;
        slices_.push_back(*std::move(slice));
      }));
}

SendStream::Choice SendStream::Take(const record::BatchRef& batch, size_t offset, Seq bound,
                                    Piece* piece) {
  const size_t rest = batch->bytes.size() - offset;
  const bool whole_allowed = batch->is_snapshot || batch->last_seq <= bound;
  size_t bytes = rest;
  Seq last = batch->last_seq;
  std::optional<RingPlace> place;
  if (whole_allowed) {
    place = ring_.Place(kFrameHeaderBytes + rest);
  }
  for (const uint64_t room : {ring_.contiguous_bytes(), ring_.wrapped_bytes()}) {
    if (!place && room > kFrameHeaderBytes) {
      const Prefix prefix = TakePrefix(*batch, offset, room - kFrameHeaderBytes, bound);
      bytes = prefix.bytes;
      last = batch->is_snapshot ? batch->last_seq : prefix.last_seq;
      if (bytes != 0) {
        place = ring_.Place(kFrameHeaderBytes + bytes);
      }
    }
  }
  if (!place) {
    return drained() ? Choice::kTooLarge : Choice::kRingFull;
  }
  piece->place = *place;
  piece->record_bytes = static_cast<uint32_t>(bytes);
  piece->clock_us = batch->clock_us;
  piece->batches[0] = batch;
  piece->pieces[0] = PieceOf(*batch, offset, bytes);
  piece->count = 1;
  if (batch->is_snapshot) {
    piece->first_seq = batch->first_seq;
    piece->last_seq = batch->last_seq;
    if (slices_.front().is_last && bytes == rest) {
      piece->flags = kSnapshotLast;
      piece->extra = slices_.front().state_hash;
    }
    return Choice::kPiece;
  }
  piece->first_seq = next_seq_;
  piece->last_seq = last;
  if (bytes == rest) {
    Gather(bound, piece);
  }
  return Choice::kPiece;
}

void SendStream::Gather(Seq bound, Piece* piece) {
  while (piece->count < kGatherMax && piece->last_seq < backlog_->end(shard_)) {
    record::BatchRef next = backlog_->Find(shard_, piece->last_seq + 1);
    if (next == nullptr || next->first_seq != piece->last_seq + 1 || next->last_seq > bound) {
      return;
    }
    const auto place = ring_.Place(kFrameHeaderBytes + piece->record_bytes + next->bytes.size());
    if (!place) {
      return;
    }
    piece->place = *place;
    piece->record_bytes += static_cast<uint32_t>(next->bytes.size());
    piece->last_seq = next->last_seq;
    piece->clock_us = next->clock_us;
    piece->pieces[piece->count] = PieceOf(*next, 0, next->bytes.size());
    piece->batches[piece->count++] = std::move(next);
  }
}

void SendStream::Posted(const Piece& piece, int64_t now_us) {
  PostedHeader(piece.place, now_us);
  if (piece.kind == FrameKind::kSnapshot) {
    slice_offset_ += piece.record_bytes;
    item_bytes_ += piece.record_bytes;
    if (slice_offset_ == slices_.front().batch->bytes.size()) {
      syncing_ = !slices_.front().is_last;
      slices_.pop_front();
      slice_offset_ = 0;
    }
    return;
  }
  KVS_CHECK(piece.first_seq == next_seq_ && piece.last_seq >= next_seq_,
            "shard=%u next=%llu first=%llu last=%llu", shard_,
            static_cast<unsigned long long>(next_seq_),
            static_cast<unsigned long long>(piece.first_seq),
            static_cast<unsigned long long>(piece.last_seq));
  next_seq_ = piece.last_seq + 1;
  live_offset_ += piece.record_bytes;
  if (live_ != nullptr && live_offset_ >= live_->bytes.size()) {
    live_.reset();
  }
  if (behind_since_us == 0) {
    behind_since_us = now_us;
  }
}

void SendStream::PostedHeader(const RingPlace& place, int64_t now_us) {
  ring_.Commit(place);
  outstanding_.push_back({ring_.posted(), now_us});
}

bool SendStream::OnWatermark(const WatermarkEntry& entry, int64_t now_us,
                             ReplicationCounters* counters) {
  if (entry.received >= std::max<Seq>(next_seq_, 1)) {
    return false;
  }
  if (entry.persisted > entry.received || !ring_.Free(entry.ring_freed)) {
    return false;
  }
  while (!outstanding_.empty() && outstanding_.front().position_end <= entry.ring_freed) {
    const auto took_us =
        static_cast<uint64_t>(std::max<int64_t>(0, now_us - outstanding_.front().posted_us));
    outstanding_.pop_front();
    counters->write_us.Observe(took_us);
  }
  const bool moved = entry.received > received_ || entry.persisted > persisted_;
  received_ = std::max(received_, entry.received);
  persisted_ = std::max(persisted_, entry.persisted);
  if (moved) {
    acknowledged_ = true;
    behind_since_us = now_us;
  }
  return true;
}

}  // namespace kvstored::replication
