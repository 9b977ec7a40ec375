#include "kvbench/histogram.h"

#include <algorithm>
#include <cmath>

namespace kvstored::bench {

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) {
    counts_[i] += other.counts_[i];
  }
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
  min_ = std::min(min_, other.min_);
}

uint64_t Histogram::UpperEndOf(size_t bucket) {
  const uint64_t shift = bucket < 2 * kHalf ? 0 : bucket / kHalf - 1;
  const uint64_t lower = (bucket - shift * kHalf) << shift;
  return lower + ((uint64_t{1} << shift) - 1);
}

uint64_t Histogram::ValueAt(double quantile) const {
  if (count_ == 0) {
    return 0;
  }
  const double rank = std::ceil(quantile * static_cast<double>(count_));
  const uint64_t wanted = std::clamp<uint64_t>(static_cast<uint64_t>(rank), 1, count_);
  uint64_t seen = 0;
  size_t bucket = 0;
  for (; bucket < kBuckets; ++bucket) {
    seen += counts_[bucket];
    if (seen >= wanted) {
      break;
    }
  }
  return std::min(UpperEndOf(bucket), max_);
}

}  // namespace kvstored::bench
