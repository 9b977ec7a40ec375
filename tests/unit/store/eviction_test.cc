// Which items the policies let go, judged against the exact rule that each of them approximates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "tests/unit/store/store_fixture.h"

namespace kvstored::store {
namespace {

constexpr uint32_t kBuckets = 64;

class EvictionTest : public testing::Test, public StoreFixture {
 protected:
  // Lets one item go; false: nothing may go.
  bool Evict() {
    while (store().HasEvictable()) {
      const Item* victim = store().FindVictim(random_.Next(), kBuckets);
      if (victim != nullptr) {
        gone_.emplace_back(victim->key());
        EXPECT_TRUE(Erase(gone_.back()));
        return true;
      }
    }
    return false;
  }

  base::Random random_{7};
  std::vector<std::string> gone_;
};

// Ranks 0 .. count - 1 with probability proportional to 1 / (rank + 1)^0.99, as YCSB's workloads.
std::vector<uint32_t> ZipfTrace(uint32_t rank_count, size_t length) {
  std::vector<double> sums(rank_count);
  double sum = 0;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    sums[rank] = sum += 1 / std::pow(rank + 1.0, 0.99);
  }
  base::Random random(1);
  std::vector<uint32_t> trace(length);
  for (uint32_t& rank : trace) {
    const double at = static_cast<double>(random.Next() >> 11) / 9007199254740992.0 * sum;
    rank = static_cast<uint32_t>(std::lower_bound(sums.begin(), sums.end(), at) - sums.begin());
  }
  return trace;
}

constexpr uint32_t kTraceKeys = 50'000;
constexpr size_t kTraceLength = 400'000;
constexpr size_t kCapacity = 5'000;

// A cache of kCapacity items that lets the least one go, by (rank of `worth`).
uint64_t ExactHits(const std::vector<uint32_t>& trace, bool by_frequency) {
  struct State {
    uint64_t uses = 0;
    uint64_t last = 0;
  };
  std::unordered_map<uint32_t, State> cache;
  std::set<std::tuple<uint64_t, uint64_t, uint32_t>> order;  // (uses or 0, last use, key)
  const auto place = [by_frequency](uint32_t key, const State& state) {
    return std::tuple(by_frequency ? state.uses : 0, state.last, key);
  };
  uint64_t hits = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    auto found = cache.find(trace[i]);
    if (found != cache.end()) {
      ++hits;
      order.erase(place(trace[i], found->second));
    } else {
      if (cache.size() == kCapacity) {
        cache.erase(std::get<2>(*order.begin()));
        order.erase(order.begin());
      }
      found = cache.emplace(trace[i], State{}).first;
    }
    ++found->second.uses;
    found->second.last = i;
    order.insert(place(trace[i], found->second));
  }
  return hits;
}

class HitRatioTest : public EvictionTest, public testing::WithParamInterface<Eviction> {};

TEST_P(HitRatioTest, IsThatOfTheExactRule) {
  const std::vector<uint32_t> trace = ZipfTrace(kTraceKeys, kTraceLength);
  store().SetEviction(GetParam());
  uint64_t hits = 0;
  uint64_t now_us = 1'700'000'000'000'000;
  Seq seq = 0;
  for (const uint32_t rank : trace) {
    store().SetNow(now_us += 200);
    const std::string key = "key:" + std::to_string(rank);
    if (const Item* item = Find(key); item != nullptr) {
      ++hits;
      store().NoteUse(*item);
      continue;
    }
    if (store().size() == kCapacity) {
      ASSERT_TRUE(Evict());
    }
    ASSERT_EQ(Put(key, "value", 0, ++seq), OpResult::kOk);
  }
  const uint64_t exact = ExactHits(trace, CountsFrequency(GetParam()));
  RecordProperty("hits", static_cast<int>(hits));
  RecordProperty("exact", static_cast<int>(exact));
  EXPECT_GE(static_cast<double>(hits), 0.95 * static_cast<double>(exact));
}

