// Snapshots: what a source hands out when it is collected. Plain values, no library types.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvstored::metrics {

inline constexpr uint32_t kHistogramBucketsMax = 20;

// Counts per bucket (not cumulative); bucket i holds values up to 2^(first_log2 + i), the one at
// bucket_count everything above. Values are whole numbers of the smallest unit (microseconds,
// bytes). Not thread-safe.
struct Histogram {
  uint32_t first_log2 = 0;
  uint32_t bucket_count = 0;
  std::array<uint64_t, kHistogramBucketsMax + 1> counts{};
  uint64_t sum = 0;

  void Observe(uint64_t value) {
    const auto bucket =
        static_cast<uint32_t>(value == 0 ? 0 : std::bit_width((value - 1) >> first_log2));
    ++counts[std::min(bucket, bucket_count)];
    sum += value;
  }
  uint64_t count() const {
    uint64_t total = 0;
    for (const uint64_t bucket : counts) {
      total += bucket;
    }
    return total;
  }
  uint64_t upper_bound(uint32_t bucket) const {
    return uint64_t{1} << (first_log2 + bucket);
  }
  // Adds another of the same shape (another shard's). Of another shape: kept out, false.
  bool Merge(const Histogram& other);
};

enum class FamilyKind : uint8_t { kCounter, kGauge, kHistogram };

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  Labels labels;
  double value = 0;     // counters and gauges
  Histogram histogram;  // histograms
};

struct Family {
  std::string name;
  std::string help;
  FamilyKind kind = FamilyKind::kGauge;
  double scale = 1;  // of histogram bounds and sums: 1e-6 turns microseconds into seconds
  std::vector<Sample> samples;
};

inline constexpr double kMicrosecondsToSeconds = 1e-6;

// Families under construction, in order of first mention. Samples of one name gather in one family
// whatever source they come from; equal labels are added up, so shards need not know of each other.
class Collection {
 public:
  void AddCounter(const std::string& name, const std::string& help, double value,
                  Labels labels = {});
  void AddGauge(const std::string& name, const std::string& help, double value, Labels labels = {});
  void AddHistogram(const std::string& name, const std::string& help, const Histogram& histogram,
                    double scale, Labels labels = {});
  const std::vector<Family>& families() const {
    return families_;
  }

 private:
  Sample* Find(const std::string& name, const std::string& help, FamilyKind kind, double scale,
               Labels labels);

  std::vector<Family> families_;
};

}  // namespace kvstored::metrics
