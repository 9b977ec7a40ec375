#include "kvbench/histogram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace kvstored::bench {
namespace {

TEST(Histogram, EveryQuantileOfAnyMixOfSizesIsWithinTheBound) {
  base::Random random(7);
  for (int round = 0; round < 20; ++round) {
    Histogram histogram;
    std::vector<uint64_t> values;
    for (int i = 0; i < 5000; ++i) {
      // All magnitudes, from 0 to 64 bits.
      values.push_back(random.Next() >> random.Below(64));
      histogram.Record(values.back());
    }
    std::sort(values.begin(), values.end());
    for (const double quantile : {0.0001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
      const auto rank = static_cast<size_t>(std::ceil(quantile * 5000));
      const uint64_t exact = values[std::max<size_t>(rank, 1) - 1];
      const uint64_t told = histogram.ValueAt(quantile);
      EXPECT_GE(told, exact) << quantile;
      EXPECT_LE(static_cast<double>(told - exact),
                static_cast<double>(exact) * Histogram::kRelativeError)
          << quantile;
    }
    EXPECT_EQ(histogram.max(), values.back());
    EXPECT_EQ(histogram.min(), values.front());
    EXPECT_EQ(histogram.ValueAt(1), values.back());
  }
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (uint64_t value = 0; value < 256; ++value) {
    histogram.Record(value);
  }
  for (uint64_t value = 0; value < 256; ++value) {
    EXPECT_EQ(histogram.ValueAt(static_cast<double>(value + 1) / 256), value);
  }
  EXPECT_EQ(histogram.mean(), 127.5);
}

TEST(Histogram, MergedIsAsIfAllHadBeenRecordedInOne) {
  Histogram one;
  Histogram two;
  Histogram both;
  for (uint64_t i = 0; i < 1000; ++i) {
    (i % 3 == 0 ? one : two).Record(i * i);
    both.Record(i * i);
  }
  one.Merge(two);
  EXPECT_EQ(one.count(), 1000);
  EXPECT_EQ(one.mean(), both.mean());
  EXPECT_EQ(one.max(), 999 * 999);
  EXPECT_EQ(one.min(), 0);
  for (const double quantile : {0.1, 0.5, 0.9, 0.99}) {
    EXPECT_EQ(one.ValueAt(quantile), both.ValueAt(quantile));
  }
}

TEST(Histogram, EmptyIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.ValueAt(0.99), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.mean(), 0);
}

}  // namespace
}  // namespace kvstored::bench
