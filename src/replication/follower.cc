#include "replication/follower.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::replication {

Follower::Follower(EngineContext* context, std::atomic<Seq>* local_persisted, std::string address,
                   bool discard)
    : context_(context),
      local_persisted_(local_persisted),
      discard_(discard),
      rings_(context->options.shard_count),
      back_off_us_(context->options.reconnect_min_us) {
  status_.active = true;
  status_.address = std::move(address);
  next_connect_us_ = context->now_us();
}

Follower::~Follower() {
  if (link_ != nullptr) {
    link_->Detach();
    link_->Close(absl::CancelledError("the role ended"));
  }
}

bool Follower::Pump(int64_t now_us) {
  if (link_ != nullptr) {
    return link_->Pump(now_us);
  }
  if (now_us < next_connect_us_) {
    return false;
  }
  refused_ = Refusal::kNone;
  base::LogDebug(absl::StrFormat("replication from %s: connecting", status_.address));
  link_ = static_cast<FollowerLink*>(context_->host->Connect(
      status_.address, std::make_unique<FollowerLink>(context_, this, discard_)));
  return true;
}

int64_t Follower::timer_us() const {
  if (link_ == nullptr) {
    return next_connect_us_;
  }
  // A closing link's end comes from the fabric.
  return link_->closing() ? std::numeric_limits<int64_t>::max() : link_->timer_us();
}

void Follower::FinishFullSync(const absl::Status& status) {
  if (link_ != nullptr) {
    link_->FinishFullSync(status);
  }
}

void Follower::SetState(StreamState state, Refusal refusal, const std::string& text) {
  if (status_.state == state && status_.refusal == refusal && status_.text == text) {
    return;
  }
  status_.state = state;
  status_.refusal = refusal;
  status_.text = text;
  context_->sink->OnStreamState(state, refusal, text);
}

void Follower::OnFollowState(StreamState state) {
  if (state == StreamState::kStreaming) {
    back_off_us_ = context_->options.reconnect_min_us;
  }
  SetState(state, Refusal::kNone, "");
}

void Follower::OnJoinPlan(const JoinPlan& plan) {
  discard_ = false;  // once: a second loss needs a second decision
  status_.primary = plan.primary;
  if (plan.dropped_records != 0) {
    base::LogWarning(
        absl::StrFormat("following %s drops %d records that lie above the common point",
                        status_.address, plan.dropped_records));
  }
}

void Follower::OnHeartbeat(uint64_t primary_clock_us) {
  status_.primary_clock_us = primary_clock_us;
  status_.last_heard_us = context_->now_us();
  context_->sink->OnPrimaryClock(primary_clock_us);
}

void Follower::OnFollowRefused(Refusal refusal, const std::string& text) {
  refused_ = refusal;
  refused_text_ = text;
  if (refusal == Refusal::kForked || refusal == Refusal::kLosesCommitted ||
      refusal == Refusal::kLongerThanPrimary || refusal == Refusal::kDataSet) {
    context_->state->OnAlarm(refusal, text);
  }
}

void Follower::OnFollowClosed(FollowerLink* link, const absl::Status& why) {
  if (link != link_) {
    return;
  }
  link_ = nullptr;
  ++context_->counters->reconnects;
  // Jitter, so that the replicas of a lost primary do not come back as one herd.
  const auto jitter =
      static_cast<int64_t>(context_->random->Below(static_cast<uint64_t>(back_off_us_ / 2 + 1)));
  next_connect_us_ = context_->now_us() + back_off_us_ / 2 + jitter;
  back_off_us_ = std::min(back_off_us_ * 2, context_->options.reconnect_max_us);
  const std::string text = refused_ != Refusal::kNone ? refused_text_ : std::string(why.message());
  if (text != status_.text) {
    base::LogWarning(absl::StrFormat("replication from %s: %s", status_.address, text));
  }
  base::LogDebug(absl::StrFormat("replication from %s: link ended (%s), the next attempt in %d ms",
                                 status_.address, text,
                                 (next_connect_us_ - context_->now_us()) / 1000));
  SetState(StreamState::kConnecting, refused_, text);
}

std::shared_ptr<RingReader> Follower::Ring(ShardId shard) {
  if (rings_[shard] == nullptr) {
    rings_[shard] = std::make_shared<RingReader>(context_->options.ring_bytes);
  }
  return rings_[shard];
}

}  // namespace kvstored::replication
