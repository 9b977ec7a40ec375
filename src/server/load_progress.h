// LoadProgress: what a start is doing and how far it is, for whoever asks meanwhile (kvctl status,
// /readyz, systemd).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace kvstored::server {

// Thread-safe.
class LoadProgress {
 public:
  enum class Phase : uint8_t {
    kNone,        // nothing to load, or not begun
    kCheckpoint,  // items
    kScan,        // every frame of the log is read and checked
    kReplay,      // what is committed is applied
    kTail,        // what may not be is kept beside
    kDone,
  };

  // `record_count`: of the phase; 0 where nothing is counted.
  void Begin(Phase phase, uint64_t record_count);
  void Add(uint64_t record_count) {
    records_.fetch_add(record_count, std::memory_order_relaxed);
  }
  // Of all phases.
  uint64_t records() const {
    return records_.load(std::memory_order_relaxed);
  }
  std::string Text() const;

 private:
  std::atomic<uint64_t> records_{0};
  mutable std::mutex mutex_;  // of what Begin sets
  Phase phase_ = Phase::kNone;
  uint64_t record_count_ = 0;
  uint64_t records_before_ = 0;
};

}  // namespace kvstored::server
