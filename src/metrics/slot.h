// Slots: counters and gauges of the data path. Each is written by one thread (a relaxed load and
// store, no locked instruction) and read by any other at any time. A sum over threads is made when
// they are collected, never here.
#pragma once

#include <atomic>
#include <cstdint>

namespace kvstored::metrics {

// Single writer; readable by any thread.
class Counter {
 public:
  void Add(uint64_t count = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  uint64_t value() const {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> value_{0};
};

// Single writer; readable by any thread.
class Gauge {
 public:
  void Set(uint64_t value) {
    value_.store(value, std::memory_order_relaxed);
  }
  uint64_t value() const {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace kvstored::metrics
