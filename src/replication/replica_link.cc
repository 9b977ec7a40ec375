// The life of a ReplicaLink: admission, state, watermarks. What is posted is in replica_pump.cc.
#include "replication/replica_link.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "record/cursor.h"
#include "replication/accepted_link.h"

namespace kvstored::replication {

ReplicaLink::ReplicaLink(EngineContext* context, ReplicaOwner* owner, const Backlog* backlog,
                         const Hello& hello, std::string host, uint32_t row)
    : Link(context),
      owner_(owner),
      backlog_(backlog),
      facts_(hello.facts),
      host_(std::move(host)),
      address_(absl::StrFormat("%s:%d", host_, hello.facts.replication_port)),
      row_(row),
      lane_count_(static_cast<uint16_t>(std::max(
          1u, std::min({uint32_t{hello.lane_count_max}, uint32_t{context->options.lane_count_max},
                        context->options.shard_count})))),
      promotable_(hello.facts.promotable) {
}

void ReplicaLink::Begin(JoinPlan plan) {
  plan_ = std::move(plan);
  mode_ = plan_.mode;
  CheckLastRecords();
}

// P15: another record at an equal (epoch, seq) is divergence. Only a log that is not cut by the
// plan still ends with the record whose checksum the replica told.
void ReplicaLink::CheckLastRecords() {
  checks_pending_ = 1;
  if (mode_ == JoinMode::kCatchUp && !plan_.adopt) {
    for (ShardId shard = 0; shard < context_->options.shard_count; ++shard) {
      const Seq common = plan_.common[shard];
      if (common != 0 && common == facts_.ends[shard].end &&
          facts_.ends[shard].last_checksum != 0 && common >= plan_.primary.log_start[shard]) {
        CheckLastRecord(shard);
      }
    }
  }
  if (--checks_pending_ == 0) {
    SendAdmission();
  }
}

void ReplicaLink::CheckLastRecord(ShardId shard) {
  ++checks_pending_;
  const Seq common = plan_.common[shard];
  const auto check = [this, shard, common](const absl::StatusOr<record::BatchRef>& batch) {
    if (batch.ok() && (*batch)->first_seq == common) {
      const record::Cursor cursor((*batch)->bytes);
      const uint32_t told = facts_.ends[shard].last_checksum;
      if (cursor.at_record() && cursor.checksum() != told) {
        const std::string text = absl::StrFormat(
            "shard %d: the record %d of replica %s has checksum %08x, the primary's has %08x; the "
            "replica is built anew by a full sync",
            shard, common, address_, told, cursor.checksum());
        base::LogError(text);
        context_->state->OnAlarm(Refusal::kDiverged, text);
        mode_ = JoinMode::kFullSync;
      }
    }
    if (--checks_pending_ == 0) {
      SendAdmission();
    }
  };
  context_->source->ReadLog(shard, common, 1,
                            alive_.Guard<absl::StatusOr<record::BatchRef>>(*context_, check));
}

void ReplicaLink::SendAdmission() {
  if (closing() || owner_ == nullptr) {
    return;
  }
  if (mode_ == JoinMode::kFullSync && !owner_->MayFullSync(this)) {
    RefuseAndLinger(
        {Refusal::kBusy, "another replica is in full sync; this one is admitted after it", ""});
    return;
  }
  admitted_ = true;
  promotable_ = promotable_ && mode_ != JoinMode::kFullSync;  // cleared by the replica itself (P19)
  Admission admission;
  admission.mode = mode_;
  admission.adopt = plan_.adopt;
  admission.lane_count = lane_count_;
  admission.dropped_records = plan_.dropped_records;
  admission.common = plan_.common;
  admission.primary = plan_.primary;
  admission.primary.members = context_->facts().members;  // they may have changed meanwhile
  Send(admission);
  base::LogInfo(absl::StrFormat("admitted replica %s: %s", address_,
                                mode_ == JoinMode::kFullSync ? "full sync" : "catch-up"));
  SetState(mode_ == JoinMode::kFullSync ? StreamState::kFullSync : StreamState::kCatchUp);
}

void ReplicaLink::OnMessage(Message& message) {
  if (lingering() || owner_ == nullptr) {
    return;
  }
  if (const auto* ready = std::get_if<Ready>(&message)) {
    OnReady(*ready);
  } else if (std::holds_alternative<SyncDone>(message) && running_ && syncing()) {
    if (std::any_of(streams_.begin(), streams_.end(),
                    [](const auto& stream) { return stream->syncing(); })) {
      Close(absl::FailedPreconditionError("the replica ended a full sync that is not complete"));
      return;
    }
    EndSlices();
    sync_done_ = true;
    SetState(StreamState::kCatchUp);
  } else if (const auto* members = std::get_if<MembersPersisted>(&message)) {
    owner_->OnMembersPersisted(this, *members);
  } else if (const auto* promotable = std::get_if<PromotablePersisted>(&message)) {
    owner_->OnPromotablePersisted(this, *promotable);
  } else if (const auto* condition = std::get_if<ReplicaCondition>(&message)) {
    disk_full_ = condition->disk_full;
  } else if (const auto* credits = std::get_if<Credits>(&message);
             credits != nullptr && running_ && credits->lane < lane_count_) {
    Watermark watermark;
    watermark.lane = credits->lane;
    watermark.lane_consumed = credits->consumed;
    TakeWatermark(watermark, context_->now_us());
  } else {
    Close(absl::InvalidArgumentError("a message that a replica does not send in this state"));
  }
}

void ReplicaLink::OnReady(const Ready& ready) {
  const uint64_t bytes = ready.ring_bytes;
  if (ready_ || ready.rings.size() != context_->options.shard_count ||
      bytes != RingBytesFor(bytes) || 2 * bytes > kAdvanceBytesMax || ready.lane_credits < 4 ||
      ready.lane_credits > (1u << 20)) {
    Close(absl::InvalidArgumentError("the replica's rings make no sense"));
    return;
  }
  ready_ = true;
  credits_ = ready.lane_credits;
  heartbeat_ring_ = ready.heartbeat_ring;
  for (ShardId shard = 0; shard < context_->options.shard_count; ++shard) {
    const auto lane = static_cast<uint16_t>(shard % std::min(owner_->lanes(), lane_count_));
    auto stream = std::make_unique<SendStream>(context_, backlog_, shard, lane);
    stream->SetRing(ready.rings[shard], bytes);
    if (mode_ == JoinMode::kFullSync) {
      stream->BeginFullSync(
          std::clamp<size_t>(context_->options.slice_bytes / context_->options.shard_count,
                             size_t{64} << 10, kRecordBytesMax));
    } else {
      stream->BeginAfter(plan_.common[shard]);
    }
    streams_.push_back(std::move(stream));
  }
  StartIfReady();
}

void ReplicaLink::OnLanesOpen(LaneId lane_count) {
  if (owner_ == nullptr || lanes_open_ || lane_count != lane_count_ ||
      mode_ == JoinMode::kRefused) {
    Close(absl::InvalidArgumentError("the replica opened other lanes than it was told"));
    return;
  }
  lanes_open_ = true;
  StartIfReady();
}

void ReplicaLink::StartIfReady() {
  if (!ready_ || !lanes_open_ || closing()) {
    return;
  }
  lanes_.resize(lane_count_);
  headers_.resize(size_t{lane_count_} * (credits_ + 1) * kFrameHeaderBytes);
  slot_bytes_ = static_cast<uint32_t>(std::bit_ceil(WatermarkBytes(context_->options.shard_count)));
  watermark_memory_ = std::make_unique<PageBuffer>(
      RingBytesFor(uint64_t{lane_count_} * kWatermarkCredits * slot_bytes_));
  watermark_ring_ = context_->fabric->RegisterRing(id(), watermark_memory_->span());
  for (LaneId lane = 0; lane < lane_count_; ++lane) {
    context_->fabric->PostReceives(id(), lane, kWatermarkCredits);
  }
  Send(Start{watermark_ring_, kWatermarkCredits, slot_bytes_});
  running_ = true;
  if (const MemberSet members = context_->facts().members; members != facts_.members) {
    Send(MembersChange{members});  // it was away when the set changed
  }
  if (mode_ == JoinMode::kFullSync) {
    ++context_->counters->full_syncs;
  }
}

void ReplicaLink::OnWrite(LaneId lane_id, uint32_t raw) {
  if (!running_ || owner_ == nullptr || closing()) {
    return;
  }
  const std::optional<Immediate> immediate = DecodeImmediate(raw);
  if (!immediate || immediate->kind != FrameKind::kWatermark || lane_id >= lanes_.size() ||
      immediate->advance_bytes > slot_bytes_) {
    ++context_->counters->bad_frames;
    Close(absl::DataLossError("an immediate that is no watermark"));
    return;
  }
  Lane& lane = lanes_[lane_id];
  const uint64_t slot = uint64_t{lane_id} * kWatermarkCredits + lane.watermarks % kWatermarkCredits;
  const auto bytes =
      watermark_memory_->span().subspan(slot * slot_bytes_, immediate->advance_bytes);
  if (!DecodeWatermark(bytes, &watermark_) || watermark_.lane != lane_id ||
      watermark_.number != lane.watermarks) {
    ++context_->counters->bad_frames;
    Close(absl::DataLossError(absl::StrFormat("a damaged watermark on lane %d", lane_id)));
    return;
  }
  ++lane.watermarks;
  // The slot was read: the peer may use it again once it is told so with a frame's lane_consumed.
  context_->fabric->PostReceives(id(), lane_id, 1);
  TakeWatermark(watermark_, context_->now_us());
}

void ReplicaLink::TakeWatermark(const Watermark& watermark, int64_t now_us) {
  Lane& lane = lanes_[watermark.lane];
  if (watermark.lane_consumed - lane.consumed > lane.posted - lane.consumed) {
    // Behind what is known (an overtaken credit message) is old news, ahead of it is a lie.
    if (lane.consumed - watermark.lane_consumed > (1u << 20)) {
      Close(absl::DataLossError("the replica consumed more writes than were posted"));
      return;
    }
  } else {
    lane.consumed = watermark.lane_consumed;
  }
  if (watermark.echo_us != 0) {
    rtt_us_ = std::max<int64_t>(0, now_us - static_cast<int64_t>(watermark.echo_us));
  }
  for (const WatermarkEntry& entry : watermark.entries) {
    if (entry.shard >= streams_.size() || entry.generation > streams_[entry.shard]->generation) {
      Close(absl::DataLossError("a watermark for a stream that is not there"));
      return;
    }
    SendStream* stream = streams_[entry.shard].get();
    if (entry.generation < stream->generation) {
      continue;
    }
    if (!stream->OnWatermark(entry, now_us, context_->counters)) {
      ++context_->counters->bad_frames;
      Close(absl::DataLossError(
          absl::StrFormat("shard %d: the replica acknowledged what it was not sent", entry.shard)));
      return;
    }
    if (!syncing() &&
        context_->progress->Advance(row_, entry.shard, stream->received(), stream->persisted())) {
      context_->progress_moved(entry.shard);
    }
  }
}

void ReplicaLink::OnPosted(LaneId lane_id, uint64_t wr_id) {
  if (lane_id >= lanes_.size()) {
    return;
  }
  Lane& lane = lanes_[lane_id];
  lane.queue_full = false;
  while (!lane.in_flight.empty() && lane.in_flight.front().wr_id <= wr_id) {
    lane.in_flight.pop_front();
  }
}

void ReplicaLink::OnClosed(const absl::Status& why) {
  EndSlices();
  if (owner_ != nullptr) {
    base::LogWarning(absl::StrFormat("replica %s left (%s): %s", address_,
                                     std::string(StreamStateName(state_)),
                                     std::string(why.message())));
    owner_->OnReplicaClosed(this, why);
    owner_ = nullptr;
  }
}

// Once, and before another link may ask for slices.
void ReplicaLink::EndSlices() {
  if (syncing() && running_ && !slices_ended_) {
    slices_ended_ = true;
    context_->source->EndSlices();
  }
}

void ReplicaLink::SetState(StreamState state) {
  if (state_ == state) {
    return;
  }
  state_ = state;
  Send(StateChange{state});
  const std::string text =
      absl::StrFormat("replica %s: %s", address_, std::string(StreamStateName(state)));
  state == StreamState::kFullSync ? base::LogDebug(text) : base::LogInfo(text);
  if (owner_ != nullptr) {
    if (!syncing() && running_) {
      for (const auto& stream : streams_) {
        if (context_->progress->Advance(row_, stream->shard(), stream->received(),
                                        stream->persisted())) {
          context_->progress_moved(stream->shard());
        }
      }
    }
  }
}

void ReplicaLink::UpdateState() {
  if (syncing() || !running_) {
    return;
  }
  if (state_ == StreamState::kCatchUp) {
    const bool caught_up = std::all_of(
        streams_.begin(), streams_.end(), [this](const std::unique_ptr<SendStream>& stream) {
          return stream->from_memory() && stream->received() >= owner_->committed(stream->shard());
        });
    if (caught_up) {
      SetState(StreamState::kStreaming);
    }
  } else if (state_ == StreamState::kStreaming) {
    if (std::any_of(streams_.begin(), streams_.end(),
                    [](const auto& stream) { return !stream->from_memory(); })) {
      SetState(StreamState::kCatchUp);
    }
  }
}

bool ReplicaLink::HoldsCommitted(bool persisted) const {
  return running_ && std::all_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
           return (persisted ? stream->persisted() : stream->received()) >=
                  owner_->committed(stream->shard());
         });
}

