// Space for the log: what is promised to producers, and the spare segments that back the promise.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kvstored/nvm_device.h"
#include "kvstored/op_result.h"

namespace kvstored::log {

// A frame of one record of 72 bytes takes 192, and a mark of `committed` behind it 64: 3.56 times.
inline constexpr uint64_t kFrameCostFactor = 4;

// A pre-written file that waits for its number.
struct SpareSegment {
  std::string name;
  std::shared_ptr<NvmFile> file;
};

// Thread-safe. Invariant: promised <= usable, where usable is what the rest of the current segment
// and the spares hold even if every record travels in a frame of its own (kFrameCostFactor) and
// every segment end wastes the largest record, so that a granted reservation never meets a full
// disk.
class Space {
 public:
  // kOk: promised. kWait: not yet, the demand is noted and segments for it are being made.
  // kDiskFull: more than the device had room for when it was asked last.
  OpResult Reserve(uint64_t bytes);
  // What Reserve would answer; promises and notes nothing.
  OpResult Judge(uint64_t bytes) const {
    return JudgePromise(promised_.load(std::memory_order_relaxed) + bytes);
  }
  void Return(uint64_t bytes);
  // The writer wrote reserved records.
  void Spend(uint64_t bytes) {
    Return(bytes);
  }
  // The rest of the current segment, and what a spare can hold.
  void SetUsable(uint64_t rest_bytes, uint64_t spare_bytes);
  uint64_t ReservableBytes() const;
  // What is there, promised or not: for records that are submitted without a reservation.
  uint64_t free_bytes() const {
    return free_.load(std::memory_order_relaxed);
  }

  void AddSpare(SpareSegment spare);
  // False: none.
  [[nodiscard]] bool TakeSpare(SpareSegment* spare);
  // Should another spare be made? Fewer than `target`, or a reservation failed that more would
  // grant.
  bool WantsSpare(uint32_t target) const;
  // Spares that must be made for the largest reservation that failed.
  uint64_t DemandedSpares() const;
  // The device has no room for another spare, or not for all that are demanded: what waits for more
  // than there is gets kDiskFull, and is forgotten, until a spare is added.
  void NoteDeviceFull();
  // That was a while ago: the next reservation finds out anew.
  void ForgetDeviceFull() {
    ceiling_.store(UINT64_MAX, std::memory_order_relaxed);
  }
  uint32_t spare_count() const {
    return spare_count_.load(std::memory_order_acquire);
  }
  // Segments that left the chain and wait to be recycled.
  void AddRetired(SpareSegment segment);
  [[nodiscard]] bool TakeRetired(SpareSegment* segment);
  size_t retired_count() const;

 private:
  OpResult JudgePromise(uint64_t promised) const;
  void Recompute();
  uint64_t SpareBytesForRecords() const;

  mutable std::mutex mutex_;
  std::deque<SpareSegment> spares_;
  std::deque<SpareSegment> retired_;
  uint64_t rest_bytes_ = 0;
  uint64_t spare_bytes_ = 0;
  std::atomic<uint32_t> spare_count_{0};
  std::atomic<uint64_t> usable_{0};
  std::atomic<uint64_t> free_{0};
  std::atomic<uint64_t> promised_{0};
  std::atomic<uint64_t> demand_{0};  // largest promise that was refused since usable last grew
  std::atomic<uint64_t> ceiling_{UINT64_MAX};  // promises above it are refused, not waited for
};

}  // namespace kvstored::log
