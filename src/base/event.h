// An event that one thread waits for and any thread sets.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace kvstored::base {

// Auto-reset. Set() costs one atomic exchange while nobody waits or the event is set already.
class Event {
 public:
  void Set() {
    // acq_rel: what was written before Set is seen after the Wait that takes it (partner: Wait).
    if (state_.exchange(kSet, std::memory_order_acq_rel) == kWaiting) {
      const std::lock_guard<std::mutex> lock(mutex_);
      changed_.notify_one();
    }
  }

  // Waits until set, at most timeout_us (< 0: for ever), and resets it. False: timed out.
  bool Wait(int64_t timeout_us) {
    uint32_t seen = kIdle;
    if (!state_.compare_exchange_strong(seen, kWaiting, std::memory_order_acq_rel)) {
      state_.store(kIdle, std::memory_order_release);
      return true;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_set = [this] {
      return state_.load(std::memory_order_acquire) == kSet;
    };
    if (timeout_us < 0) {
      changed_.wait(lock, is_set);
    } else {
      changed_.wait_for(lock, std::chrono::microseconds(timeout_us), is_set);
    }
    return state_.exchange(kIdle, std::memory_order_acq_rel) == kSet;
  }

 private:
  static constexpr uint32_t kIdle = 0;
  static constexpr uint32_t kWaiting = 1;
  static constexpr uint32_t kSet = 2;
  std::atomic<uint32_t> state_{kIdle};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace kvstored::base
