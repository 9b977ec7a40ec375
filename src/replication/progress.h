// ProgressTable: how far each replica is, written by the replication thread, read by shard threads
// each tick to compute `safe` (P6), by WAIT, INFO and metrics. Lock-free.
//
// Invariants: 1. a row's watermarks never go back while one link lasts; a missing replica's are 0
// (P5).
// 2. A row is given to another store only when it is neither connected nor a member. 3. A watermark
// of a replica in full sync is 0 (P21).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>

#include "kvstored/limits.h"
#include "kvstored/types.h"

namespace kvstored::replication {

class ProgressTable {
 public:
  static constexpr uint32_t kRows = kReplicaCountMax;
  static constexpr Seq kUnbounded = std::numeric_limits<Seq>::max();

  explicit ProgressTable(uint32_t shard_count) {
    PublishNoRole();
    for (Row& row : rows_) {
      row.marks = std::make_unique<Marks[]>(shard_count);
    }
  }

  // The lowest of the members' watermarks that the acknowledgement level asks for: kUnbounded under
  // kNone or with no members required, 0 while the set is incomplete or no epoch of this node is
  // open. Any thread.
  Seq MemberFloor(ShardId shard) const {
    while (true) {
      const uint64_t set = set_.load(std::memory_order_acquire);  // partner: PublishSet
      const Seq floor = FloorOf(shard, set);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (set_.load(std::memory_order_relaxed) == set) {
        return floor;  // no row changed hands in between
      }
    }
  }

  // Whether a replica is connected and has reached the seq. Any thread.
  bool Reached(uint32_t row, ShardId shard, Seq seq, bool persisted) const {
    const Marks& marks = rows_[row].marks[shard];
    return rows_[row].connected.load(std::memory_order_acquire) &&
           (persisted ? marks.persisted : marks.received).load(std::memory_order_acquire) >= seq;
  }
  bool IsConnected(uint32_t row) const {
    return rows_[row].connected.load(std::memory_order_acquire);
  }
  Seq received(uint32_t row, ShardId shard) const {
    return rows_[row].marks[shard].received.load(std::memory_order_acquire);
  }
  Seq persisted(uint32_t row, ShardId shard) const {
    return rows_[row].marks[shard].persisted.load(std::memory_order_acquire);
  }

  // Since when (Clock::MonotonicUs) the set has been incomplete or a member has left something
  // unacknowledged; 0 = all is well. The gate's commit_timeout counts from here (P8). Any thread.
  int64_t silent_since_us() const {
    return silent_since_us_.load(std::memory_order_relaxed);
  }

  // --- Replication thread only. ---

  void SetConnected(uint32_t row, bool connected) {
    rows_[row].connected.store(connected, std::memory_order_release);
  }
  // Monotone; the release pairs with the acquire of the readers.
  bool Advance(uint32_t row, ShardId shard, Seq received_seq, Seq persisted_seq) {
    Marks& marks = rows_[row].marks[shard];
    bool moved = false;
    if (received_seq > marks.received.load(std::memory_order_relaxed)) {
      marks.received.store(received_seq, std::memory_order_release);
      moved = true;
    }
    if (persisted_seq > marks.persisted.load(std::memory_order_relaxed)) {
      marks.persisted.store(persisted_seq, std::memory_order_release);
      moved = true;
    }
    return moved;
  }
  void ResetRow(uint32_t row, uint32_t shard_count) {
    for (uint32_t shard = 0; shard < shard_count; ++shard) {
      rows_[row].marks[shard].received.store(0, std::memory_order_release);
      rows_[row].marks[shard].persisted.store(0, std::memory_order_release);
    }
  }
  // No role: nothing more is committed here, whatever the log confirms.
  void PublishNoRole() {
    PublishSet(AckLevel::kReceived, 1, 0);
  }
  // `row_mask`: the rows of the members; the set is complete with `required` of them.
  void PublishSet(AckLevel ack, uint32_t required, uint16_t row_mask) {
    ++version_;
    set_.store((uint64_t{version_} << 32) | (uint64_t{static_cast<uint8_t>(ack)} << 24) |
                   (uint64_t{required & 0xff} << 16) | row_mask,
               std::memory_order_release);
  }
  void SetSilentSince(int64_t monotonic_us) {
    silent_since_us_.store(monotonic_us, std::memory_order_relaxed);
  }

 private:
  struct Marks {
    std::atomic<Seq> received{0};
    std::atomic<Seq> persisted{0};
  };
  struct Row {
    std::atomic<bool> connected{false};
    std::unique_ptr<Marks[]> marks;
  };

  Seq FloorOf(ShardId shard, uint64_t set) const {
    const auto ack = static_cast<AckLevel>((set >> 24) & 0xff);
    const auto required = static_cast<uint32_t>((set >> 16) & 0xff);
    auto mask = static_cast<uint16_t>(set);
    if (ack == AckLevel::kNone || required == 0) {
      return kUnbounded;
    }
    if (static_cast<uint32_t>(std::popcount(mask)) < required) {
      return 0;
    }
    Seq floor = kUnbounded;
    for (; mask != 0; mask = static_cast<uint16_t>(mask & (mask - 1))) {
      const auto row = static_cast<uint32_t>(std::countr_zero(mask));
      const Seq mark = ack == AckLevel::kPersisted ? persisted(row, shard) : received(row, shard);
      floor = mark < floor ? mark : floor;
    }
    return floor;
  }

  std::array<Row, kRows> rows_;
  uint32_t version_ = 0;
  std::atomic<uint64_t> set_{0};
  std::atomic<int64_t> silent_since_us_{0};
};

}  // namespace kvstored::replication
