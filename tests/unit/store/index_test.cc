// Scan under splits, bounded moves, bytes an item, and no operator new for items.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/store/store_fixture.h"

namespace {

std::atomic<uint64_t> new_count{0};

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KVS_TEST_NO_NEW_COUNT 1
#endif
#endif
#else
#define KVS_TEST_NO_NEW_COUNT 1
#endif

// Sanitizers bring their own; there the count stays zero, which the test allows for.
#ifndef KVS_TEST_NO_NEW_COUNT
void* operator new(size_t bytes) {
  new_count.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) {
    std::abort();
  }
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#endif

namespace kvstored::store {
namespace {

std::string KeyName(uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof(text), "key:%012llu", static_cast<unsigned long long>(number));
  return text;
}

TEST(IndexTest, ScanMissesNothingWhileSegmentsSplitAndShrink) {
  for (const uint32_t scan_count : {1u, 10u, 1000u}) {
    StoreFixture fixture;
    uint64_t next_key = 0;
    for (; next_key < 2000; ++next_key) {
      ASSERT_EQ(fixture.Put(KeyName(next_key), "x", 0, 1), OpResult::kOk);
    }
    std::set<std::string> stayed;
    for (uint64_t i = 0; i < 2000; i += 2) {
      stayed.insert(KeyName(i));
    }
    std::set<std::string> seen;
    uint64_t cursor = 0;
    uint64_t call_count = 0;
    uint64_t erased = 1;
    do {
      const auto visit = [](void* context, const Item& item) {
        static_cast<std::set<std::string>*>(context)->emplace(item.key());
      };
      const uint64_t before = cursor;
      cursor = fixture.store().Scan(cursor, scan_count, visit, &seen);
      ASSERT_TRUE(cursor == 0 || cursor > before);
      ASSERT_EQ(cursor & 0xffff, 0u);
      ++call_count;
      // Grow to 60,000 keys, later shrink to the half of the first 2,000.
      for (int i = 0; i < 400 && next_key < 60000; ++i, ++next_key) {
        ASSERT_EQ(fixture.Put(KeyName(next_key), "x", 0, 1), OpResult::kOk);
      }
      if (next_key == 60000) {
        for (int i = 0; i < 300 && erased < 60000; ++i, erased += erased < 2000 ? 2 : 1) {
          fixture.Erase(KeyName(erased));
        }
      }
    } while (cursor != 0);
    EXPECT_TRUE(std::includes(seen.begin(), seen.end(), stayed.begin(), stayed.end()));
    if (scan_count < 1000) {
      EXPECT_GT(call_count, 100u);
      EXPECT_GT(fixture.store().counters().segment_splits, 10u);
    }
  }
}

TEST(IndexTest, ScanStepsStayShort) {
  StoreFixture fixture;
  for (uint64_t i = 0; i < 100000; ++i) {
    ASSERT_EQ(fixture.Put(KeyName(i), "x", 0, 1), OpResult::kOk);
  }
  uint64_t cursor = 0;
  uint64_t visited_count = 0;
  do {
    uint64_t step_count = 0;
    cursor = fixture.store().Scan(
        cursor, 10, [](void* context, const Item&) { ++*static_cast<uint64_t*>(context); },
        &step_count);
    EXPECT_LE(step_count, 10u + 24u);
    visited_count += step_count;
  } while (cursor != 0);
  EXPECT_EQ(visited_count, 100000u);
  // After an erase of nearly all, a call looks at few buckets even if it finds nothing.
  for (uint64_t i = 1; i < 100000; ++i) {
    ASSERT_TRUE(fixture.Erase(KeyName(i)));
  }
  visited_count = 0;
  ScanAll(fixture.store(), 1, [&](const Item&) { ++visited_count; });
  EXPECT_EQ(visited_count, 1u);
}

TEST(IndexTest, ShrinksWhenItemsGo) {
  StoreFixture fixture;
  for (uint64_t i = 0; i < 200000; ++i) {
    ASSERT_EQ(fixture.Put(KeyName(i), "x", 0, 1), OpResult::kOk);
  }
  const uint64_t full_bytes = fixture.store().counters().index_bytes;
  for (uint64_t i = 0; i < 195000; ++i) {
    ASSERT_TRUE(fixture.Erase(KeyName(i)));
  }
  EXPECT_LT(fixture.store().counters().index_bytes, full_bytes / 8);
  for (uint64_t i = 195000; i < 200000; ++i) {
    ASSERT_NE(fixture.Find(KeyName(i)), nullptr);
  }
}

TEST(IndexTest, NoOperationMovesMoreThanASegment) {
  StoreFixture fixture;
  constexpr uint64_t kItemCount = 2'000'000;
  uint64_t worst_index_bytes_x100 = 0;
  for (uint64_t i = 0; i < kItemCount; ++i) {
    ASSERT_EQ(fixture.Put(KeyName(i), "value", 0, 1), OpResult::kOk);
    if (i >= 100000 && i % 1000 == 0) {
      worst_index_bytes_x100 =
          std::max(worst_index_bytes_x100, fixture.store().counters().index_bytes * 100 / i);
    }
  }
  const StoreCounters counters = fixture.store().counters();
  EXPECT_EQ(counters.item_count, kItemCount);
  EXPECT_LE(counters.moved_max, kIndexMoveMax);
  EXPECT_GT(counters.moved_max, 3000u);
  EXPECT_GT(counters.segment_splits, 400u);
  EXPECT_LE(worst_index_bytes_x100, 1100u);
  for (uint64_t i = 0; i < kItemCount; i += 7) {
    const Item* const item = fixture.Find(KeyName(i));
    ASSERT_NE(item, nullptr);
    ASSERT_EQ(item->key(), KeyName(i));
  }
}

// What a full sync and a checkpoint do: items in the order of their digests.
TEST(IndexTest, ExpectedItemsNeedNoGrowth) {
  for (const uint32_t count : {1u, 300u, 3'000u, 4'000u, 50'000u}) {
    StoreFixture fixture;
    std::vector<std::pair<uint64_t, std::string>> keys;
    for (uint32_t i = 0; i < count; ++i) {
      std::string key = "key:" + std::to_string(i);
      const uint64_t high = fixture.KeyOf(key).digest.high;
      keys.emplace_back(high, std::move(key));
    }
    std::sort(keys.begin(), keys.end());
    fixture.store().Expect(count);
    Seq seq = 0;
    for (const auto& [high, key] : keys) {
      ASSERT_EQ(fixture.Put(key, "v", 0, ++seq), OpResult::kOk);
    }
    EXPECT_EQ(fixture.store().counters().segment_splits, 0u) << count;
    EXPECT_EQ(fixture.store().counters().moved_max, 0u) << count;
    EXPECT_LE(fixture.store().counters().index_bytes, 20u * count + 256) << count;
    uint32_t seen_count = 0;
    ScanAll(fixture.store(), 10, [&](const Item&) { ++seen_count; });
    EXPECT_EQ(seen_count, count);
    for (const auto& [high, key] : keys) {
      ASSERT_NE(fixture.Find(key), nullptr);
    }
  }
}

TEST(IndexTest, MoreOrFewerThanExpectedMayCome) {
  StoreFixture fixture;
  fixture.store().Expect(20'000);
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_EQ(fixture.Put("few:" + std::to_string(i), "v", 0, i + 1), OpResult::kOk);
  }
  std::set<std::string> keys;
  ScanAll(fixture.store(), 10, [&](const Item& item) { keys.emplace(item.key()); });
  EXPECT_EQ(keys.size(), 100u);
  EXPECT_NE(fixture.store().Random(uint64_t{1} << 63), nullptr);
  fixture.store().Expect(5);  // too late: nothing happens
  for (uint32_t i = 0; i < 60'000; ++i) {
    ASSERT_EQ(fixture.Put("many:" + std::to_string(i), "v", 0, i + 1), OpResult::kOk);
  }
  EXPECT_EQ(fixture.store().size(), 60'100u);
  EXPECT_GT(fixture.store().counters().segment_splits, 0u);
  ASSERT_NE(fixture.Find("few:7"), nullptr);
  fixture.store().Clear();
  fixture.DrainStore();
  EXPECT_EQ(fixture.store().counters().index_bytes, 0u);
}

TEST(IndexTest, BytesAnItem) {
  StoreFixture fixture;
  constexpr uint64_t kItemCount = 1'000'000;
  const std::string value(100, 'v');
  for (uint64_t i = 0; i < kItemCount; ++i) {
    ASSERT_EQ(fixture.Put(KeyName(i), value, 0, i + 1), OpResult::kOk);
  }
  const StoreCounters counters = fixture.store().counters();
  EXPECT_LE((counters.item_bytes + counters.index_bytes) / kItemCount, 147u);
  // All that the pool gave out, whatever it is used for.
  EXPECT_LE(fixture.pool().counters().used_bytes / kItemCount, 155u);
  EXPECT_LE(counters.index_bytes, 11 * kItemCount);
}

TEST(IndexTest, ItemsNeverComeFromOperatorNew) {
  StoreFixture fixture;
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 20000; ++i) {
    keys.push_back(KeyName(i));
  }
  const std::string value(kChainBytesMin - 1, 'v');
  const uint64_t before = new_count.load();
  uint64_t found_count = 0;
  Seq seq = 0;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const size_t value_bytes = i % 100 == 0 ? value.size() : i % 1000;
      ASSERT_EQ(fixture.Put(keys[i], std::string_view(value).substr(0, value_bytes), i % 2, ++seq),
                OpResult::kOk);
      found_count += fixture.Find(keys[i]) != nullptr;
      ASSERT_EQ(fixture.store().SetExpiry(fixture.KeyOf(keys[i]), 9, ++seq), OpResult::kOk);
      if (i % 3 == 0) {
        ASSERT_TRUE(fixture.Erase(keys[i]));
      }
    }
    fixture.store().Tick(0);
  }
  EXPECT_EQ(found_count, 3 * keys.size());
  // The pool's lists of regions and chunks grow a few times; nothing may follow the number of
  // items.
  EXPECT_LE(new_count.load() - before, 20u);
  const uint64_t steady = new_count.load();
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(fixture.Put(keys[i], std::string_view(value).substr(0, i % 500), 0, ++seq),
              OpResult::kOk);
    found_count += fixture.Find(keys[i]) != nullptr;
    if (i % 2 == 0) {
      ASSERT_TRUE(fixture.Erase(keys[i]));
      ASSERT_EQ(fixture.Put(keys[i], "again", 0, ++seq), OpResult::kOk);
    }
  }
  EXPECT_EQ(new_count.load() - steady, 0u);
}

}  // namespace
}  // namespace kvstored::store
