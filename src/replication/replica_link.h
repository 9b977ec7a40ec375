// ReplicaLink: one admitted replica as its primary serves it: lanes with their credits, one stream
// a shard, heartbeats, watermarks that come back.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "replication/link.h"
#include "replication/ring.h"
#include "replication/send_stream.h"

namespace kvstored::replication {

class ReplicaLink;

// What a link needs of its primary.
class ReplicaOwner {
 public:
  virtual ~ReplicaOwner() = default;
  virtual Seq committed(ShardId shard) const = 0;
  virtual uint64_t clock_us() const = 0;
  virtual uint16_t lanes() const = 0;
  // One full sync at a time: it is the expensive thing that flapping replicas could multiply.
  virtual bool MayFullSync(const ReplicaLink* link) const = 0;

  virtual void OnMembersPersisted(ReplicaLink* link, const MembersPersisted& message) = 0;
  virtual void OnPromotablePersisted(ReplicaLink* link, const PromotablePersisted& message) = 0;
  virtual void OnReplicaClosed(ReplicaLink* link, const absl::Status& why) = 0;
};

// Receives that a primary posts on each lane for watermarks.
inline constexpr uint32_t kWatermarkCredits = 16;

// Replication thread. Invariants: 1. on each lane posted - consumed <= credits, and the last credit
// is kept for a heartbeat (P13). 2. A batch is referenced until the completion of the write that
// reads it, or until the link is closed. 3. Nothing counts before the replica has reported it, and
// nothing at all while it is in full sync (P21).
class ReplicaLink : public Link {
 public:
  ReplicaLink(EngineContext* context, ReplicaOwner* owner, const Backlog* backlog,
              const Hello& hello, std::string host, uint32_t row);

  // Compares last records where that can be done, then admits the replica by the plan.
  void Begin(JoinPlan plan);
  // Posts what can be posted. Returns whether anything was.
  bool Pump(int64_t now_us);
  // The primary is going away: no upcalls to it any more.
  void Detach() {
    EndSlices();
    owner_ = nullptr;
  }

  void OnMessage(Message& message) override;
  void OnLanesOpen(LaneId lane_count) override;
  void OnWrite(LaneId lane, uint32_t immediate) override;
  void OnPosted(LaneId lane, uint64_t wr_id) override;
  void OnClosed(const absl::Status& why) override;
  int64_t timer_us() const override;
  void OnTimer(int64_t now_us) override;

  const NodeFacts& facts() const {
    return facts_;
  }
  const Id128& store_id() const {
    return facts_.store_id;
  }
  const std::string& address() const {
    return address_;
  }
  uint32_t row() const {
    return row_;
  }
  StreamState state() const {
    return state_;
  }
  // It has its admission: from then on it takes messages about members.
  bool admitted() const {
    return admitted_;
  }
  bool promotable() const {
    return promotable_;
  }
  void set_promotable(bool promotable) {
    promotable_ = promotable;
  }
  const std::vector<std::unique_ptr<SendStream>>& streams() const {
    return streams_;
  }
  // Every shard's watermark has reached `committed`.
  bool HoldsCommitted(bool persisted) const;
  // Since when something has been left unacknowledged; 0 = nothing is. `before_us`: since when
  // something was before this link; it counts for what has acknowledged nothing over this one.
  int64_t BehindSinceUs(bool persisted, int64_t before_us, int64_t now_us);
  ReplicaStatus Status(int64_t now_us) const;
  // In full sync, or about to be.
  bool syncing() const {
    return admitted_ && mode_ == JoinMode::kFullSync && !sync_done_;
  }

 private:
  struct InFlight {
    uint64_t wr_id = 0;
    size_t count = 0;
    std::array<record::BatchRef, kGatherMax> batches;
  };
  struct Lane {
    uint32_t posted = 0;    // writes ever, modulo 2^32
    uint32_t consumed = 0;  // of them, as the replica reported
    uint64_t next_wr_id = 1;
    std::deque<InFlight> in_flight;  // not completed yet
    bool queue_full = false;         // the fabric said kWait
    uint32_t watermarks = 0;         // consumed by us
    uint32_t watermarks_told = 0;
    uint32_t heartbeat_number = 0;  // `posted` after the newest heartbeat
    bool heartbeat_sent = false;
  };

  void EndSlices();
  void CheckLastRecords();
  void CheckLastRecord(ShardId shard);
  void SendAdmission();
  void OnReady(const Ready& ready);
  void StartIfReady();
  bool PumpStream(SendStream* stream, int64_t now_us);
  bool MoveLane(SendStream* stream);
  bool PostPiece(SendStream* stream, const Piece& piece, int64_t now_us);
  bool PostCommitted(SendStream* stream, int64_t now_us);
  void PostHeartbeat(LaneId lane);
  bool ReturnCredits();
  bool CanPost(const Lane& lane, uint32_t kept) const;
  FrameHeader HeaderFor(const SendStream& stream, Lane* lane) const;
  OpResult Post(LaneId lane_id, RingKey ring, const RingPlace& place, const FrameHeader& header,
                InFlight in_flight, const Piece* piece);
  void TakeWatermark(const Watermark& watermark, int64_t now_us);
  void UpdateState();
  void SetState(StreamState state);

  ReplicaOwner* owner_;
  const Backlog* const backlog_;
  const NodeFacts facts_;
  const std::string host_;
  const std::string address_;
  const uint32_t row_;
  const uint16_t lane_count_;
  JoinPlan plan_;
  JoinMode mode_ = JoinMode::kRefused;
  uint32_t checks_pending_ = 0;
  bool admitted_ = false;
  bool lanes_open_ = false;
  bool ready_ = false;
  bool running_ = false;
  bool sync_done_ = false;
  bool slices_ended_ = false;
  bool promotable_;
  bool disk_full_ = false;
  StreamState state_ = StreamState::kConnecting;
  uint32_t credits_ = 0;
  RingKey heartbeat_ring_;
  std::vector<Lane> lanes_;
  std::vector<uint8_t> headers_;  // per lane credits_ + 1 slots of kFrameHeaderBytes, by wr_id
  std::vector<std::unique_ptr<SendStream>> streams_;
  std::unique_ptr<PageBuffer> watermark_memory_;
  RingKey watermark_ring_;
  uint32_t slot_bytes_ = 0;
  Watermark watermark_;  // reused
  size_t pump_first_ = 0;
  int64_t next_heartbeat_us_ = 0;
  int64_t rtt_us_ = 0;
};

}  // namespace kvstored::replication
