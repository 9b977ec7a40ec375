// Bounded single-producer single-consumer ring. One thread pushes, one thread pops, no lock.
// (Lamport's queue with cached counters, as in "FastForward for Efficient Pipeline Parallelism".)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/check.h"

namespace kvstored::base {

template <typename T>
class SpscRing {
 public:
  // `capacity` must be a power of two.
  explicit SpscRing(uint32_t capacity) : mask_(capacity - 1), slots_(new T[capacity]) {
    KVS_CHECK(capacity != 0 && (capacity & mask_) == 0, "capacity=%u", capacity);
  }

  // Producer. False: full, nothing was pushed.
  bool TryPush(T value) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);  // partner: the release in TryPop
      if (tail - head_seen_ > mask_) {
        return false;
      }
    }
    slots_[tail & mask_] = std::move(value);
    tail_.store(tail + 1, std::memory_order_release);  // partner: the acquire in TryPop
    return true;
  }

  // Consumer. False: empty.
  bool TryPop(T* value) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);  // partner: the release in TryPush
      if (head == tail_seen_) {
        return false;
      }
    }
    *value = std::move(slots_[head & mask_]);
    head_.store(head + 1, std::memory_order_release);  // partner: the acquire in TryPush
    return true;
  }

  // Consumer's view; another thread's push may be about to appear.
  bool empty() const {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }

 private:
  const uint64_t mask_;
  const std::unique_ptr<T[]> slots_;
  alignas(64) std::atomic<uint64_t> tail_{0};
  uint64_t head_seen_ = 0;  // producer's cache of head_
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t tail_seen_ = 0;  // consumer's cache of tail_
};

}  // namespace kvstored::base
