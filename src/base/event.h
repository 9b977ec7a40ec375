// An event that one thread waits for and any thread sets.
#pragma once

#include <atomic>
#include <cstdint>

namespace kvstored::base {

// Auto-reset. Set() costs one atomic operation while nobody waits, and one call of the kernel when
// somebody does: no mutex, which a waiter that runs at once would meet locked. The waiter of an
// endless Wait may destroy the event as soon as it returns: the setter touches nothing of it any
// more (the kernel is told an address; if another owner sleeps there by then, it looks again).
class Event {
 public:
  void Set() {
    // release: what was written before Set is seen after the Wait that takes it. Also when it is
    // set already: the exchange orders this caller's writes too.
    if (state_.exchange(kSet, std::memory_order_acq_rel) == kWaiting) {
      WakeWaiter();
    }
  }

  // Waits until set, at most timeout_us (< 0: for ever), and resets it. False: timed out.
  bool Wait(int64_t timeout_us) {
    uint32_t seen = kIdle;
    if (state_.compare_exchange_strong(seen, kWaiting, std::memory_order_acq_rel)) {
      Sleep(timeout_us);
    }
    return state_.exchange(kIdle, std::memory_order_acq_rel) == kSet;
  }

 private:
  static constexpr uint32_t kIdle = 0;
  static constexpr uint32_t kWaiting = 1;
  static constexpr uint32_t kSet = 2;

  void WakeWaiter();
  void Sleep(int64_t timeout_us);

  std::atomic<uint32_t> state_{kIdle};
};

}  // namespace kvstored::base
