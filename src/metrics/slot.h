// Slots: counters, gauges and histograms of the data path. Each is written by one thread (a relaxed
// load and store, no locked instruction) and read by the collecting thread at any time. A sum over
// shards is made when they are collected, never here.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "metrics/snapshot.h"

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
  void Set(int64_t value) {
    value_.store(value, std::memory_order_relaxed);
  }
  int64_t value() const {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> value_{0};
};

// Buckets whose upper bounds are powers of two: 2^kFirstLog2, twice that, ... and +Inf. Values are
// whole numbers of the smallest unit (microseconds, bytes); the unit becomes seconds only when
// collected. Single writer; readable by any thread. A reader beside the writer may see a sample in
// the sum and not yet in its bucket: the snapshot counts buckets, so that count and buckets always
// agree.
template <uint32_t kFirstLog2, uint32_t kBucketCount>
class Histogram {
  static_assert(kBucketCount >= 1 && kBucketCount <= kHistogramBucketsMax);
  static_assert(kFirstLog2 + kBucketCount < 64);

 public:
  void Observe(uint64_t value) {
    const auto index =
        static_cast<uint32_t>(value == 0 ? 0 : std::bit_width((value - 1) >> kFirstLog2));
    buckets_[index < kBucketCount ? index : kBucketCount].Add();
    sum_.Add(value);
  }
  HistogramSnapshot Snapshot() const {
    HistogramSnapshot snapshot;
    snapshot.first_log2 = kFirstLog2;
    snapshot.bucket_count = kBucketCount;
    for (uint32_t i = 0; i <= kBucketCount; ++i) {
      snapshot.counts[i] = buckets_[i].value();
    }
    snapshot.sum = sum_.value();
    return snapshot;
  }

 private:
  std::array<Counter, kBucketCount + 1> buckets_;  // the last is +Inf
  Counter sum_;
};

// 2 us to 1 s in 20 steps: tick, log, replication and request latencies.
using LatencyHistogram = Histogram<1, 20>;
// 64 B to 32 MiB in 20 steps: batches, values.
using SizeHistogram = Histogram<6, 20>;

}  // namespace kvstored::metrics
