// Joining: hello, admission, rings. What flows afterwards is in follower_flow.cc.
#include "replication/follower_link.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::replication {

FollowerLink::FollowerLink(EngineContext* context, FollowerOwner* owner, bool discard)
    : OutgoingLink(context), owner_(owner), discard_(discard) {
}

void FollowerLink::OnAdmitted() {
  facts_ = context_->facts();
  Send(Hello{facts_, discard_, context_->options.lane_count_max});
}

void FollowerLink::OnRefused(Refusal refusal, const std::string& text) {
  if (owner_ != nullptr) {
    owner_->OnFollowRefused(refusal, text);
  }
}

void FollowerLink::OnAdmittedMessage(Message& message) {
  if (owner_ == nullptr) {
    return;
  }
  if (const auto* admission = std::get_if<Admission>(&message);
      admission != nullptr && !admitted_) {
    OnAdmission(*admission);
  } else if (const auto* start = std::get_if<Start>(&message); start != nullptr && !started_) {
    OnStart(*start);
  } else if (const auto* state = std::get_if<StateChange>(&message);
             state != nullptr && admitted_) {
    owner_->OnFollowState(state->state);
  } else if (const auto* members = std::get_if<MembersChange>(&message);
             members != nullptr && admitted_) {
    OnMembersChange(*members);
  } else if (const auto* promotable = std::get_if<PromotableChange>(&message);
             promotable != nullptr && admitted_) {
    OnPromotableChange(*promotable);
  } else if (const auto* credits = std::get_if<Credits>(&message);
             credits != nullptr && credits->lane < lanes_.size()) {
    TakeCredit(credits->lane, credits->consumed);
  } else {
    Close(absl::InvalidArgumentError("a message that a primary does not send in this state"));
  }
}

std::string FollowerLink::CheckAdmission(const Admission& admission, const JoinPlan& own) const {
  const NodeFacts& primary = admission.primary;
  // Who begins anew, begins with the primary's shards.
  const bool fits = own.adopt || primary.shard_count == context_->options.shard_count;
  if (!fits || primary.data_set_id.empty() || primary.epochs.empty() ||
      admission.common.size() != primary.shard_count || admission.lane_count == 0 ||
      admission.lane_count > context_->options.lane_count_max) {
    return "the admission makes no sense";
  }
  if (admission.mode == JoinMode::kCatchUp &&
      (own.mode != JoinMode::kCatchUp || own.common != admission.common)) {
    return "the primary names another common point than this node finds";
  }
  return "";
}

void FollowerLink::OnAdmission(const Admission& admission) {
  // Both sides reckon: what is cut here is cut by this node's own judgement (P18, P20).
#ifdef KVS_TEST_SWITCHES
  if (context_->options.plant_no_epoch_check) {
    facts_.epochs = admission.primary.epochs;
  }
#endif
  JoinPlan own = PlanJoin(admission.primary, facts_, discard_);
  if (own.mode == JoinMode::kRefused) {
    Refuse(own.refusal, own.text);
    return;
  }
  if (const std::string wrong = CheckAdmission(admission, own); !wrong.empty()) {
    Refuse(Refusal::kMalformed, wrong);
    return;
  }
  admitted_ = true;
  plan_ = std::move(own);
  plan_.mode = admission.mode;
  lane_count_ = admission.lane_count;
  ack_ = plan_.primary.members.ack;
  syncing_ = plan_.mode == JoinMode::kFullSync;
  for (ShardId shard = 0; shard < context_->options.shard_count; ++shard) {
    owner_->LocalPersisted(shard)->store(0, std::memory_order_release);
  }
  owner_->OnJoinPlan(plan_);
  context_->sink->PrepareJoin(
      plan_, alive_.Guard<absl::Status>(
                 *context_, [this](const absl::Status& status) { OnPrepared(status); }));
}

void FollowerLink::OnPrepared(const absl::Status& status) {
  if (closing() || owner_ == nullptr) {
    return;
  }
  if (!status.ok()) {
    Close(
        absl::Status(status.code(), absl::StrFormat("preparing to follow: %s", status.message())));
    return;
  }
  prepared_ = true;
  context_->fabric->OpenLanes(id(), lane_count_);
}

void FollowerLink::OnLanesOpen(LaneId lane_count) {
  if (owner_ == nullptr || !prepared_ || lane_count != lane_count_ || !lanes_.empty()) {
    Close(absl::InternalError("lanes opened out of order"));
    return;
  }
  lanes_.resize(lane_count_);
  Ready ready;
  ready.ring_bytes = context_->options.ring_bytes;
  ready.lane_credits = context_->options.lane_credits;
  for (ShardId shard = 0; shard < context_->options.shard_count; ++shard) {
    rings_.push_back(owner_->Ring(shard));
    RingReader* const ring = rings_.back().get();
    streams_.push_back(std::make_unique<ReceiveStream>(context_, shard, ring, &plan_,
                                                       owner_->LocalPersisted(shard)));
    ready.rings.push_back(context_->fabric->RegisterRing(id(), ring->memory()));
  }
  heartbeat_memory_ =
      std::make_unique<PageBuffer>(RingBytesFor(uint64_t{lane_count_} * kFrameHeaderBytes));
  ready.heartbeat_ring = context_->fabric->RegisterRing(id(), heartbeat_memory_->span());
  for (LaneId lane = 0; lane < lane_count_; ++lane) {
    context_->fabric->PostReceives(id(), lane, context_->options.lane_credits);
  }
  Send(ready);
}

void FollowerLink::OnStart(const Start& start) {
  if (lanes_.empty() || start.watermark_credits < 2 ||
      start.slot_bytes < WatermarkBytes(streams_.size())) {
    Close(absl::InvalidArgumentError("the primary's watermark ring makes no sense"));
    return;
  }
  watermark_ring_ = start.watermark_ring;
  watermark_credits_ = start.watermark_credits;
  slot_bytes_ = start.slot_bytes;
  started_ = true;
}

void FollowerLink::OnMembersChange(const MembersChange& change) {
  ack_ = change.members.ack;
  const uint64_t version = change.members.version;
  context_->state->PersistMembers(
      change.members,
      alive_.Guard<absl::Status>(*context_, [this, version](const absl::Status& status) {
        Send(MembersPersisted{version, status.ok(), std::string(status.message())});
      }));
}

void FollowerLink::OnPromotableChange(const PromotableChange& change) {
  const bool promotable = change.promotable;
  context_->state->PersistPromotable(
      promotable,
      alive_.Guard<absl::Status>(*context_, [this, promotable](const absl::Status& status) {
        Send(PromotablePersisted{promotable, status.ok(), std::string(status.message())});
      }));
}

void FollowerLink::FinishFullSync(const absl::Status& status) {
  if (!syncing_ || owner_ == nullptr || closing()) {
    return;
  }
  if (!status.ok()) {
    Close(status);
    return;
  }
  syncing_ = false;
  for (const auto& stream : streams_) {
    stream->EndSync();
  }
  Send(SyncDone{});
}

void FollowerLink::OnClosed(const absl::Status& why) {
  if (owner_ == nullptr) {
    return;
  }
  if (syncing_ && admitted_) {
    context_->sink->OnFullSyncAborted(why);
  }
  owner_->OnFollowClosed(this, why);
  owner_ = nullptr;
}

}  // namespace kvstored::replication
