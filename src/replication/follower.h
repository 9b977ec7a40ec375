// Follower: a replica's side as a whole: finds its primary again and again, keeps what outlives a
// link.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "replication/follower_link.h"

namespace kvstored::replication {

// Replication thread.
class Follower : public FollowerOwner {
 public:
  Follower(EngineContext* context, std::atomic<Seq>* local_persisted, std::string address,
           bool discard);
  // Fences: closes the link at once; no sink call follows.
  ~Follower() override;

  bool Pump(int64_t now_us);
  int64_t timer_us() const;
  void FinishFullSync(const absl::Status& status);
  const FollowStatus& status() const {
    return status_;
  }

  void OnFollowState(StreamState state) override;
  void OnJoinPlan(const JoinPlan& plan) override;
  void OnHeartbeat(uint64_t primary_clock_us) override;
  void OnFollowRefused(Refusal refusal, const std::string& text) override;
  void OnFollowClosed(FollowerLink* link, const absl::Status& why) override;
  std::shared_ptr<RingReader> Ring(ShardId shard) override;
  std::atomic<Seq>* LocalPersisted(ShardId shard) override {
    return &local_persisted_[shard];
  }

 private:
  void SetState(StreamState state, Refusal refusal, const std::string& text);

  EngineContext* const context_;
  std::atomic<Seq>* const local_persisted_;
  bool discard_;
  FollowerLink* link_ = nullptr;  // the engine's; null while there is none
  std::vector<std::shared_ptr<RingReader>> rings_;
  FollowStatus status_;
  Refusal refused_ = Refusal::kNone;  // by the link that is closing
  std::string refused_text_;
  int64_t next_connect_us_ = 0;
  int64_t back_off_us_;
};

}  // namespace kvstored::replication
