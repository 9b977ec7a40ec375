// Members: who must acknowledge (P7), the level (P5), and each member's right to be promoted (P19).
// Every change is persisted where the rules want it before it counts.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "replication/link.h"
#include "replication/replica_link.h"

namespace kvstored::replication {

// Replication thread. Invariants: 1. the published set is one that meta holds, persisted. 2. A
// member is counted only after it has persisted that it is one. 3. One change at a time. 4. Whoever
// leaves the set has confirmed that it lost the right to be promoted, or the operator forced it.
class Members {
 public:
  using Done = std::function<void(absl::Status)>;

  // `links`: the connected replicas, kept up to date by the primary.
  Members(EngineContext* context, MemberSet set, const std::vector<ReplicaLink*>* links);

  const MemberSet& set() const {
    return set_;
  }
  bool IsMember(const Id128& store_id) const;
  // Has every place of the set a member, or a replica that streams and is about to take it (P7)?
  bool HasOrAwaits() const;
  // The progress row of a store: its own, or a free one; null if there is none.
  std::optional<uint32_t> RowFor(const Id128& store_id);
  void SetConnected(uint32_t row, bool connected);

  void SetAck(AckLevel ack, uint32_t ack_replicas, bool force, Done done);
  void Drop(const Id128& store_id, bool force, Done done);
  void Replace(const Id128& old_store, const Id128& new_store, bool force, Done done);

  // Something moved, or time went on: starts what is due.
  void Evaluate(int64_t now_us);
  void OnMembersPersisted(ReplicaLink* link, const MembersPersisted& message);
  void OnPromotablePersisted(ReplicaLink* link, const PromotablePersisted& message);
  void OnClosed(ReplicaLink* link);
  // The role ends: every change under way fails.
  void Abort(const absl::Status& why);

 private:
  enum class Phase : uint8_t { kClear, kAskMember, kPersist };
  struct Change {
    Phase phase = Phase::kClear;
    MemberSet next;
    std::vector<Id128> losers;  // still to confirm that they may not be promoted
    bool force = false;
    std::optional<Id128> joining;
    Done done;  // may be null
  };
  struct Row {
    Id128 store_id;
    bool connected = false;
    // Of a member, Clock::MonotonicUs, 0 = it was not: since when it has been silent, and since
    // when it was as its newest link came up.
    int64_t silent_since_us = 0;
    int64_t silent_before_us = 0;
  };

  // --- The set as it stands (members.cc). ---

  ReplicaLink* Find(const Id128& store_id) const;
  bool IsGranting(const Id128& store_id) const;
  bool counts_persisted() const {
    return set_.ack == AckLevel::kPersisted;
  }
  bool IsComplete() const {
    return set_.members.size() >= set_.ack_replicas;
  }
  void Publish();
  void Broadcast(const ReplicaLink* except);
  void StartJoin(int64_t now_us);
  void GrantPromotion();
  void UpdateSilence(int64_t now_us);
  void UpdateSilence(Row* row, int64_t now_us);

  // --- A change of it, step by step (members_change.cc). ---

  // Queues a change made of the set as it will be then.
  void Enqueue(std::function<absl::StatusOr<Change>()> make, Done done);
  void StartNext();
  void Continue();
  void AskLosers();
  void Persist();
  void Finish(const absl::Status& status);

  EngineContext* const context_;
  MemberSet set_;
  const std::vector<ReplicaLink*>* const links_;
  std::array<Row, ProgressTable::kRows> rows_;
  uint64_t last_version_;
  std::optional<Change> change_;
  struct Queued {
    std::function<absl::StatusOr<Change>()> make;
    Done done;
  };
  std::deque<Queued> queue_;
  std::optional<Id128> preferred_;  // the store that Replace wants next
  std::vector<Id128> granting_;     // asked to change `promotable`, not confirmed yet
  int64_t incomplete_since_us_ = 0;
  int64_t next_silence_check_us_ = 0;
  int64_t next_join_us_ = 0;
  Alive alive_;
};

}  // namespace kvstored::replication
