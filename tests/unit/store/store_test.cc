#include "store/store.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/store/store_fixture.h"

namespace kvstored::store {
namespace {

class StoreTest : public StoreFixture, public testing::Test {};

TEST_F(StoreTest, FindsWhatWasPutAndReplaces) {
  EXPECT_EQ(Find("a"), nullptr);
  ASSERT_EQ(Put("a", "one", 0, 1), OpResult::kOk);
  const Item* item = Find("a");
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->key(), "a");
  EXPECT_EQ(item->value(), "one");
  EXPECT_EQ(item->seq(), 1u);
  EXPECT_EQ(item->expiry_ms(), 0u);
  ASSERT_EQ(Put("a", "three", 99, 2), OpResult::kOk);
  EXPECT_EQ(Find("a")->value(), "three");
  EXPECT_EQ(Find("a")->seq(), 2u);
  EXPECT_EQ(Find("a")->expiry_ms(), 99u);
  EXPECT_EQ(store().size(), 1u);
  EXPECT_EQ(store().counters().expiring_count, 1u);
  EXPECT_TRUE(Erase("a"));
  EXPECT_FALSE(Erase("a"));
  EXPECT_EQ(store().size(), 0u);
  EXPECT_EQ(store().StateHash(), 0u);
}

TEST_F(StoreTest, KeepsEmptyAndLongestKeysAndAnyBytes) {
  const std::string longest(kKeyBytesMax, 'k');
  const std::string largest_inline(kChainBytesMin - 1, '\0');
  ASSERT_EQ(Put("", "", 0, 1), OpResult::kOk);
  ASSERT_EQ(Put(longest, largest_inline, 7, (Seq{1} << 48) - 1), OpResult::kOk);
  ASSERT_NE(Find(""), nullptr);
  EXPECT_EQ(Find("")->value(), "");
  ASSERT_NE(Find(longest), nullptr);
  EXPECT_FALSE(Find(longest)->is_chain());
  EXPECT_EQ(Find(longest)->value(), largest_inline);
  EXPECT_EQ(Find(longest)->seq(), (Seq{1} << 48) - 1);
}

TEST_F(StoreTest, PutMayTakeTheOldValueItself) {
  ASSERT_EQ(Put("a", "abcdef", 0, 1), OpResult::kOk);
  ASSERT_EQ(Put("a", Find("a")->value().substr(2), 0, 2), OpResult::kOk);
  EXPECT_EQ(Find("a")->value(), "cdef");
}

TEST_F(StoreTest, PutNewerKeepsWhatIsAsNewOrNewer) {
  const auto put_newer = [this](const std::string& value, uint64_t expiry_ms, Seq seq) {
    return store().PutNewer(KeyOf("a"), value, expiry_ms, seq);
  };
  ASSERT_EQ(put_newer("five", 0, 5), OpResult::kOk);
  ASSERT_EQ(put_newer("four", 9, 4), OpResult::kOk);
  ASSERT_EQ(put_newer("another five", 9, 5), OpResult::kOk);
  EXPECT_EQ(Find("a")->value(), "five");
  EXPECT_EQ(Find("a")->seq(), 5u);
  ASSERT_EQ(put_newer("six", 9, 6), OpResult::kOk);
  EXPECT_EQ(Find("a")->value(), "six");
  EXPECT_EQ(Find("a")->expiry_ms(), 9u);
  const std::string large(kChainBytesMin, 'x');
  ASSERT_EQ(put_newer(large, 0, 6), OpResult::kOk);
  EXPECT_FALSE(Find("a")->is_chain());
  ASSERT_EQ(put_newer(large, 0, 7), OpResult::kOk);
  EXPECT_TRUE(Find("a")->is_chain());
  EXPECT_EQ(store().size(), 1u);
}

// Empty entries look like the digest that begins with zeros.
TEST_F(StoreTest, PrefetchingFindsNothingInEmptyEntries) {
  store().Prefetch({0, 0});
  store().PrefetchItem({0, 0});
  ASSERT_EQ(Put("a", "x", 0, 1), OpResult::kOk);
  store().Prefetch({0, 0});
  store().PrefetchItem({0, 0});
  EXPECT_EQ(Find("a")->value(), "x");
}

TEST_F(StoreTest, SetExpiryKeepsTheValue) {
  EXPECT_EQ(store().SetExpiry(KeyOf("a"), 5, 1), OpResult::kMiss);
  ASSERT_EQ(Put("a", "x", 0, 1), OpResult::kOk);
  ASSERT_EQ(store().SetExpiry(KeyOf("a"), 5, 2), OpResult::kOk);
  EXPECT_EQ(Find("a")->value(), "x");
  EXPECT_EQ(Find("a")->expiry_ms(), 5u);
  EXPECT_EQ(Find("a")->seq(), 2u);
  EXPECT_EQ(store().counters().expiring_count, 1u);
  ASSERT_EQ(store().SetExpiry(KeyOf("a"), 0, 3), OpResult::kOk);
  EXPECT_EQ(Find("a")->expiry_ms(), 0u);
  EXPECT_EQ(store().counters().expiring_count, 0u);
}

TEST_F(StoreTest, AppendAndSetRangeStayInlineWhileSmall) {
  EXPECT_EQ(store().Append(KeyOf("a"), "x", 1), OpResult::kMiss);
  EXPECT_EQ(store().SetRange(KeyOf("a"), 0, "x", 1), OpResult::kMiss);
  ASSERT_EQ(Put("a", "abc", 9, 1), OpResult::kOk);
  ASSERT_EQ(store().Append(KeyOf("a"), "def", 2), OpResult::kOk);
  EXPECT_EQ(Find("a")->value(), "abcdef");
  ASSERT_EQ(store().SetRange(KeyOf("a"), 1, "XY", 3), OpResult::kOk);
  EXPECT_EQ(Find("a")->value(), "aXYdef");
  ASSERT_EQ(store().SetRange(KeyOf("a"), 8, "!", 4), OpResult::kOk);
  EXPECT_EQ(Find("a")->value(), std::string_view("aXYdef\0\0!", 9));
  EXPECT_EQ(Find("a")->expiry_ms(), 9u);
  EXPECT_EQ(Find("a")->seq(), 4u);
  EXPECT_EQ(store().SetRange(KeyOf("a"), kValueBytesMax, "x", 5), OpResult::kTooLarge);
  EXPECT_EQ(store().SetRange(KeyOf("a"), UINT64_MAX, "x", 5), OpResult::kTooLarge);
  EXPECT_EQ(Find("a")->seq(), 4u);
}

TEST_F(StoreTest, StateHashIsTheSumOverItems) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(Put("k" + std::to_string(i % 300), "v", static_cast<uint64_t>(i % 3), 1 + Seq(i)),
              OpResult::kOk);
  }
  const uint64_t hash = store().StateHash();
  // Another store, another order, the same items.
  StoreFixture other;
  std::vector<std::pair<std::string, std::pair<uint64_t, Seq>>> items;
  ScanAll(store(), 10, [&](const Item& item) {
    items.push_back({std::string(item.key()), {item.expiry_ms(), item.seq()}});
  });
  ASSERT_EQ(items.size(), 300u);
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    ASSERT_EQ(other.Put(item->first, "another value", item->second.first, item->second.second),
              OpResult::kOk);
  }
  EXPECT_EQ(other.store().StateHash(), hash);
  ASSERT_EQ(other.Put(items[0].first, "v", items[0].second.first, 5000), OpResult::kOk);
  EXPECT_NE(other.store().StateHash(), hash);
}

