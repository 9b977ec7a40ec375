// One thread of load: its connections, its epoll set, its loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvbench/connection.h"
#include "kvbench/key_space.h"
#include "kvbench/measurement.h"
#include "kvbench/options.h"
#include "kvbench/requests.h"
#include "kvbench/workload.h"

namespace kvstored::bench {

// When the whole run starts, is measured and stops: the same for all workers.
struct Plan {
  uint64_t start_ns = 0;
  uint64_t measure_from_ns = 0;
  uint64_t stop_ns = ~uint64_t{0};
};

// Open() and Run() belong to one thread at a time; the rest is read when Run() has returned, but
// for what is said to be for everybody.
class Worker {
 public:
  // Takes every options.threads-th of the connections, and of the operations.
  Worker(const Options& options, uint32_t index, const Address* address, const Requests* requests,
         KeySpace* keys, const std::atomic<bool>* stop);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Returns when all connections are greeted, when one has failed, or when `stop` is set.
  void Open();
  // Returns when all that was to be done is answered, or as Open().
  void Run(const Plan& plan);

  const Measurement& measurement() const {
    return measurement_;
  }
  // Empty, or why it has ended early.
  const std::string& failure() const {
    return failure_;
  }
  // For everybody, while it runs.
  uint64_t operations_done() const {
    return operations_done_.load(std::memory_order_relaxed);
  }
  uint64_t errors_seen() const {
    return errors_seen_.load(std::memory_order_relaxed);
  }

 private:
  template <typename Condition>
  void LoopUntil(Condition done);
  // Sleeps until something is ready, until the next operation is due, or for one period of care.
  void Poll(uint64_t now_ns);
  void Tend(uint64_t now_ns);
  void Publish();
  bool AllReady() const;
  bool AllDone(uint64_t now_ns) const;
  uint64_t NextDueNs() const;

  const Options options_;
  const uint32_t index_;
  const std::atomic<bool>* const stop_;
  Measurement measurement_;
  Workload workload_;
  SessionShared shared_;
  int epoll_fd_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<char> buffer_;
  uint64_t tended_ns_ = 0;
  bool running_ = false;
  std::string failure_;
  std::atomic<uint64_t> operations_done_{0};
  std::atomic<uint64_t> errors_seen_{0};
};

}  // namespace kvstored::bench