INSTANTIATE_TEST_SUITE_P(Policies, HitRatioTest,
                         testing::Values(Eviction::kAllKeysLru, Eviction::kAllKeysLfu),
                         [](const auto& policy) {
                           std::string name(kEvictionNames[static_cast<size_t>(policy.param)]);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(EvictionTest, NothingGoesWithoutAPolicy) {
  ASSERT_EQ(Put("a", "1", 5'000, 1), OpResult::kOk);
  EXPECT_FALSE(store().HasEvictable());
  EXPECT_EQ(store().FindVictim(0, kBuckets), nullptr);
}

TEST_F(EvictionTest, VolatilePoliciesSpareWhatHasNoExpiry) {
  for (const Eviction policy : {Eviction::kVolatileLru, Eviction::kVolatileLfu,
                                Eviction::kVolatileRandom, Eviction::kVolatileTtl}) {
    store().SetEviction(policy);
    // Few among many: found by going on, never by a long call.
    for (int i = 0; i < 20'000; ++i) {
      ASSERT_EQ(Put("stays:" + std::to_string(i), "1", 0, 1), OpResult::kOk);
    }
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(Put("goes:" + std::to_string(i), "1", 5'000, 1), OpResult::kOk);
    }
    gone_.clear();
    while (Evict()) {
    }
    std::sort(gone_.begin(), gone_.end());
    EXPECT_EQ(gone_, (std::vector<std::string>{"goes:0", "goes:1", "goes:2", "goes:3", "goes:4"}));
    EXPECT_EQ(store().size(), 20'000u);
  }
}

TEST_F(EvictionTest, TheNearestExpiryGoesFirst) {
  store().SetEviction(Eviction::kVolatileTtl);
  for (uint64_t i = 0; i < 16; ++i) {  // one sample holds them all
    ASSERT_EQ(Put(std::to_string(i), "1", 1'000 + (i * 7) % 16, 1), OpResult::kOk);
  }
  std::map<uint64_t, std::string> by_expiry;
  for (uint64_t i = 0; i < 16; ++i) {
    by_expiry[1'000 + (i * 7) % 16] = std::to_string(i);
  }
  for (const auto& [expiry_ms, key] : by_expiry) {
    ASSERT_TRUE(Evict());
    EXPECT_EQ(gone_.back(), key);
  }
}

TEST_F(EvictionTest, RandomPoliciesPickFromEverywhere) {
  store().SetEviction(Eviction::kAllKeysRandom);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(Put(std::to_string(i), "1", 0, 1), OpResult::kOk);
  }
  uint32_t low_half = 0;
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(Evict());
    low_half += digester().Of(gone_.back()).high >> 63 == 0 ? 1 : 0;
  }
  // 500 are expected; 380 or 620 are nearly eight standard deviations away.
  EXPECT_GT(low_half, 380u);
  EXPECT_LT(low_half, 620u);
}

TEST_F(EvictionTest, UseIsRememberedAcrossRewrites) {
  store().SetEviction(Eviction::kAllKeysLfu);
  store().SetNow(1'700'000'000'000'000);
  ASSERT_EQ(Put("often", "1", 0, 1), OpResult::kOk);
  EXPECT_EQ(store().Frequency(*Find("often")), 5u);
  for (int i = 0; i < 1'000; ++i) {
    store().NoteUse(*Find("often"));
  }
  const uint32_t often = store().Frequency(*Find("often"));
  EXPECT_GT(often, 10u);
  ASSERT_EQ(Put("often", "2", 0, 2), OpResult::kOk);
  EXPECT_GE(store().Frequency(*Find("often")), often);
  // One less for each minute without use, and never below nothing.
  store().SetNow(1'700'000'000'000'000 + 3 * 60'000'000ull);
  EXPECT_LE(store().Frequency(*Find("often")), often + 1 - 3);
  store().SetNow(1'700'000'000'000'000 + 1'000 * 60'000'000ull);
  EXPECT_EQ(store().Frequency(*Find("often")), 0u);
}

TEST_F(EvictionTest, IdleTimeIsThatSinceTheLastUse) {
  store().SetEviction(Eviction::kAllKeysLru);
  store().SetNow(1'700'000'000'000'000);
  ASSERT_EQ(Put("a", "1", 0, 1), OpResult::kOk);
  store().SetNow(1'700'000'000'000'000 + 90'000'000);
  EXPECT_NEAR(static_cast<double>(store().IdleUs(*Find("a"))), 90e6, 10e3);
  store().NoteUse(*Find("a"));
  EXPECT_LT(store().IdleUs(*Find("a")), 10'000u);
}

}  // namespace
}  // namespace kvstored::store
