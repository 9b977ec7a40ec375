// The set as it stands: who counts, who joins next, who may be promoted, how long it is incomplete.
#include "replication/members.h"

#include <algorithm>

namespace kvstored::replication {
namespace {

constexpr int64_t kSilenceCheckUs = 20'000;

}  // namespace

Members::Members(EngineContext* context, MemberSet set, const std::vector<ReplicaLink*>* links)
    : context_(context), set_(std::move(set)), links_(links), last_version_(set_.version) {
  for (const Member& member : set_.members) {
    RowFor(member.store_id);
  }
  Publish();
}

ReplicaLink* Members::Find(const Id128& store_id) const {
  const auto it = std::find_if(links_->begin(), links_->end(), [&](const ReplicaLink* link) {
    return link->store_id() == store_id && link->admitted();
  });
  return it == links_->end() ? nullptr : *it;
}

bool Members::IsGranting(const Id128& store_id) const {
  return std::find(granting_.begin(), granting_.end(), store_id) != granting_.end();
}

bool Members::IsMember(const Id128& store_id) const {
  return std::any_of(set_.members.begin(), set_.members.end(),
                     [&](const Member& member) { return member.store_id == store_id; });
}

bool Members::HasOrAwaits() const {
  const auto joining = std::count_if(links_->begin(), links_->end(), [&](const ReplicaLink* link) {
    return link->state() == StreamState::kStreaming && !link->closing() &&
           !IsMember(link->store_id());
  });
  return set_.ack == AckLevel::kNone ||
         set_.members.size() + static_cast<size_t>(joining) >= set_.ack_replicas;
}

std::optional<uint32_t> Members::RowFor(const Id128& store_id) {
  std::optional<uint32_t> free;
  for (uint32_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].store_id == store_id) {
      return i;
    }
    if (!free && !rows_[i].connected && !IsMember(rows_[i].store_id)) {
      free = i;
    }
  }
  if (free) {
    rows_[*free] = {.store_id = store_id};
    context_->progress->ResetRow(*free, context_->options.shard_count);
  }
  return free;
}

void Members::SetConnected(uint32_t row, bool connected) {
  rows_[row].connected = connected;
  if (!connected) {
    // A missing member's watermark is 0 (P5).
    context_->progress->ResetRow(row, context_->options.shard_count);
  }
  context_->progress->SetConnected(row, connected);
}

void Members::Publish() {
  uint16_t mask = 0;
  for (const Member& member : set_.members) {
    if (const auto row = RowFor(member.store_id)) {
      mask = static_cast<uint16_t>(mask | (1u << *row));
    }
  }
  context_->progress->PublishSet(set_.ack, set_.ack_replicas, mask);
  for (ShardId shard = 0; shard < context_->options.shard_count; ++shard) {
    context_->progress_moved(shard);
  }
  next_silence_check_us_ = 0;
}

void Members::Broadcast(const ReplicaLink* except) {
  for (ReplicaLink* link : *links_) {
    if (link != except && link->admitted()) {
      link->Send(MembersChange{set_});
    }
  }
}

void Members::Evaluate(int64_t now_us) {
  if (!change_) {
    StartJoin(now_us);
  }
  if (!change_) {
    GrantPromotion();
  }
  if (now_us >= next_silence_check_us_) {
    next_silence_check_us_ = now_us + kSilenceCheckUs;
    UpdateSilence(now_us);
  }
}

// P7: the order of joining is the order of reaching `streaming` with everything committed.
void Members::StartJoin(int64_t now_us) {
  if (set_.ack == AckLevel::kNone || IsComplete() || now_us < next_join_us_) {
    return;
  }
  ReplicaLink* candidate = nullptr;
  for (ReplicaLink* link : *links_) {
    if (link->state() == StreamState::kStreaming && !IsMember(link->store_id()) &&
        !link->closing() && link->HoldsCommitted(counts_persisted()) &&
        (candidate == nullptr || link->store_id() == preferred_)) {
      candidate = link;
    }
  }
  if (candidate == nullptr) {
    return;
  }
  Change change;
  change.next = set_;
  change.next.version = ++last_version_;
  change.next.members.push_back(
      {candidate->store_id(), candidate->address(), candidate->facts().front_port});
  change.joining = candidate->store_id();
  preferred_.reset();
  change_ = std::move(change);
  Continue();
}

// P19: the right to be promoted without loss comes when the member counts and holds all that is
// committed.
void Members::GrantPromotion() {
  // Who was dropped by force while it was away still believes in its right.
  for (ReplicaLink* link : *links_) {
    if (link->admitted() && link->promotable() && !IsMember(link->store_id()) &&
        !IsGranting(link->store_id())) {
      granting_.push_back(link->store_id());
      link->Send(PromotableChange{false});
    }
  }
  if (set_.ack == AckLevel::kNone || !IsComplete()) {
    return;
  }
  for (const Member& member : set_.members) {
    ReplicaLink* link = Find(member.store_id);
    if (link == nullptr || link->promotable() || link->state() != StreamState::kStreaming ||
        !link->HoldsCommitted(counts_persisted()) || IsGranting(member.store_id)) {
      continue;
    }
    granting_.push_back(member.store_id);
    link->Send(PromotableChange{true});
  }
}

// A member is silent while it is away or leaves something unacknowledged (P8). Its clock goes on
// when its link ends, and when a new one comes up: only an acknowledgement sets it back.
void Members::UpdateSilence(Row* row, int64_t now_us) {
  ReplicaLink* link = Find(row->store_id);
  if (!IsMember(row->store_id)) {
    row->silent_since_us = 0;
    row->silent_before_us = 0;
  } else if (link == nullptr || link->state() < StreamState::kCatchUp) {
    row->silent_since_us = row->silent_since_us == 0 ? now_us : row->silent_since_us;
    row->silent_before_us = row->silent_since_us;
  } else {
    row->silent_since_us = link->BehindSinceUs(counts_persisted(), row->silent_before_us, now_us);
    row->silent_before_us = row->silent_since_us == 0 ? 0 : row->silent_before_us;
  }
}

void Members::UpdateSilence(int64_t now_us) {
  const bool incomplete = set_.ack != AckLevel::kNone && !IsComplete();
  incomplete_since_us_ =
      !incomplete ? 0 : (incomplete_since_us_ == 0 ? now_us : incomplete_since_us_);
  int64_t since = incomplete_since_us_;
  for (Row& row : rows_) {
    UpdateSilence(&row, now_us);
    if (row.silent_since_us != 0) {
      since = since == 0 ? row.silent_since_us : std::min(since, row.silent_since_us);
    }
  }
  context_->progress->SetSilentSince(since);
}

}  // namespace kvstored::replication
