// Latencies, counted in buckets whose width is a fixed share of the value, as HdrHistogram does:
// any 64-bit number fits, and recording is an increment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvstored::bench {

// Not thread-safe: each worker records into its own, and they are merged at the end.
class Histogram {
 public:
  // A quantile is reported at most this share too high, and never too low.
  static constexpr double kRelativeError = 1.0 / 128;

  void Record(uint64_t value) {
    ++counts_[BucketOf(value)];
    ++count_;
    sum_ += static_cast<double>(value);
    max_ = value > max_ ? value : max_;
    min_ = value < min_ ? value : min_;
  }
  void Merge(const Histogram& other);

  uint64_t count() const {
    return count_;
  }
  // 0 while nothing is recorded; exact.
  uint64_t max() const {
    return max_;
  }
  uint64_t min() const {
    return count_ == 0 ? 0 : min_;
  }
  double mean() const {
    return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
  }
  // The least value that at least `quantile` of the recorded ones do not exceed: the upper end of
  // its bucket. 0 while nothing is recorded.
  uint64_t ValueAt(double quantile) const;

 private:
  // Values below 2 * kHalf have buckets of width 1; each power of two above is cut into kHalf.
  static constexpr uint32_t kHalfBits = 7;
  static constexpr uint64_t kHalf = uint64_t{1} << kHalfBits;
  static constexpr size_t kBuckets = (64 - kHalfBits + 1) * kHalf;

  static uint32_t ShiftOf(uint64_t value) {
    const auto bits = static_cast<uint32_t>(64 - __builtin_clzll(value | 1));
    return bits > kHalfBits + 1 ? bits - kHalfBits - 1 : 0;
  }
  static size_t BucketOf(uint64_t value) {
    const uint32_t shift = ShiftOf(value);
    return shift * kHalf + (value >> shift);
  }
  static uint64_t UpperEndOf(size_t bucket);

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
  uint64_t min_ = ~uint64_t{0};
  double sum_ = 0;
};

}  // namespace kvstored::bench
