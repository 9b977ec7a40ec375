// Primary: what a node does for its replicas: admits them, feeds their streams from one backlog,
// keeps the member set.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "replication/backlog.h"
#include "replication/members.h"
#include "replication/replica_link.h"

namespace kvstored::replication {

// Replication thread.
class Primary : public ReplicaOwner {
 public:
  // `committed`: per shard, written by shard threads. `ends`: last seq per shard when the role
  // began.
  Primary(EngineContext* context, const std::atomic<Seq>* committed,
          const std::atomic<uint64_t>* clock_us, std::vector<Seq> ends, MemberSet members);
  // Fences: closes every replica's link at once.
  ~Primary() override;

  void AddBatch(record::BatchRef batch);
  void Admit(Link* link, const Hello& hello, const std::string& peer_host);
  bool Pump(int64_t now_us);
  void SetLanes(uint16_t lanes) {
    lanes_ = lanes;
  }
  Members* members() {
    return &members_;
  }
  const Backlog& backlog() const {
    return backlog_;
  }
  bool has_links() const {
    return !links_.empty();
  }
  std::vector<ReplicaStatus> Statuses() const;
  Seq NeededFrom(ShardId shard) const;

  Seq committed(ShardId shard) const override {
    return committed_[shard].load(std::memory_order_acquire);  // partner: SetCommitted
  }
  uint64_t clock_us() const override;
  uint16_t lanes() const override {
    return lanes_;
  }
  bool MayFullSync(const ReplicaLink* link) const override;
  void OnMembersPersisted(ReplicaLink* link, const MembersPersisted& message) override;
  void OnPromotablePersisted(ReplicaLink* link, const PromotablePersisted& message) override;
  void OnReplicaClosed(ReplicaLink* link, const absl::Status& why) override;

 private:
  EngineContext* const context_;
  const std::atomic<Seq>* const committed_;
  const std::atomic<uint64_t>* const record_clock_us_;
  uint64_t batch_clock_us_ = 0;
  Backlog backlog_;
  std::vector<ReplicaLink*> links_;  // the engine's, running or about to
  Members members_;
  uint16_t lanes_;
};

}  // namespace kvstored::replication
