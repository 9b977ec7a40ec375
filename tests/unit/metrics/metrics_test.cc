#include <gtest/gtest.h>

#include <thread>

#include "metrics/registry.h"
#include "metrics/slot.h"
#include "metrics/snapshot.h"

namespace kvstored::metrics {
namespace {

TEST(Histogram, PutsAValueIntoTheFirstBucketThatHoldsIt) {
  Histogram<1, 4> histogram;  // bounds 2, 4, 8, 16, +Inf
  const uint64_t values[] = {0, 1, 2, 3, 4, 5, 8, 9, 16, 17, ~uint64_t{0} >> 1};
  const uint32_t expected[] = {3, 2, 2, 2, 2};
  for (const uint64_t value : values) {
    const HistogramSnapshot before = histogram.Snapshot();
    histogram.Observe(value);
    const HistogramSnapshot after = histogram.Snapshot();
    for (uint32_t i = 0; i <= 4; ++i) {
      const bool holds =
          (i == 4 || value <= after.upper_bound(i)) && (i == 0 || value > after.upper_bound(i - 1));
      EXPECT_EQ(after.counts[i] - before.counts[i], holds ? 1u : 0u) << value << " bucket " << i;
    }
  }
  const HistogramSnapshot snapshot = histogram.Snapshot();
  for (uint32_t i = 0; i <= 4; ++i) {
    EXPECT_EQ(snapshot.counts[i], expected[i]) << i;
  }
  EXPECT_EQ(snapshot.count(), 11u);
}

TEST(Histogram, CountEqualsBucketsBesideARunningWriter) {
  LatencyHistogram histogram;
  Counter counter;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      counter.Add();
      histogram.Observe(counter.value() & 0xffff);
    }
  });
  uint64_t last = 0;
  for (int i = 0; i < 1000 || last < 1000; ++i) {
    const uint64_t count = histogram.Snapshot().count();
    EXPECT_GE(count, last);
    last = count;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(histogram.Snapshot().count(), counter.value());
}

TEST(Collection, AddsEqualLabelsAndKeepsOthersApart) {
  Collection collection;
  for (const char* shard : {"0", "1"}) {
    collection.AddCounter("kvstored_records_total", "Records.", 2);
    collection.AddCounter("kvstored_ops_total", "Operations.", 3, {{"shard", shard}});
  }
  ASSERT_EQ(collection.families().size(), 2u);
  EXPECT_EQ(collection.families()[0].samples.size(), 1u);
  EXPECT_EQ(collection.families()[0].samples[0].value, 4);
  EXPECT_EQ(collection.families()[1].samples.size(), 2u);
  EXPECT_EQ(collection.families()[1].samples[1].value, 3);
}

TEST(Collection, MergesHistogramsOfOneName) {
  LatencyHistogram a;
  LatencyHistogram b;
  a.Observe(3);
  b.Observe(3);
  b.Observe(1000000);
  Collection collection;
  collection.AddHistogram("kvstored_sync_seconds", "Sync.", a.Snapshot(), kMicrosecondsToSeconds);
  collection.AddHistogram("kvstored_sync_seconds", "Sync.", b.Snapshot(), kMicrosecondsToSeconds);
  const HistogramSnapshot& merged = collection.families().at(0).samples.at(0).histogram;
  EXPECT_EQ(merged.count(), 3u);
  EXPECT_EQ(merged.counts[1], 2u);
  EXPECT_EQ(merged.sum, 1000006u);
  HistogramSnapshot other = Histogram<0, 3>().Snapshot();
  EXPECT_FALSE(other.Merge(merged));
}

TEST(CollectionDeathTest, RefusesBadNamesAndTwoKinds) {
  Collection collection;
  collection.AddGauge("kvstored_x", "X.", 1);
  EXPECT_DEATH(collection.AddCounter("kvstored_x", "X.", 1), "two kinds");
  EXPECT_DEATH(collection.AddGauge("bad-name", "X.", 1), "bad-name");
  EXPECT_DEATH(collection.AddGauge("kvstored_y", "Y.", 1, {{"0", "a"}}), "label '0'");
}

TEST(Registry, CollectsWhatIsRegisteredNow) {
  Registry registry;
  const Registry::SourceId first =
      registry.Add([](Collection* collection) { collection->AddGauge("kvstored_a", "A.", 1); });
  registry.Add([](Collection* collection) { collection->AddGauge("kvstored_b", "B.", 2); });
  EXPECT_EQ(registry.Collect().families().size(), 2u);
  registry.Remove(first);
  const Collection left = registry.Collect();
  ASSERT_EQ(left.families().size(), 1u);
  EXPECT_EQ(left.families()[0].name, "kvstored_b");
}

}  // namespace
}  // namespace kvstored::metrics
