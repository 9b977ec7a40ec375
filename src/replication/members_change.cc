// A change of the set walks through: the losers' right to be promoted is cleared and confirmed; a
// joining member persists the new set; the primary persists it; then it counts and is told to all.
// A crash between two steps leaves a member that believes it is one while it does not count
// (harmless: it has no right to be promoted), never one that counts without knowing it.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "replication/members.h"

namespace kvstored::replication {
namespace {

constexpr int64_t kJoinRetryUs = 1'000'000;

}  // namespace

void Members::Enqueue(std::function<absl::StatusOr<Change>()> make, Done done) {
  queue_.push_back({std::move(make), std::move(done)});
  StartNext();
}

void Members::StartNext() {
  while (!change_ && !queue_.empty()) {
    Queued queued = std::move(queue_.front());
    queue_.pop_front();
    absl::StatusOr<Change> change = queued.make();
    if (!change.ok()) {
      queued.done(change.status());
      continue;
    }
    change_ = *std::move(change);
    change_->done = std::move(queued.done);
    change_->next.version = ++last_version_;
    AskLosers();
    Continue();
  }
}

void Members::AskLosers() {
  for (const Id128& loser : change_->losers) {
    if (ReplicaLink* link = Find(loser)) {
      link->Send(PromotableChange{false});
    }
  }
  granting_.clear();
}

// Goes on from the phase that is over.
void Members::Continue() {
  if (change_->phase == Phase::kClear) {
    for (size_t i = 0; i < change_->losers.size();) {
      if (Find(change_->losers[i]) != nullptr) {
        ++i;  // asked; its answer or the end of its link comes
        continue;
      }
      if (!change_->force) {
        Finish(absl::UnavailableError(
            "a member that would lose its place cannot be reached, so that its right to be "
            "promoted "
            "cannot be withdrawn; kvctl member drop --force goes on, and that node must then never "
            "be promoted"));
        return;
      }
      change_->losers.erase(change_->losers.begin() + static_cast<ptrdiff_t>(i));
    }
    if (!change_->losers.empty()) {
      return;
    }
    change_->phase = change_->joining ? Phase::kAskMember : Phase::kPersist;
    if (change_->joining) {
      Find(*change_->joining)->Send(MembersChange{change_->next});
      return;
    }
  }
  if (change_->phase == Phase::kPersist) {
    Persist();
  }
}

void Members::Persist() {
  context_->state->PersistMembers(
      change_->next, alive_.Guard<absl::Status>(*context_, [this](const absl::Status& status) {
        if (!change_) {
          return;
        }
        ReplicaLink* joined = change_->joining ? Find(*change_->joining) : nullptr;
        if (status.ok()) {
          // P7: what it holds must reach `committed` at the moment it begins to count.
          if (change_->joining &&
              (joined == nullptr || !joined->HoldsCommitted(counts_persisted()))) {
            base::LogWarning(
                "a joining member fell behind while the set was persisted: it counts, "
                "and commits wait for it");
          }
          set_ = change_->next;
          Publish();
          Broadcast(joined);
        }
        Finish(status);
      }));
}

void Members::Finish(const absl::Status& status) {
  const Change change = *std::move(change_);
  change_.reset();
  if (status.ok()) {
    base::LogInfo(absl::StrFormat("member set %d: %d of %d members", set_.version,
                                  set_.members.size(), set_.ack_replicas));
  } else {
    base::LogWarning(
        absl::StrFormat("the member set stays as it is: %s", std::string(status.message())));
    next_join_us_ = context_->now_us() + kJoinRetryUs;
  }
  if (change.done != nullptr) {
    change.done(status);
  }
  StartNext();
}

void Members::SetAck(AckLevel ack, uint32_t ack_replicas, bool force, Done done) {
  Enqueue(
      [this, ack, ack_replicas, force]() -> absl::StatusOr<Change> {
        if (ack_replicas > kReplicaCountMax) {
          return absl::InvalidArgumentError(absl::StrFormat(
              "replication.ack_replicas = %d: at most %d", ack_replicas, kReplicaCountMax));
        }
        Change change;
        change.force = force;
        change.next = set_;
        change.next.ack = ack;
        change.next.ack_replicas = ack_replicas;
        const size_t keep = ack == AckLevel::kNone ? 0 : ack_replicas;
        if (change.next.members.size() > keep) {
          change.next.members.resize(keep);
        }
        for (size_t i = 0; i < set_.members.size(); ++i) {
          if (ack < set_.ack || i >= keep) {
            change.losers.push_back(set_.members[i].store_id);
          }
        }
        return change;
      },
      std::move(done));
}

void Members::Drop(const Id128& store_id, bool force, Done done) {
  Enqueue(
      [this, store_id, force]() -> absl::StatusOr<Change> {
        if (!IsMember(store_id)) {
          return absl::NotFoundError("no such member: kvctl member list");
        }
        Change change;
        change.force = force;
        change.next = set_;
        std::erase_if(change.next.members,
                      [&](const Member& member) { return member.store_id == store_id; });
        // The set asks for one less: otherwise writes would stay refused (P8).
        change.next.ack_replicas = set_.ack_replicas == 0 ? 0 : set_.ack_replicas - 1;
        change.losers.push_back(store_id);
        return change;
      },
      std::move(done));
}

void Members::Replace(const Id128& old_store, const Id128& new_store, bool force, Done done) {
  Enqueue(
      [this, old_store, new_store, force]() -> absl::StatusOr<Change> {
        const ReplicaLink* link = Find(new_store);
        if (!IsMember(old_store) || IsMember(new_store)) {
          return absl::NotFoundError("the old store must be a member and the new one must not");
        }
        if (link == nullptr || link->state() != StreamState::kStreaming) {
          return absl::FailedPreconditionError("the new member must be streaming");
        }
        // First the old one leaves, so that nothing is committed until the new one counts (P7).
        Change change;
        change.force = force;
        change.next = set_;
        std::erase_if(change.next.members,
                      [&](const Member& member) { return member.store_id == old_store; });
        change.losers.push_back(old_store);
        preferred_ = new_store;
        next_join_us_ = 0;
        return change;
      },
      std::move(done));
}

void Members::OnMembersPersisted(ReplicaLink* link, const MembersPersisted& message) {
  if (!change_ || change_->phase != Phase::kAskMember || link->store_id() != change_->joining ||
      message.version != change_->next.version) {
    return;  // a broadcast was persisted
  }
  if (!message.ok) {
    Finish(absl::FailedPreconditionError("the joining member cannot persist: " + message.text));
    return;
  }
  change_->phase = Phase::kPersist;
  Continue();
}

void Members::OnPromotablePersisted(ReplicaLink* link, const PromotablePersisted& message) {
  if (message.ok) {
    link->set_promotable(message.promotable);
  }
  std::erase(granting_, link->store_id());
  if (change_ && change_->phase == Phase::kClear && !message.promotable) {
    if (!message.ok && !change_->force) {
      Finish(absl::FailedPreconditionError("a member cannot persist that it lost its place: " +
                                           message.text));
      return;
    }
    std::erase(change_->losers, link->store_id());
    Continue();
  }
}

void Members::OnClosed(ReplicaLink* link) {
  std::erase(granting_, link->store_id());
  if (!change_) {
    return;
  }
  if (change_->phase == Phase::kAskMember && change_->joining == link->store_id()) {
    Finish(absl::UnavailableError("the joining member left"));
  } else if (change_->phase == Phase::kClear) {
    Continue();
  }
}

void Members::Abort(const absl::Status& why) {
  std::deque<Queued> queue = std::move(queue_);
  queue_.clear();
  preferred_.reset();
  if (change_) {
    Finish(why);
  }
  for (Queued& queued : queue) {
    queued.done(why);
  }
}

}  // namespace kvstored::replication
