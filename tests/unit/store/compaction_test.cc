// Items that lie thinly move together; nothing is lost, and the chunks come back.
#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <string>

#include "base/random.h"
#include "tests/unit/store/store_fixture.h"

namespace kvstored::store {
namespace {

class CompactionTest : public testing::Test, public StoreFixture {
 protected:
  explicit CompactionTest(uint64_t pool_bytes = uint64_t{1} << 30) : StoreFixture(pool_bytes) {
  }
  uint64_t HeldBytes() {
    return pool().counters().used_bytes;
  }
  // How many ticks it took.
  uint64_t Settle() {
    uint64_t ticks = 0;
    while (store().Tick(random_.Next()) && ++ticks < 1'000'000) {
    }
    return ticks;
  }
  void ExpectHolds(const std::map<std::string, std::string>& model) {
    ASSERT_EQ(store().size(), model.size());
    for (const auto& [key, value] : model) {
      const Item* item = Find(key);
      ASSERT_NE(item, nullptr) << key;
      ASSERT_EQ(ValueOf(*item), value) << key;
    }
  }

  base::Random random_{3};
};

TEST_F(CompactionTest, WhatFreesLeaveThinComesTogether) {
  std::map<std::string, std::string> model;
  Seq seq = 0;
  for (uint64_t i = 0; i < 400'000; ++i) {
    const std::string key = "key:" + std::to_string(i);
    const std::string value(20 + random_.Below(200), static_cast<char>('a' + i % 26));
    const uint64_t expiry_ms = i % 3 == 0 ? 1'000 + i : 0;
    ASSERT_EQ(Put(key, value, expiry_ms, ++seq), OpResult::kOk);
    model[key] = value;
  }
  const uint64_t full_bytes = HeldBytes();
  for (auto at = model.begin(); at != model.end();) {
    if (random_.Below(4) != 0) {
      ASSERT_TRUE(Erase(at->first));
      at = model.erase(at);
    } else {
      ++at;
    }
  }
  const uint64_t hash = store().StateHash();
  EXPECT_GT(Settle(), 10u);
  EXPECT_LT(HeldBytes(), full_bytes * 2 / 5);
  EXPECT_EQ(store().StateHash(), hash);
  ExpectHolds(model);
  EXPECT_FALSE(store().Tick(random_.Next())) << "there is nothing more to gain";
}

TEST_F(CompactionTest, WritesMayComeInBetween) {
  std::map<std::string, std::string> model;
  Seq seq = 0;
  for (uint64_t round = 0; round < 300'000; ++round) {
    const std::string key = "key:" + std::to_string(random_.Below(30'000));
    // Sizes that change as the rounds go on, and removals that leave holes.
    const size_t bytes = 10 + random_.Below(40) * (1 + round / 30'000);
    if (random_.Below(3) == 0) {
      EXPECT_EQ(Erase(key), model.erase(key) == 1);
    } else {
      const std::string value(bytes, static_cast<char>('a' + round % 26));
      ASSERT_EQ(Put(key, value, 0, ++seq), OpResult::kOk);
      model[key] = value;
    }
    if (round % 3 == 0) {
      store().Tick(random_.Next());
    }
    if (round == 150'000) {
      store().Clear();
      model.clear();
    }
  }
  ExpectHolds(model);
}

// Ten times another size, with the old items gone at random as an eviction lets them go.
TEST_F(CompactionTest, AChangeOfSizesStrandsNothing) {
  constexpr uint64_t kDataBytes = uint64_t{32} << 20;
  uint64_t first_bytes = 0;
  uint64_t data_bytes = 0;
  Seq seq = 0;
  uint64_t next = 0;
  store().SetEviction(Eviction::kAllKeysRandom);
  for (const size_t bytes :
       std::initializer_list<size_t>{100, 1'000, 64, 9'000, 300, 40'000, 150, 2'500, 80, 600}) {
    const uint64_t written_before = seq;
    while ((seq - written_before) * bytes < 2 * kDataBytes) {
      const std::string key = std::to_string(next++);
      ASSERT_EQ(Put(key, std::string(bytes, 'v'), 0, ++seq), OpResult::kOk);
      data_bytes += key.size() + bytes;
      while (data_bytes > kDataBytes) {
        const Item* victim = store().FindVictim(random_.Next(), 64);
        if (victim == nullptr) {
          continue;  // none met yet
        }
        const std::string gone(victim->key());
        data_bytes -= gone.size() + victim->value_bytes();
        ASSERT_TRUE(Erase(gone));
      }
      if (bytes > 2'000 || seq % 16 == 0) {
        store().Tick(random_.Next());
      }
    }
    Settle();
    const double held_per_byte =
        static_cast<double>(HeldBytes()) / static_cast<double>(store().counters().item_bytes);
    RecordProperty(std::to_string(bytes), std::to_string(held_per_byte));
    first_bytes = first_bytes == 0 ? HeldBytes() : first_bytes;
    EXPECT_LT(held_per_byte, 1.6) << bytes;  // the index included, which does not shrink
  }
  EXPECT_LT(HeldBytes(), first_bytes + first_bytes / 10);
}

class SmallPoolTest : public CompactionTest {
 protected:
  SmallPoolTest() : CompactionTest(uint64_t{32} << 20) {
  }
};

// All chunks are taken by one size, three of four items are gone: another size finds place.
TEST_F(SmallPoolTest, PlaceIsFoundWhereThePoolHasNone) {
  Seq seq = 0;
  uint64_t count = 0;
  while (Put(std::to_string(count), std::string(100, 'v'), 0, ++seq) == OpResult::kOk) {
    ++count;
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (i % 4 != 0) {
      ASSERT_TRUE(Erase(std::to_string(i)));
    }
  }
  int i = 0;  // until what the last chunk had free is used, too
  while (Put("large:" + std::to_string(i), std::string(20'000, 'v'), 0, ++seq) == OpResult::kOk) {
    ASSERT_LT(++i, 200);
  }
  ASSERT_TRUE(store().CanCompact());
  Settle();
  for (; i < 700; ++i) {
    const std::string key = "large:" + std::to_string(i);
    if (Put(key, std::string(20'000, 'v'), 0, ++seq) != OpResult::kOk) {
      ASSERT_TRUE(store().CanCompact()) << i;
      Settle();
      ASSERT_EQ(Put(key, std::string(20'000, 'v'), 0, ++seq), OpResult::kOk) << i;
    }
  }
}

}  // namespace
}  // namespace kvstored::store
