// What one worker has seen, and all of them together.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "kvbench/histogram.h"
#include "kvbench/workload.h"

namespace kvstored::bench {

// Only operations that were meant to start after the warm-up are in it. Not thread-safe.
struct Measurement {
  // Nanoseconds from the time an operation was meant to start until its (last) reply; good ones
  // only.
  std::array<Histogram, kOperationKinds> latency_ns;
  // The same from the start of a burst until its WAIT was answered.
  Histogram wait_ns;
  uint64_t hits = 0;         // reads that found a value
  uint64_t misses = 0;       // and those that did not
  uint64_t short_waits = 0;  // WAITs that counted fewer replicas than asked for
  uint64_t lost = 0;         // operations whose connection broke: their outcome is unknown
  uint64_t reconnects = 0;
  std::map<std::string, uint64_t, std::less<>> errors;  // by the reply's first word
  std::string first_error;
  uint64_t last_reply_ns = 0;  // of the monotonic clock; 0: none yet

  void CountError(std::string_view reply);
  uint64_t ErrorCount() const;
  // All kinds of operations.
  Histogram AllLatencyNs() const;
  void Merge(const Measurement& other);
};

}  // namespace kvstored::bench
