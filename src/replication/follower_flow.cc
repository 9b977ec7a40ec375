// What flows on a FollowerLink: frames in, watermarks out (P13).
#include <algorithm>

#include "absl/strings/str_format.h"
#include "replication/follower_link.h"

namespace kvstored::replication {
namespace {

// A report that the acknowledgement level does not wait for may wait this long for company.
constexpr int64_t kLazyReportUs = 1000;
constexpr int64_t kOverdueUs = 500;
constexpr int64_t kBlockedRetryUs = 1000;
constexpr int64_t kDiskFullRetryUs = 100'000;

}  // namespace

void FollowerLink::OnWrite(LaneId lane_id, uint32_t raw) {
  if (owner_ == nullptr || closing() || lane_id >= lanes_.size()) {
    return;
  }
  const std::optional<Immediate> immediate = DecodeImmediate(raw);
  // The receive that was used up is given back at once: lane credit bounds writes, ring space
  // bounds bytes.
  Lane& lane = lanes_[lane_id];
  ++lane.consumed;
  context_->fabric->PostReceives(id(), lane_id, 1);
  if (immediate && immediate->kind == FrameKind::kHeartbeat) {
    OnHeartbeatFrame(lane_id);
    return;
  }
  if (!immediate || immediate->kind == FrameKind::kWatermark ||
      immediate->shard >= streams_.size()) {
    ++context_->counters->bad_frames;
    Close(absl::DataLossError("an immediate that announces nothing known"));
    return;
  }
  context_->counters->bytes_received += immediate->advance_bytes;
  ReceiveStream* stream = streams_[immediate->shard].get();
  std::optional<uint32_t> credit;
  const absl::Status status = stream->OnArrival(*immediate, lane_id, &credit);
  if (!status.ok()) {
    ++context_->counters->bad_frames;
    Close(status);
    return;
  }
  if (credit) {
    TakeCredit(lane_id, *credit);
  }
}

void FollowerLink::OnHeartbeatFrame(LaneId lane_id) {
  const auto slot =
      heartbeat_memory_->span().subspan(lane_id * kFrameHeaderBytes, kFrameHeaderBytes);
  const std::optional<FrameHeader> header = DecodeFrameHeader(slot);
  if (!header || header->kind != FrameKind::kHeartbeat) {
    ++context_->counters->bad_frames;
    Close(absl::DataLossError("a damaged heartbeat"));
    return;
  }
  echo_us_ = header->extra;
  owner_->OnHeartbeat(header->clock_us);
  lanes_[lane_id].heartbeat_due = true;  // the answer carries the credit and the echo
  TakeCredit(lane_id, header->lane_consumed);
}

void FollowerLink::TakeCredit(LaneId lane_id, uint32_t consumed) {
  Lane& lane = lanes_[lane_id];
  if (consumed - lane.sent_consumed <= lane.sent - lane.sent_consumed) {
    lane.sent_consumed = consumed;  // otherwise: overtaken by a later one
  }
}

void FollowerLink::OnPosted(LaneId lane_id, uint64_t wr_id) {
  if (lane_id < lanes_.size() && wr_id >= lanes_[lane_id].wr_id) {
    lanes_[lane_id].under_way = false;
  }
}

// A report is due at once if the acknowledgement level waits for it or the primary runs out of
// ring, otherwise within kLazyReportUs.
bool FollowerLink::IsDue(ReceiveStream* stream, int64_t now_us) {
  if (!stream->changed()) {
    return false;
  }
  const WatermarkEntry now = stream->Report();
  const WatermarkEntry& told = stream->reported();
  if (stream->changed_since_us == 0) {
    stream->changed_since_us = now_us;
  }
  const bool received = now.received != told.received && ack_ != AckLevel::kPersisted;
  const bool persisted = now.persisted != told.persisted && ack_ != AckLevel::kReceived;
  return received || persisted || told.generation == 0 ||
         now.ring_freed - told.ring_freed >= context_->options.ring_bytes / 4 ||
         now_us - stream->changed_since_us >= kLazyReportUs;
}

bool FollowerLink::SendWatermark(LaneId lane_id, int64_t now_us) {
  Lane& lane = lanes_[lane_id];
  bool due = lane.heartbeat_due ||
             lane.consumed - lane.consumed_told >= context_->options.lane_credits / 4;
  for (const auto& stream : streams_) {
    if (stream->lane() == lane_id) {
      due |= IsDue(stream.get(), now_us);
    }
  }
  const uint32_t kept = lane.heartbeat_due ? 0 : 1;
  if (!due || lane.under_way) {
    return false;
  }
  if (lane.sent - lane.sent_consumed + kept >= watermark_credits_) {
    // No lane write can carry the credit: a control message does, or both sides might wait for
    // ever.
    if (lane.consumed - lane.consumed_told >= context_->options.lane_credits / 2) {
      Send(Credits{lane_id, lane.consumed});
      lane.consumed_told = lane.consumed;
    }
    return false;
  }
  watermark_.lane = lane_id;
  watermark_.number = lane.sent;
  watermark_.lane_consumed = lane.consumed;
  watermark_.echo_us = echo_us_;
  watermark_.entries.clear();
  for (const auto& stream : streams_) {
    if (stream->lane() == lane_id && stream->changed()) {
      watermark_.entries.push_back(stream->Report());
    }
  }
  EncodeWatermark(watermark_, &lane.bytes);
  const uint64_t slot = uint64_t{lane_id} * watermark_credits_ + lane.sent % watermark_credits_;
  const iovec piece{lane.bytes.data(), lane.bytes.size()};
  const uint32_t immediate =
      EncodeImmediate({.kind = FrameKind::kWatermark,
                       .shard = 0,
                       .advance_bytes = static_cast<uint32_t>(lane.bytes.size())});
  // lane.bytes stays untouched until OnPosted: one watermark at most is under way on a lane.
  if (context_->fabric->PostWrite(id(), lane_id, watermark_ring_, slot * slot_bytes_,
                                  std::span(&piece, 1), immediate,
                                  lane.wr_id + 1) != OpResult::kOk) {
    return false;
  }
  ++lane.wr_id;
  ++lane.sent;
  lane.under_way = true;
  lane.heartbeat_due = false;
  lane.consumed_told = lane.consumed;
  echo_us_ = 0;
  for (const WatermarkEntry& entry : watermark_.entries) {
    streams_[entry.shard]->Reported(entry);
  }
  return true;
}

bool FollowerLink::Pump(int64_t now_us) {
  if (owner_ == nullptr || closing() || !started_) {
    return false;
  }
  bool moved = false;
  if (now_us >= next_retry_us_) {
    bool blocked = false;
    for (const auto& stream : streams_) {
      absl::Status status;
      std::optional<uint32_t> credit;
      moved |= stream->Retry(&status, &credit);
      if (!status.ok()) {
        Close(status);
        return true;
      }
      if (credit) {
        TakeCredit(stream->lane(), *credit);
      }
      blocked |= stream->blocked();
    }
    TellCondition();
    if (blocked) {
      next_retry_us_ = now_us + (told_disk_full_ ? kDiskFullRetryUs : kBlockedRetryUs);
    }
  }
  for (LaneId lane = 0; lane < lanes_.size(); ++lane) {
    moved |= SendWatermark(lane, now_us);
  }
  return moved;
}

void FollowerLink::TellCondition() {
  const bool disk_full = std::any_of(streams_.begin(), streams_.end(),
                                     [](const auto& stream) { return stream->disk_full(); });
  if (disk_full != told_disk_full_) {
    told_disk_full_ = disk_full;
    Send(ReplicaCondition{disk_full});
  }
}

int64_t FollowerLink::timer_us() const {
  int64_t due = Link::timer_us();
  if (!admitted_ || owner_ == nullptr) {
    return due;
  }
  due = std::min(due, next_heartbeat_us_);
  for (const auto& stream : streams_) {
    if (stream->blocked()) {
      due = std::min(due, next_retry_us_);
    }
    if (stream->changed_since_us != 0) {
      // What is overdue waits for a completion or a credit: those wake the loop, the clock need
      // not.
      due = std::min(
          due, std::max(stream->changed_since_us + kLazyReportUs, context_->now_us() + kOverdueUs));
    }
  }
  return due;
}

void FollowerLink::OnTimer(int64_t now_us) {
  Link::OnTimer(now_us);
  if (!admitted_ || owner_ == nullptr || closing() || now_us < next_heartbeat_us_) {
    return;
  }
  next_heartbeat_us_ = now_us + context_->options.heartbeat_us;
  if (started_) {
    lanes_[0].heartbeat_due = true;
  } else {
    // Preparing may take as long as the disk needs: the primary should know that we live.
    Send(ReplicaCondition{false});
  }
}

}  // namespace kvstored::replication
