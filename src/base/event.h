// An event that one thread waits for and any thread sets.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace kvstored::base {

// Auto-reset. Set() costs one atomic operation while nobody waits. The waiter of an endless Wait
// may destroy the event as soon as it returns: the setter has let go of it by then.
class Event {
 public:
  void Set() {
    uint32_t seen = state_.load(std::memory_order_relaxed);
    while (seen != kWaiting) {
      // release: what was written before Set is seen after the Wait that takes it. Also when it is
      // set already: the exchange orders this caller's writes too.
      if (state_.compare_exchange_weak(seen, kSet, std::memory_order_acq_rel)) {
        return;
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    state_.store(kSet, std::memory_order_release);
    changed_.notify_one();
  }

  // Waits until set, at most timeout_us (< 0: for ever), and resets it. False: timed out.
  bool Wait(int64_t timeout_us) {
    std::unique_lock<std::mutex> lock(mutex_);
    uint32_t seen = kIdle;
    if (state_.compare_exchange_strong(seen, kWaiting, std::memory_order_acq_rel)) {
      const auto is_set = [this] {
        return state_.load(std::memory_order_acquire) == kSet;
      };
      if (timeout_us < 0) {
        changed_.wait(lock, is_set);
      } else {
        changed_.wait_for(lock, std::chrono::microseconds(timeout_us), is_set);
      }
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
