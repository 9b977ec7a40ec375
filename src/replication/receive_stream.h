// ReceiveStream: one shard's records as a replica takes them out of its ring: verified, in order,
// handed on, ring space given back.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "replication/frame.h"
#include "replication/link.h"
#include "replication/ring.h"

namespace kvstored::replication {

// Replication thread. Invariants: 1. what is handed on is contiguous in seq and verified record by
// record. 2. Ring space is given back only behind what the sink took (P13). 3. The committed
// watermark handed on is never above what was received.
class ReceiveStream {
 public:
  ReceiveStream(EngineContext* context, ShardId shard, RingReader* ring, const JoinPlan* plan,
                std::atomic<Seq>* local_persisted);

  // A completion announced bytes. An error: what lies there is wrong; nothing of it was used.
  // `credit` is set if the frame was looked at: the watermarks that its sender has consumed on the
  // lane.
  absl::Status OnArrival(const Immediate& immediate, uint16_t lane,
                         std::optional<uint32_t>* credit);
  // Offers again what the sink did not take, then what waited behind it. Returns whether that
  // changed anything. `credit` as in OnArrival, of the last frame looked at: its sender may tell it
  // by no other frame.
  bool Retry(absl::Status* status, std::optional<uint32_t>* credit);
  bool blocked() const {
    return blocked_ != nullptr;
  }
  bool disk_full() const {
    return blocked() && blocked_why_ == OpResult::kDiskFull;
  }
  // The full sync is published: what is persisted counts from now on.
  void EndSync() {
    sync_reported_ = true;
  }

  // What the primary should know now.
  WatermarkEntry Report() const;
  const WatermarkEntry& reported() const {
    return reported_;
  }
  void Reported(const WatermarkEntry& entry) {
    reported_ = entry;
    told_ = true;
    changed_since_us = 0;
  }
  bool changed() const {
    return !told_ || !(Report() == reported_);
  }
  uint16_t lane() const {
    return lane_;
  }

  int64_t changed_since_us = 0;  // owned by the link: 0 = nothing waits to be reported

 private:
  struct Arrived {
    std::span<const uint8_t> bytes;
    uint64_t begin = 0;
    uint64_t end = 0;
    FrameKind kind = FrameKind::kUpdate;
  };
  absl::Status Take(const Arrived& arrived, std::optional<uint32_t>* credit);
  absl::Status CheckHeader(const Arrived& arrived, const FrameHeader& header);
  absl::Status CheckRecords(const FrameHeader& header, std::span<const uint8_t> records) const;
  absl::Status Offer();
  void Finish(const FrameHeader& header, uint64_t end);
  absl::Status Bad(const char* what) const;

  EngineContext* const context_;
  const ShardId shard_;
  RingReader* const ring_;
  const JoinPlan* const plan_;
  std::atomic<Seq>* const local_persisted_;
  uint16_t lane_ = 0;
  uint32_t generation_ = 0;
  Seq received_ = 0;
  bool begun_ = false;  // received_ is a position
  bool sync_reported_ = false;
  Seq committed_ = 0;
  uint64_t freed_ = 0;
  std::deque<Arrived> waiting_;  // behind the blocked one
  record::BatchRef blocked_;     // verified, not taken by the sink
  FrameHeader blocked_header_;
  uint64_t blocked_end_ = 0;
  OpResult blocked_why_ = OpResult::kOk;
  WatermarkEntry reported_;
  bool told_ = false;
};

}  // namespace kvstored::replication
