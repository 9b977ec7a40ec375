// Follower: what this node does with what its primary sends (docs/protocol.md "Replicas"): own log,
// own checkpoint in a full sync, shards. Everything on the replication thread, but for what says
// otherwise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "log/checkpoint.h"
#include "replication/apply_sink.h"
#include "server/node_core.h"

namespace kvstored::server {

class Follower : public replication::ApplySink {
 public:
  explicit Follower(NodeCore* core) : core_(core) {
  }

  void PrepareJoin(const replication::JoinPlan& plan,
                   std::function<void(absl::Status)> done) override;
  OpResult OnBatch(record::BatchRef batch) override;
  OpResult OnSnapshotBatch(record::BatchRef batch) override;
  void OnSnapshotEnd(ShardId shard, Seq end_seq, uint64_t state_hash) override;
  void OnFullSyncAborted(const absl::Status& why) override;
  void OnCommitted(ShardId shard, Seq committed, uint64_t primary_clock_us) override;
  void OnPrimaryClock(uint64_t primary_clock_us) override;
  void OnStreamState(replication::StreamState state, replication::Refusal refusal,
                     std::string_view text) override;

  // Bytes handed to shards and not applied yet are bounded: the primary is held back above this.
  static constexpr int64_t kApplyBytesMax = int64_t{32} << 20;

 private:
  // A full sync on its way (P21). The new log and `checkpoint` exist once every shard has shown
  // where its stream begins; until then everything offered is refused with kWait and offered again.
  struct Sync {
    replication::NodeFacts primary;
    std::vector<Seq> start_seqs;  // kUnknown until the shard's first arrival
    uint32_t known = 0;
    std::string directory;
    std::unique_ptr<log::CheckpointWriter> checkpoint;
    std::vector<Seq> end_seqs;  // kUnknown until OnSnapshotEnd
    std::vector<uint64_t> state_hashes;
    std::vector<Seq> told;  // committed as told
    std::vector<bool> verified;
    int64_t publish_at_us = 0;  // even if not all of it is committed; 0: not verified yet
    bool finishing = false;
  };
  static constexpr Seq kUnknown = ~Seq{0};

  void JoinByCatchUp(const replication::JoinPlan& plan, std::function<void(absl::Status)> done);
  bool ApplyQueueFull() const;

  // --- A full sync (follower_full_sync.cc). ---

  void BeginFullSync(const replication::JoinPlan& plan, std::function<void(absl::Status)> done);
  // kOk once the directory, its log and its checkpoint writer exist.
  OpResult LearnStart(ShardId shard, Seq start_seq);
  absl::Status OpenSyncDirectory();
  void CompareAtEnd(ShardId shard);
  void FinishIfComplete();
  Progress PublishSync();
  void FailSync(const absl::Status& why);

  NodeCore* const core_;
  std::unique_ptr<Sync> sync_;
  // Alive as long as this life of the sync: late completions of an earlier one find it expired.
  std::shared_ptr<int> sync_token_;
  std::shared_ptr<std::atomic<int64_t>> apply_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace kvstored::server
