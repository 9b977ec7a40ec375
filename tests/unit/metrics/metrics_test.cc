#include <gtest/gtest.h>

#include <thread>

#include "metrics/registry.h"
#include "metrics/slot.h"
#include "metrics/snapshot.h"

namespace kvstored::metrics {
namespace {

TEST(Histogram, PutsAValueIntoTheFirstBucketThatHoldsIt) {
  Histogram histogram{.first_log2 = 1, .bucket_count = 4};  // bounds 2, 4, 8, 16, +Inf
  const uint64_t values[] = {0, 1, 2, 3, 4, 5, 8, 9, 16, 17, ~uint64_t{0} >> 1};
  const uint32_t expected[] = {3, 2, 2, 2, 2};
  for (const uint64_t value : values) {
    const Histogram before = histogram;
    histogram.Observe(value);
    const Histogram& after = histogram;
    for (uint32_t i = 0; i <= 4; ++i) {
      const bool holds =
          (i == 4 || value <= after.upper_bound(i)) && (i == 0 || value > after.upper_bound(i - 1));
      EXPECT_EQ(after.counts[i] - before.counts[i], holds ? 1u : 0u) << value << " bucket " << i;
    }
  }
  for (uint32_t i = 0; i <= 4; ++i) {
    EXPECT_EQ(histogram.counts[i], expected[i]) << i;
  }
  EXPECT_EQ(histogram.count(), 11u);
}

TEST(Counter, IsReadBesideARunningWriter) {
  Counter counter;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      counter.Add();
    }
  });
  uint64_t last = 0;
  for (int i = 0; i < 1000 || last < 1000; ++i) {
    const uint64_t count = counter.value();
    EXPECT_GE(count, last);
    last = count;
  }
  stop = true;
  writer.join();
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
  Histogram a{.first_log2 = 1, .bucket_count = 20};
  Histogram b = a;
  a.Observe(3);
  b.Observe(3);
  b.Observe(1000000);
  Collection collection;
  collection.AddHistogram("kvstored_sync_seconds", "Sync.", a, kMicrosecondsToSeconds);
  collection.AddHistogram("kvstored_sync_seconds", "Sync.", b, kMicrosecondsToSeconds);
  const Histogram& merged = collection.families().at(0).samples.at(0).histogram;
  EXPECT_EQ(merged.count(), 3u);
  EXPECT_EQ(merged.counts[1], 2u);
  EXPECT_EQ(merged.sum, 1000006u);
  Histogram other{.bucket_count = 3};
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
