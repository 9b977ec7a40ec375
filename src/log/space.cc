#include "log/space.h"

#include <algorithm>

#include "kvstored/limits.h"

namespace kvstored::log {

OpResult Space::Reserve(uint64_t bytes) {
  // relaxed: a count only; the segments themselves are handed over under the mutex.
  const uint64_t wanted = promised_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const OpResult judged = JudgePromise(wanted);
  if (judged == OpResult::kOk) {
    return OpResult::kOk;
  }
  promised_.fetch_sub(bytes, std::memory_order_relaxed);
  uint64_t demand = demand_.load(std::memory_order_relaxed);
  while (wanted > demand &&
         !demand_.compare_exchange_weak(demand, wanted, std::memory_order_relaxed)) {
  }
  // Noted all the same: the device is asked once more, for whoever comes next.
  return judged;
}

OpResult Space::JudgePromise(uint64_t promised) const {
  if (promised <= usable_.load(std::memory_order_relaxed)) {
    return OpResult::kOk;
  }
  return promised > ceiling_.load(std::memory_order_relaxed) ? OpResult::kDiskFull
                                                             : OpResult::kWait;
}

bool Space::WantsSpare(uint32_t target) const {
  return spare_count() < target ||
         demand_.load(std::memory_order_relaxed) > usable_.load(std::memory_order_relaxed);
}

uint64_t Space::DemandedSpares() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t demand = demand_.load(std::memory_order_relaxed);
  const uint64_t usable = usable_.load(std::memory_order_relaxed);
  const uint64_t each = SpareBytesForRecords();
  return demand <= usable ? 0 : ((demand - usable) * kFrameCostFactor + each - 1) / each;
}

void Space::NoteDeviceFull() {
  ceiling_.store(usable_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  demand_.store(0, std::memory_order_relaxed);
}

size_t Space::retired_count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return retired_.size();
}

void Space::Return(uint64_t bytes) {
  // Never below zero: an epoch_begin is submitted without a reservation.
  uint64_t seen = promised_.load(std::memory_order_relaxed);
  while (!promised_.compare_exchange_weak(seen, seen > bytes ? seen - bytes : 0,
                                          std::memory_order_relaxed)) {
  }
}

void Space::SetUsable(uint64_t rest_bytes, uint64_t spare_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rest_bytes_ = rest_bytes;
  spare_bytes_ = spare_bytes;
  Recompute();
}

uint64_t Space::ReservableBytes() const {
  const uint64_t usable = usable_.load(std::memory_order_relaxed);
  const uint64_t promised = promised_.load(std::memory_order_relaxed);
  return usable > promised ? usable - promised : 0;
}

void Space::AddSpare(SpareSegment spare) {
  const std::lock_guard<std::mutex> lock(mutex_);
  spares_.push_back(std::move(spare));
  ForgetDeviceFull();
  Recompute();
}

bool Space::TakeSpare(SpareSegment* spare) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (spares_.empty()) {
    return false;
  }
  *spare = std::move(spares_.front());
  spares_.pop_front();
  Recompute();
  return true;
}

void Space::AddRetired(SpareSegment segment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  retired_.push_back(std::move(segment));
}

bool Space::TakeRetired(SpareSegment* segment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (retired_.empty()) {
    return false;
  }
  *segment = std::move(retired_.front());
  retired_.pop_front();
  return true;
}

uint64_t Space::SpareBytesForRecords() const {
  return spare_bytes_ - std::min<uint64_t>(kRecordBytesMax, spare_bytes_ / 2);
}

void Space::Recompute() {
  const uint64_t spares = spares_.size() * SpareBytesForRecords();
  // Half a spare stays for epoch_begin records, which are submitted without a reservation.
  const uint64_t kept = spare_bytes_ / 2;
  const uint64_t all = rest_bytes_ + spares;
  const uint64_t usable = all > kept ? (all - kept) / kFrameCostFactor : 0;
  usable_.store(usable, std::memory_order_relaxed);
  free_.store(all, std::memory_order_relaxed);
  if (demand_.load(std::memory_order_relaxed) <= usable) {
    demand_.store(0, std::memory_order_relaxed);
  }
  spare_count_.store(static_cast<uint32_t>(spares_.size()), std::memory_order_release);
}

}  // namespace kvstored::log
