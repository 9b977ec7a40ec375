// What a ReplicaLink posts: records, items, committed watermarks, heartbeats, credits (P13).
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "replication/replica_link.h"

namespace kvstored::replication {
namespace {

// An idle stream tells a new committed watermark within 1 ms (P10); the wait lets a next batch
// carry it.
constexpr int64_t kCommitDelayUs = 900;

}  // namespace

bool ReplicaLink::CanPost(const Lane& lane, uint32_t kept) const {
  uint32_t credits = credits_;
#ifdef KVS_TEST_SWITCHES
  if (context_->options.plant_credit_off_by_one) {
    credits += 1;
    kept = 0;
  }
#endif
  const uint32_t under_way = lane.posted - lane.consumed;
  // Header slots are reused by wr_id: completions may lag behind the replica's own reports.
  return !lane.queue_full && under_way + kept < credits && lane.in_flight.size() <= credits_;
}

bool ReplicaLink::Pump(int64_t now_us) {
  if (!running_ || closing() || owner_ == nullptr) {
    return false;
  }
  bool moved = false;
  pump_first_ = (pump_first_ + 1) % streams_.size();
  for (size_t i = 0; i < streams_.size() && !closing(); ++i) {
    moved |= PumpStream(streams_[(pump_first_ + i) % streams_.size()].get(), now_us);
  }
  moved |= ReturnCredits();
  UpdateState();
  return moved;
}

bool ReplicaLink::MoveLane(SendStream* stream) {
  stream->target_lane =
      static_cast<uint16_t>(stream->shard() % std::min(owner_->lanes(), lane_count_));
  if (stream->lane == stream->target_lane) {
    return true;
  }
  if (!stream->drained()) {
    return false;  // stops posting until the replica has consumed everything (P14)
  }
  ++stream->generation;
  stream->lane = stream->target_lane;
  return true;
}

bool ReplicaLink::PumpStream(SendStream* stream, int64_t now_us) {
  bool moved = false;
  if (!MoveLane(stream)) {
    return false;
  }
  Piece piece;
  while (true) {
    if (!CanPost(lanes_[stream->lane], 1)) {
      context_->counters->credit_stalls += stream->caught_up() ? 0 : 1;
      return moved;
    }
    switch (stream->Next(&piece)) {
      case SendStream::Choice::kPiece:
        if (!PostPiece(stream, piece, now_us)) {
          return moved;
        }
        moved = true;
        break;
      case SendStream::Choice::kIdle:
        return PostCommitted(stream, now_us) || moved;
      case SendStream::Choice::kRingFull:
        ++context_->counters->ring_stalls;
        return moved;
      case SendStream::Choice::kTooLarge:
        Close(absl::ResourceExhaustedError(absl::StrFormat(
            "shard %d: a record does not fit the replica's ring", stream->shard())));
        return moved;
      case SendStream::Choice::kFailed:
        Close(stream->error());
        return moved;
    }
  }
}

FrameHeader ReplicaLink::HeaderFor(const SendStream& stream, Lane* lane) const {
  FrameHeader header;
  header.shard = stream.shard();
  header.generation = stream.generation;
  header.clock_us = owner_->clock_us();
  header.lane_consumed = lane->watermarks;
  header.position = static_cast<uint32_t>(stream.ring_position() / kFrameUnitBytes);
  return header;
}

bool ReplicaLink::PostPiece(SendStream* stream, const Piece& piece, int64_t now_us) {
  Lane& lane = lanes_[stream->lane];
  FrameHeader header = HeaderFor(*stream, &lane);
  header.kind = piece.kind;
  header.flags = piece.flags;
  header.first_seq = piece.first_seq;
  header.last_seq = piece.last_seq;
  header.extra = piece.extra;
  header.record_bytes = piece.record_bytes;
  header.clock_us = std::max(header.clock_us, piece.clock_us);
  header.committed = std::min(owner_->committed(stream->shard()), piece.last_seq);
  InFlight in_flight;
  in_flight.count = piece.count;
  in_flight.batches = piece.batches;
  if (Post(stream->lane, stream->ring_key(), piece.place, header, std::move(in_flight), &piece) !=
      OpResult::kOk) {
    return false;
  }
  stream->Posted(piece, now_us);
  stream->committed_told = std::max(stream->committed_told, header.committed);
  stream->commit_due_us = 0;
  return true;
}

bool ReplicaLink::PostCommitted(SendStream* stream, int64_t now_us) {
  const Seq next = stream->next_seq();
  const Seq committed = next == 0 ? 0 : std::min(owner_->committed(stream->shard()), next - 1);
  if (committed <= stream->committed_told) {
    stream->commit_due_us = 0;
    return false;
  }
  if (stream->commit_due_us == 0) {
    stream->commit_due_us = now_us + kCommitDelayUs;
  }
  const std::optional<RingPlace> place = stream->PlaceHeader();
  if (now_us < stream->commit_due_us || !place) {
    return false;
  }
  FrameHeader header = HeaderFor(*stream, &lanes_[stream->lane]);
  header.kind = FrameKind::kUpdate;
  header.first_seq = next;
  header.last_seq = next - 1;
  header.committed = committed;
  if (Post(stream->lane, stream->ring_key(), *place, header, InFlight(), nullptr) !=
      OpResult::kOk) {
    return false;
  }
  stream->PostedHeader(*place, now_us);
  stream->committed_told = committed;
  stream->commit_due_us = 0;
  return true;
}

// The header slot and the batches belong to the fabric until OnPosted(wr_id) or OnClosed; the
// completion proves only that they may be reused, arrival is known from watermarks (P13).
OpResult ReplicaLink::Post(LaneId lane_id, RingKey ring, const RingPlace& place,
                           const FrameHeader& header, InFlight in_flight, const Piece* piece) {
  Lane& lane = lanes_[lane_id];
  in_flight.wr_id = lane.next_wr_id;
  const size_t slot = lane_id * size_t{credits_ + 1} + lane.next_wr_id % (credits_ + 1);
  uint8_t* const header_bytes = headers_.data() + slot * kFrameHeaderBytes;
  EncodeFrameHeader(header, header_bytes);
  std::array<iovec, kGatherMax + 1> pieces;
  size_t count = 0;
  pieces[count++] = {header_bytes, kFrameHeaderBytes};
  for (size_t i = 0; piece != nullptr && i < piece->count; ++i) {
    if (piece->pieces[i].iov_len != 0) {
      pieces[count++] = piece->pieces[i];
    }
  }
  const uint32_t immediate = EncodeImmediate(
      {.kind = header.kind, .shard = header.shard, .advance_bytes = place.advance_bytes});
  const OpResult result =
      context_->fabric->PostWrite(id(), lane_id, ring, place.offset,
                                  std::span(pieces.data(), count), immediate, lane.next_wr_id);
  if (result != OpResult::kOk) {
    lane.queue_full = true;
    return result;
  }
  ++lane.next_wr_id;
  ++lane.posted;
  lane.in_flight.push_back(std::move(in_flight));
  lane.watermarks_told = header.lane_consumed;
  context_->counters->bytes_posted += place.write_bytes;
  return OpResult::kOk;
}

// A heartbeat has one slot a lane: it is sent again only when the last one was consumed.
void ReplicaLink::PostHeartbeat(LaneId lane_id) {
  Lane& lane = lanes_[lane_id];
  const bool outstanding =
      lane.heartbeat_sent && lane.posted - lane.consumed > lane.posted - lane.heartbeat_number;
  if (outstanding || !CanPost(lane, 0)) {
    return;
  }
  FrameHeader header;
  header.kind = FrameKind::kHeartbeat;
  header.clock_us = owner_->clock_us();
  header.lane_consumed = lane.watermarks;
  header.extra = static_cast<uint64_t>(context_->now_us());
  header.position = lane.posted;
  const RingPlace place{.offset = lane_id * kFrameHeaderBytes,
                        .advance_bytes = kFrameHeaderBytes,
                        .write_bytes = kFrameHeaderBytes};
  if (Post(lane_id, heartbeat_ring_, place, header, InFlight(), nullptr) == OpResult::kOk) {
    lane.heartbeat_sent = true;
    lane.heartbeat_number = lane.posted;
    ++context_->counters->heartbeats_sent;
  }
}

// Watermark receives go back with every frame. A lane that has nothing to send returns them by a
// heartbeat, and when even that is not possible by a control message: both sides could otherwise
// wait for each other's credit.
bool ReplicaLink::ReturnCredits() {
  bool moved = false;
  for (LaneId lane_id = 0; lane_id < lanes_.size(); ++lane_id) {
    Lane& lane = lanes_[lane_id];
    if (lane.watermarks - lane.watermarks_told < kWatermarkCredits / 2) {
      continue;
    }
    PostHeartbeat(lane_id);
    if (lane.watermarks != lane.watermarks_told) {
      Send(Credits{lane_id, lane.watermarks});
      lane.watermarks_told = lane.watermarks;
    }
    moved = true;
  }
  return moved;
}

int64_t ReplicaLink::timer_us() const {
  int64_t due = Link::timer_us();
  if (!admitted_ || owner_ == nullptr) {
    return due;
  }
  due = std::min(due, next_heartbeat_us_);
  for (const auto& stream : streams_) {
    if (stream->commit_due_us != 0) {
      // Overdue: it waits for ring space or a credit, whose arrival wakes the loop.
      due = std::min(due, std::max(stream->commit_due_us, context_->now_us() + kCommitDelayUs / 2));
    } else if (stream->next_seq() != 0 && stream->committed_told + 1 < stream->next_seq()) {
      // The shard may commit any moment; nobody wakes this thread for it.
      due = std::min(due, context_->now_us() + kCommitDelayUs);
    }
  }
  return due;
}

void ReplicaLink::OnTimer(int64_t now_us) {
  Link::OnTimer(now_us);
  if (!admitted_ || owner_ == nullptr || closing() || now_us < next_heartbeat_us_) {
    return;
  }
  next_heartbeat_us_ = now_us + context_->options.heartbeat_us;
  if (running_) {
    PostHeartbeat(0);
  } else {
    Send(StateChange{state_});  // the replica prepares: it should know that we live
  }
}

}  // namespace kvstored::replication
