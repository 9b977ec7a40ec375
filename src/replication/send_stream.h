// SendStream: one shard's records on their way to one replica: what comes next (from the backlog,
// from the log, or in a full sync from memory), and where in the replica's ring it goes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "replication/backlog.h"
#include "replication/frame.h"
#include "replication/link.h"
#include "replication/ring.h"

namespace kvstored::replication {

// Up to this many batches travel in one write.
inline constexpr size_t kGatherMax = 8;

// A write that could be posted now.
struct Piece {
  FrameKind kind = FrameKind::kUpdate;
  uint8_t flags = 0;
  Seq first_seq = 0;
  Seq last_seq = 0;
  uint64_t clock_us = 0;
  uint64_t extra = 0;
  uint32_t record_bytes = 0;
  RingPlace place;
  size_t count = 0;
  std::array<record::BatchRef, kGatherMax> batches;  // the sources, kept until posted
  std::array<iovec, kGatherMax> pieces;
};

// Replication thread. Invariants:
// 1. Posted seqs are contiguous: each piece begins at next_seq().
// 2. In a full sync no live record above the newest slice's position is sent while the scan goes
//    on, so that items lie exactly between the live records that they were read between.
// 3. At most one read of the log and one slice are outstanding, at most two slices are held.
class SendStream {
 public:
  enum class Choice : uint8_t {
    kPiece,     // *piece is filled
    kIdle,      // nothing to send now
    kRingFull,  // records wait for ring space
    kTooLarge,  // a record that the ring can never take
    kFailed,    // error(): the stream cannot go on
  };

  SendStream(EngineContext* context, const Backlog* backlog, ShardId shard, uint16_t lane);

  // Begins after `common` (catch-up), or with a full sync.
  void BeginAfter(Seq common);
  void BeginFullSync(size_t slice_bytes);
  void SetRing(RingKey key, uint64_t ring_bytes);

  Choice Next(Piece* piece);
  // The piece was posted.
  void Posted(const Piece& piece, int64_t now_us);
  // A header without records: room for it?
  std::optional<RingPlace> PlaceHeader() const {
    return ring_.Place(kFrameHeaderBytes);
  }
  void PostedHeader(const RingPlace& place, int64_t now_us);

  // What the replica reported. False: it claims what it cannot have.
  bool OnWatermark(const WatermarkEntry& entry, int64_t now_us, ReplicationCounters* counters);

  // P14: everything that was posted has been consumed.
  bool drained() const {
    return ring_.posted() == ring_.freed();
  }
  ShardId shard() const {
    return shard_;
  }
  // Sends from the backlog and has nothing left to send.
  bool caught_up() const {
    return !syncing_ && !reading_ && next_seq_ == backlog_->end(shard_) + 1;
  }
  // Whatever is left to send is in memory.
  bool from_memory() const {
    return !syncing_ && !reading_ &&
           (next_seq_ > backlog_->end(shard_) || live_ != nullptr ||
            backlog_->Find(shard_, next_seq_) != nullptr);
  }
  bool syncing() const {
    return syncing_;
  }
  Seq next_seq() const {
    return next_seq_;
  }
  Seq received() const {
    return received_;
  }
  Seq persisted() const {
    return persisted_;
  }
  // The replica's watermarks have moved since this stream began.
  bool acknowledged() const {
    return acknowledged_;
  }
  RingKey ring_key() const {
    return ring_key_;
  }
  uint64_t ring_position() const {
    return ring_.posted();
  }
  uint64_t outstanding_bytes() const {
    return ring_.posted() - ring_.freed();
  }
  uint64_t item_bytes() const {
    return item_bytes_;
  }
  const absl::Status& error() const {
    return error_;
  }

  // Owned by the link's pump.
  uint16_t lane = 0;
  uint16_t target_lane = 0;
  uint32_t generation = 1;
  Seq committed_told = 0;
  int64_t commit_due_us = 0;    // 0: nothing to tell
  int64_t behind_since_us = 0;  // 0: has acknowledged everything

 private:
  bool FindLive();
  void ReadFromLog();
  void RequestSlice();
  // Fills the piece with records of `batch` from `offset` on, none above `bound`; gathers following
  // batches if they are live. Returns kRingFull or kPiece.
  Choice Take(const record::BatchRef& batch, size_t offset, Seq bound, Piece* piece);
  void Gather(Seq bound, Piece* piece);

  EngineContext* const context_;
  const Backlog* const backlog_;
  const ShardId shard_;
  Alive alive_;
  RingWriter ring_;
  RingKey ring_key_;
  struct Outstanding {
    uint64_t position_end;
    int64_t posted_us;
  };
  std::deque<Outstanding> outstanding_;

  Seq next_seq_ = 0;
  record::BatchRef live_;  // holds next_seq_ at live_offset_; null: to be found
  size_t live_offset_ = 0;
  bool reading_ = false;

  bool syncing_ = false;
  size_t slice_bytes_ = 0;
  uint64_t cursor_ = 0;
  bool slice_requested_ = false;
  bool last_requested_ = false;  // the scan has given its last slice
  std::deque<Slice> slices_;     // read ahead, in the scan's order
  size_t slice_offset_ = 0;
  uint64_t item_bytes_ = 0;

  Seq received_ = 0;
  Seq persisted_ = 0;
  bool acknowledged_ = false;
  absl::Status error_;
  int64_t read_again_us_ = 0;  // the log did not have it yet
};

}  // namespace kvstored::replication
