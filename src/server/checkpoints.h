// Checkpoints: every so often the whole data set goes into one file while writes go on, so that the
// log can be recycled (docs/protocol.md "Log, checkpoint, recovery"). Runs on the background
// thread; the items come from the shards' threads slice by slice.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "log/checkpoint.h"
#include "server/node_core.h"

namespace kvstored::server {

class Checkpoints {
 public:
  using Done = std::function<void(absl::Status)>;

  explicit Checkpoints(NodeCore* core);

  // One more checkpoint, begun after this call. Thread-safe; `done` on the background thread.
  void Request(Done done);
  // Background thread: makes progress. Returns whether anything was done.
  bool Step();

  bool running() const {
    return running_.load(std::memory_order_relaxed);
  }
  int64_t last_save_unix_s() const {
    return last_save_unix_s_.load(std::memory_order_relaxed);
  }
  bool last_failed() const {
    return last_failed_.load(std::memory_order_relaxed);
  }
  uint64_t count() const {
    return count_.load(std::memory_order_relaxed);
  }

 private:
  // What one checkpoint knows of itself.
  struct Job {
    uint64_t incarnation = 0;
    log::Log* log = nullptr;  // another log meanwhile: a full sync replaced the data set
    uint64_t log_bytes = 0;   // Log::AppendedBytes at its begin
    std::vector<Seq> start;
    std::vector<Seq> end;
    std::unique_ptr<log::CheckpointWriter> writer;
    std::vector<std::unique_ptr<shard::SnapshotCursor>> cursors;
    int64_t publish_by_us = 0;  // or it is given up: nobody waits for an absent member for ever
    uint32_t shard = 0;         // whose slices are read now
    std::atomic<bool> slice_ready{false};
    bool slice_asked = false;
    record::BatchRef slice;
  };
  static constexpr uint64_t kSliceBytes = 256 << 10;

  bool IsDue() const;
  bool IsDueByTime(const log::Log& log, int64_t interval_us) const;
  void Begin(std::vector<Done> waiting);
  Progress CopySlices(Job* job);
  Progress Publish(Job* job);

  NodeCore* const core_;
  base::Random random_;  // background thread
  std::mutex mutex_;
  std::vector<Done> requests_;
  std::shared_ptr<Operation> operation_;
  std::atomic<bool> running_{false};
  std::atomic<bool> last_failed_{false};
  std::atomic<int64_t> last_save_unix_s_;
  std::atomic<uint64_t> count_{0};
  int64_t last_begin_us_;
};

}  // namespace kvstored::server
