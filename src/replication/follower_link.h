// FollowerLink: a replica's link to its primary, from hello to watermarks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "replication/outgoing_link.h"
#include "replication/receive_stream.h"
#include "replication/ring.h"

namespace kvstored::replication {

class FollowerLink;

// What the link needs of the follower behind it.
class FollowerOwner {
 public:
  virtual ~FollowerOwner() = default;
  virtual void OnFollowState(StreamState state) = 0;
  virtual void OnJoinPlan(const JoinPlan& plan) = 0;
  virtual void OnHeartbeat(uint64_t primary_clock_us) = 0;
  virtual void OnFollowRefused(Refusal refusal, const std::string& text) = 0;
  virtual void OnFollowClosed(FollowerLink* link, const absl::Status& why) = 0;
  // The ring memory of a shard; kept over links.
  virtual std::shared_ptr<RingReader> Ring(ShardId shard) = 0;
  virtual std::atomic<Seq>* LocalPersisted(ShardId shard) = 0;
};

// Replication thread. Invariant: one watermark write at most is under way on a lane, and the last
// credit is kept for the heartbeat (P13).
class FollowerLink : public OutgoingLink {
 public:
  FollowerLink(EngineContext* context, FollowerOwner* owner, bool discard);

  // Offers blocked batches again and sends what the primary should know.
  bool Pump(int64_t now_us);
  // The sink has published the full sync, or gives it up.
  void FinishFullSync(const absl::Status& status);
  // The role ends: no upcall to the sink or the follower any more.
  void Detach() {
    owner_ = nullptr;
  }

  void OnLanesOpen(LaneId lane_count) override;
  void OnWrite(LaneId lane, uint32_t immediate) override;
  void OnPosted(LaneId lane, uint64_t wr_id) override;
  void OnClosed(const absl::Status& why) override;
  int64_t timer_us() const override;
  void OnTimer(int64_t now_us) override;

 protected:
  void OnAdmitted() override;
  void OnAdmittedMessage(Message& message) override;
  void OnRefused(Refusal refusal, const std::string& text) override;

 private:
  struct Lane {
    uint32_t consumed = 0;  // frames, of the receives we posted
    uint32_t consumed_told = 0;
    uint32_t sent = 0;           // watermarks
    uint32_t sent_consumed = 0;  // of them, as the primary reported
    bool under_way = false;
    uint64_t wr_id = 0;
    bool heartbeat_due = false;
    std::vector<uint8_t> bytes;  // the watermark under way: the fabric's until OnPosted
  };

  void OnAdmission(const Admission& admission);
  std::string CheckAdmission(const Admission& admission, const JoinPlan& own) const;
  void OnPrepared(const absl::Status& status);
  void OnStart(const Start& start);
  void OnMembersChange(const MembersChange& change);
  void OnPromotableChange(const PromotableChange& change);
  void OnHeartbeatFrame(LaneId lane);
  void TakeCredit(LaneId lane, uint32_t consumed);
  bool IsDue(ReceiveStream* stream, int64_t now_us);
  bool SendWatermark(LaneId lane, int64_t now_us);
  void TellCondition();

  FollowerOwner* owner_;
  const bool discard_;
  NodeFacts facts_;
  JoinPlan plan_;
  AckLevel ack_ = AckLevel::kNone;
  uint16_t lane_count_ = 0;
  bool admitted_ = false;
  bool prepared_ = false;
  bool started_ = false;
  bool syncing_ = false;
  bool told_disk_full_ = false;
  std::vector<Lane> lanes_;
  std::vector<std::shared_ptr<RingReader>> rings_;  // the fabric's until this link is closed
  std::vector<std::unique_ptr<ReceiveStream>> streams_;
  std::unique_ptr<PageBuffer> heartbeat_memory_;
  RingKey watermark_ring_;
  uint32_t watermark_credits_ = 0;
  uint32_t slot_bytes_ = 0;
  Watermark watermark_;  // reused
  uint64_t echo_us_ = 0;
  int64_t next_heartbeat_us_ = 0;
  int64_t next_retry_us_ = 0;
};

}  // namespace kvstored::replication
