#include "shard/absent_watches.h"

#include <gtest/gtest.h>

#include "base/digest.h"
#include "memory/region_pool.h"

namespace kvstored::shard {
namespace {

class AbsentWatchesTest : public testing::Test {
 protected:
  Key KeyOf(std::string_view bytes) const {
    return {.bytes = bytes, .digest = digester_.Of(bytes)};
  }
  base::Digester digester_{Id128{{4}}};
  AbsentWatches watches_;
};

TEST_F(AbsentWatchesTest, OnlyLaterItemsOfTheKeyTouchIt) {
  const auto a = watches_.Add(KeyOf("a"), 10);
  const auto later = watches_.Add(KeyOf("a"), 20);
  const auto b = watches_.Add(KeyOf("b"), 10);
  watches_.OnRemoval(KeyOf("a"), 10);  // it was there, expired, when it was watched
  EXPECT_FALSE(a->touched);
  watches_.OnRemoval(KeyOf("a"), 15);
  EXPECT_TRUE(a->touched);
  EXPECT_FALSE(later->touched);
  EXPECT_FALSE(b->touched);
  watches_.TouchAll();
  EXPECT_TRUE(later->touched && b->touched);
}

TEST_F(AbsentWatchesTest, AFlushTouchesWhatItTakesAway) {
  memory::RegionPool pool({.max_bytes = uint64_t{64} << 20});
  store::Store store(&pool, &digester_);
  const auto a = watches_.Add(KeyOf("a"), 10);
  const auto b = watches_.Add(KeyOf("b"), 10);
  ASSERT_EQ(store.Put(KeyOf("a"), "1", 0, 11), OpResult::kOk);
  watches_.OnFlush(store);
  EXPECT_TRUE(a->touched);
  EXPECT_FALSE(b->touched);
}

TEST_F(AbsentWatchesTest, EndedOnesAreSwept) {
  const auto kept = watches_.Add(KeyOf("kept"), 1);
  for (int i = 0; i < 10'000; ++i) {
    watches_.Add(KeyOf(std::to_string(i % 300)), 1);
    ASSERT_LE(watches_.size(), 66u);
  }
  watches_.OnRemoval(KeyOf("kept"), 2);
  EXPECT_TRUE(kept->touched);
}

}  // namespace
}  // namespace kvstored::shard
