// The keys that exist: 0 up to a frontier that inserts push forward.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace kvstored::bench {

// Thread-safe. Readers must not ask for a key whose insert is still under way, so the frontier
// passes a key only when it and all before it are answered.
class KeySpace {
 public:
  explicit KeySpace(uint64_t count)
      : next_(count), frontier_(count), answered_(new std::atomic<bool>[kWindow] {}) {
  }
  // Keys below it were inserted.
  uint64_t frontier() const {
    return frontier_.load(std::memory_order_relaxed);
  }
  // So many inserts are under way, behind one that is not answered, that no more can be told apart.
  bool crowded() const {
    return next_.load(std::memory_order_relaxed) - frontier() >= kWindow / 2;
  }
  // The number of the key to insert next.
  uint64_t Take() {
    return next_.fetch_add(1, std::memory_order_relaxed);
  }
  // The insert has ended, well or not. Sequentially consistent throughout: of two threads that
  // answer neighbouring keys at the same time, the one that moves the frontier last sees the
  // other's mark.
  void Answer(uint64_t key) {
    answered_[key % kWindow].store(true);
    uint64_t at = frontier_.load();
    while (answered_[at % kWindow].exchange(false)) {
      frontier_.store(++at);
    }
  }

 private:
  static constexpr uint64_t kWindow = uint64_t{1} << 20;

  std::atomic<uint64_t> next_;
  std::atomic<uint64_t> frontier_;
  std::unique_ptr<std::atomic<bool>[]> answered_;
};

}  // namespace kvstored::bench