TEST_F(StoreTest, ClearIsAtOnceAndMemoryComesBackInSteps) {
  for (int i = 0; i < 20000; ++i) {
    ASSERT_EQ(Put("k" + std::to_string(i), std::string(100, 'x'), 1, 1), OpResult::kOk);
  }
  ASSERT_EQ(Put("chain", std::string(300000, 'x'), 0, 1), OpResult::kOk);
  store().Clear();
  EXPECT_EQ(store().size(), 0u);
  EXPECT_EQ(store().StateHash(), 0u);
  EXPECT_EQ(store().counters().expiring_count, 0u);
  EXPECT_EQ(Find("k1"), nullptr);
  EXPECT_EQ(Find("chain"), nullptr);
  EXPECT_GT(store().counters().item_bytes, 2000000u);
  ASSERT_EQ(Put("k1", "new", 0, 2), OpResult::kOk);
  uint64_t before = store().counters().item_bytes;
  uint32_t tick_count = 0;
  while (store().Tick(0)) {
    ++tick_count;
    const uint64_t after = store().counters().item_bytes;
    EXPECT_LE(before - after, 256 * kChainBytesMin);
    before = after;
  }
  EXPECT_GT(tick_count, 20u);
  EXPECT_EQ(Find("k1")->value(), "new");
  EXPECT_LE(store().counters().item_bytes, 64u);
  EXPECT_LE(pool().counters().used_bytes, 2 * kChunkBytes);
}

