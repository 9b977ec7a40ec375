// The engine behind Replication: owns the links, gives the fabric's upcalls to their owners, runs
// the loop. Internal.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "replication/accepted_link.h"
#include "replication/follower.h"
#include "replication/inbox.h"
#include "replication/primary.h"
#include "replication/replication.h"

namespace kvstored::replication {

// Replication thread, but for what says thread-safe.
class Replication::Engine : public FabricHandler, public LinkHost {
 public:
  Engine(ReplicationOptions options, Fabric* fabric, Clock* clock, NodeState* state,
         ApplySink* sink, RecordSource* source, std::function<void(ShardId)> progress_moved);
  ~Engine() override;

  absl::StatusOr<std::string> Start();
  bool Step(int64_t timeout_us);
  int64_t NextTimerUs() const;

  // Thread-safe.
  void Post(std::function<void()> work);
  void SubmitBatch(record::BatchRef batch);
  void SetLocalPersisted(ShardId shard, Seq seq);
  void SetCommitted(ShardId shard, Seq seq);
  void SetRecordClock(uint64_t clock_us);
  const ProgressTable& progress() const {
    return progress_;
  }
  Seq NeededFrom(ShardId shard) const {
    return needed_from_[shard].load(std::memory_order_acquire);  // partner: Step
  }
  Fabric* fabric() {
    return context_.fabric;
  }

  void BecomePrimary(const MemberSet& members);
  void FollowPrimary(const std::string& address, bool discard_local_data);
  void FenceAndStop(const std::string& why);
  Primary* primary() {
    return primary_.get();
  }
  Follower* follower() {
    return follower_.get();
  }
  EngineContext* context() {
    return &context_;
  }
  const ReplicationCounters& counters() const {
    return counters_;
  }

  // LinkHost
  void Replace(LinkId link, std::unique_ptr<Link> successor) override;
  Link* Connect(const std::string& address, std::unique_ptr<Link> owner) override;
  void Admit(Link* link, const Hello& hello, const std::string& peer_host) override;

  // FabricHandler
  void OnAccepted(LinkId link, std::string_view peer, bool loopback) override;
  void OnConnected(LinkId link) override;
  void OnMessage(LinkId link, std::span<const uint8_t> message) override;
  void OnLanesOpen(LinkId link, LaneId lane_count) override;
  void OnWrite(LinkId link, LaneId lane, uint32_t immediate) override;
  void OnPosted(LinkId link, LaneId lane, uint64_t wr_id) override;
  void OnClosed(LinkId link, const absl::Status& why) override;

 private:
  // Work posted by other threads; outlives the engine, which callbacks may do as well.
  struct Mail {
    Inbox<std::function<void()>> work;
    std::mutex mutex;
    Fabric* fabric = nullptr;  // guarded by mutex; null once the engine is gone
    void Post(std::function<void()> item);
  };

  Link* Find(LinkId link);
  NodeFacts Facts();
  bool DrainMail();
  bool Pump(int64_t now_us);
  void RunTimers(int64_t now_us);
  void PublishNeeded();

  const std::shared_ptr<Mail> mail_;
  base::Random random_;
  ProgressTable progress_;
  ReplicationCounters counters_;
  EngineContext context_;
  Inbox<record::BatchRef> batches_;
  const std::unique_ptr<std::atomic<Seq>[]> local_persisted_;
  const std::unique_ptr<std::atomic<Seq>[]> committed_;
  const std::unique_ptr<std::atomic<Seq>[]> needed_from_;
  std::atomic<uint64_t> record_clock_us_{0};
  // Written by each Step, so a Step old: is a batch, is a local watermark worth a wake-up?
  std::atomic<bool> sends_{false};
  std::atomic<bool> reports_{false};
  base::LogLimiter bad_message_log_{1'000'000};

  std::unordered_map<LinkId, std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Link>>
      graveyard_;  // until the end of the Step: they may be on the stack
  int64_t next_needed_us_ = 0;
  std::unique_ptr<Primary> primary_;
  std::unique_ptr<Follower> follower_;
};

}  // namespace kvstored::replication
