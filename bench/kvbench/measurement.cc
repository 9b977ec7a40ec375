#include "kvbench/measurement.h"

#include <algorithm>

namespace kvstored::bench {

void Measurement::CountError(std::string_view reply) {
  const std::string_view word = reply.substr(0, reply.find(' '));
  const auto at = errors.find(word);
  if (at == errors.end()) {
    errors.emplace(word, 1);
  } else {
    ++at->second;
  }
  if (first_error.empty()) {
    first_error = reply;
  }
}

uint64_t Measurement::ErrorCount() const {
  uint64_t count = 0;
  for (const auto& [word, times] : errors) {
    count += times;
  }
  return count;
}

Histogram Measurement::AllLatencyNs() const {
  Histogram all;
  for (const Histogram& each : latency_ns) {
    all.Merge(each);
  }
  return all;
}

void Measurement::Merge(const Measurement& other) {
  for (size_t i = 0; i < kOperationKinds; ++i) {
    latency_ns[i].Merge(other.latency_ns[i]);
  }
  wait_ns.Merge(other.wait_ns);
  hits += other.hits;
  misses += other.misses;
  short_waits += other.short_waits;
  lost += other.lost;
  reconnects += other.reconnects;
  for (const auto& [word, times] : other.errors) {
    errors[word] += times;
  }
  if (first_error.empty()) {
    first_error = other.first_error;
  }
  last_reply_ns = std::max(last_reply_ns, other.last_reply_ns);
}

}  // namespace kvstored::bench
