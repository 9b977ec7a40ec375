// LatencyHistogram: how long the calls of one command took, on one thread. Its octaves are those
// that LATENCY HISTOGRAM of Redis 7 prints; eight steps in each make the percentiles.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "metrics/slot.h"

namespace kvstored::command {

// Octave k ends at 1032 * 2^k - 1 ns. All below 1032 ns are one octave of eight equal steps.
inline constexpr uint32_t kLatencySteps = 8;
inline constexpr uint32_t kLatencyOctaves = 21;  // the last one also holds what is longer
inline constexpr uint32_t kLatencyCounts = kLatencySteps * kLatencyOctaves;
inline constexpr uint64_t kLatencyStepNs = 129;

// Calls per step, at one moment, of any number of threads.
using LatencyCounts = std::array<uint64_t, kLatencyCounts>;

// Single writer; readable by any thread.
class LatencyHistogram {
 public:
  void Add(uint64_t ns) {
    counts_[StepOf(ns)].Add(1);
  }
  void AddTo(LatencyCounts* counts) const {
    for (uint32_t i = 0; i < kLatencyCounts; ++i) {
      (*counts)[i] += counts_[i].value();
    }
  }
  static uint32_t StepOf(uint64_t ns) {
    const uint64_t units = ns / kLatencyStepNs;
    const uint32_t shift =
        units < 2 * kLatencySteps ? 0 : static_cast<uint32_t>(std::bit_width(units)) - 4;
    const uint64_t step = shift * kLatencySteps + (units >> shift);
    return step < kLatencyCounts ? static_cast<uint32_t>(step) : kLatencyCounts - 1;
  }
  // The longest time that belongs to the step.
  static uint64_t EndNs(uint32_t step) {
    const uint32_t octave = step / kLatencySteps;
    const uint32_t shift = octave < 2 ? 0 : octave - 1;
    return ((uint64_t{step - shift * kLatencySteps} + 1) << shift) * kLatencyStepNs - 1;
  }

 private:
  std::array<metrics::Counter, kLatencyCounts> counts_;
};

// A histogram that is made when something comes into it: most commands are never sent.
class LatencySlot {
 public:
  LatencySlot() = default;
  ~LatencySlot() {
    delete histogram_.load(std::memory_order_relaxed);
  }
  LatencySlot(const LatencySlot&) = delete;
  LatencySlot& operator=(const LatencySlot&) = delete;
  void Add(uint64_t ns) {
    LatencyHistogram* histogram = histogram_.load(std::memory_order_relaxed);
    if (histogram == nullptr) {
      histogram = new LatencyHistogram;
      histogram_.store(histogram, std::memory_order_release);  // partner: AddTo
    }
    histogram->Add(ns);
  }
  void AddTo(LatencyCounts* counts) const {
    const LatencyHistogram* histogram = histogram_.load(std::memory_order_acquire);
    if (histogram != nullptr) {
      histogram->AddTo(counts);
    }
  }

 private:
  std::atomic<LatencyHistogram*> histogram_{nullptr};
};

}  // namespace kvstored::command