TEST_F(StoreTest, ClearTwiceBeforeMemoryIsBack) {
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3000; ++i) {
      ASSERT_EQ(Put("k" + std::to_string(i), "x", 0, 1), OpResult::kOk);
    }
    store().Clear();
    store().Tick(0);
  }
  DrainStore();
  EXPECT_EQ(store().counters().item_bytes, 0u);
  EXPECT_EQ(pool().counters().used_bytes, 0u);
}

TEST_F(StoreTest, OutOfMemoryChangesNothing) {
  StoreFixture small(8 << 20);
  std::string value(30000, 'x');
  uint64_t count = 0;
  while (small.Put("k" + std::to_string(count), value, 0, 1) == OpResult::kOk) {
    ++count;
  }
  ASSERT_GT(count, 100u);
  EXPECT_EQ(small.store().size(), count);
  const uint64_t hash = small.store().StateHash();
  EXPECT_EQ(small.Put("k0", value, 0, 9), OpResult::kOutOfMemory);
  EXPECT_EQ(small.store().Append(small.KeyOf("k0"), value, 9), OpResult::kOutOfMemory);
  EXPECT_EQ(small.Put("big", std::string(1 << 20, 'x'), 0, 9), OpResult::kOutOfMemory);
  EXPECT_EQ(small.store().StateHash(), hash);
  EXPECT_EQ(small.Find("k0")->seq(), 1u);
  // What was cleared is memory that a write may claim without waiting for Tick.
  small.store().Clear();
  EXPECT_EQ(small.Put("big", std::string(5 << 20, 'x'), 0, 9), OpResult::kOk);
}

TEST_F(StoreTest, CollectExpiredFindsAllAndMayErase) {
  for (int i = 0; i < 10000; ++i) {
    const uint64_t expiry_ms = i % 4 == 0 ? 100 : i % 4 == 1 ? 5000 : 0;
    ASSERT_EQ(Put("k" + std::to_string(i), "x", expiry_ms, 1), OpResult::kOk);
  }
  struct Context {
    StoreTest* test;
    uint32_t count = 0;
  } context{this};
  uint32_t visited_count = 0;
  for (int call = 0; call < 1000 && store().size() > 7500; ++call) {
    visited_count += store().CollectExpired(
        1000, 256,
        [](void* opaque, const Item& item) {
          Context* const c = static_cast<Context*>(opaque);
          EXPECT_EQ(item.expiry_ms(), 100u);
          EXPECT_TRUE(c->test->Erase(std::string(item.key())));
          ++c->count;
        },
        &context);
  }
  EXPECT_EQ(visited_count, 2500u);
  EXPECT_EQ(context.count, 2500u);
  EXPECT_EQ(store().size(), 7500u);
  EXPECT_EQ(store().counters().expiring_count, 2500u);
}

TEST_F(StoreTest, RandomReachesEveryItemAboutEqually) {
  EXPECT_EQ(store().Random(1), nullptr);
  constexpr int kItemCount = 200;
  for (int i = 0; i < kItemCount; ++i) {
    ASSERT_EQ(Put(std::to_string(i), "x", 0, 1), OpResult::kOk);
  }
  std::vector<int> hits(kItemCount);
  uint64_t random = 12345;
  for (int i = 0; i < kItemCount * 100; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    ++hits[static_cast<size_t>(std::stoi(std::string(store().Random(random)->key())))];
  }
  for (int hit_count : hits) {
    EXPECT_GT(hit_count, 10);
    EXPECT_LT(hit_count, 600);
  }
  for (int i = 1; i < kItemCount; ++i) {
    ASSERT_TRUE(Erase(std::to_string(i)));
  }
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(store().Random(i << 58)->key(), "0");
  }
}

}  // namespace
}  // namespace kvstored::store