int64_t ReplicaLink::BehindSinceUs(bool persisted, int64_t before_us, int64_t now_us) {
  int64_t since = 0;
  for (const auto& stream : streams_) {
    const Seq mark = persisted ? stream->persisted() : stream->received();
    if (mark >= backlog_->end(stream->shard())) {
      stream->behind_since_us = 0;
      continue;
    }
    stream->behind_since_us = stream->behind_since_us == 0 ? now_us : stream->behind_since_us;
    const int64_t from_us =
        before_us != 0 && !stream->acknowledged() ? before_us : stream->behind_since_us;
    since = since == 0 ? from_us : std::min(since, from_us);
  }
  return since;
}

ReplicaStatus ReplicaLink::Status(int64_t now_us) const {
  ReplicaStatus status;
  status.store_id = facts_.store_id;
  status.address = address_;
  status.host = host_;
  status.front_port = facts_.front_port;
  status.state = state_;
  status.connected = true;
  status.promotable = promotable_;
  status.disk_full = disk_full_;
  status.row = row_;
  status.lanes = running_ ? std::min(owner_ == nullptr ? uint16_t{1} : owner_->lanes(), lane_count_)
                          : uint16_t{0};
  status.last_heard_us = last_heard_us();
  status.rtt_us = rtt_us_;
  for (const auto& stream : streams_) {
    status.lag_records += backlog_->end(stream->shard()) -
                          std::min(backlog_->end(stream->shard()), stream->received());
    status.lag_bytes += stream->outstanding_bytes();
    status.full_sync_items_bytes += stream->item_bytes();
    if (stream->behind_since_us != 0 && stream->received() < backlog_->end(stream->shard())) {
      status.lag_us = std::max(status.lag_us, now_us - stream->behind_since_us);
    }
  }
  return status;
}

}  // namespace kvstored::replication
