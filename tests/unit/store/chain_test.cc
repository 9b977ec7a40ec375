#include "store/chain.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/store/store_fixture.h"

namespace kvstored::store {
namespace {

class ChainTest : public StoreFixture, public testing::Test {
 protected:
  static std::string Pattern(uint64_t bytes, uint64_t salt = 0) {
    std::string text(bytes, '\0');
    for (uint64_t i = 0; i < bytes; ++i) {
      text[i] = static_cast<char>((i * 131 + i / 4096 + salt) % 251);
    }
    return text;
  }
};

TEST_F(ChainTest, LargeValuesAreChainsReadByPieces) {
  const std::string value = Pattern(3 << 20);
  ASSERT_EQ(Put("a", value, 0, 1), OpResult::kOk);
  ASSERT_TRUE(Find("a")->is_chain());
  const ChainRef chain = Find("a")->chain();
  EXPECT_EQ(chain.size_bytes(), value.size());
  std::string joined;
  while (joined.size() < value.size()) {
    const std::string_view piece = chain.PieceAt(joined.size());
    ASSERT_FALSE(piece.empty());
    joined += piece;
  }
  EXPECT_TRUE(joined == value);
  EXPECT_TRUE(chain.PieceAt(value.size()).empty());
  EXPECT_TRUE(ValueOf(*Find("a")) == value);
  std::string middle(100000, '?');
  Find("a")->CopyTo(12345, middle.data(), middle.size());
  EXPECT_TRUE(middle == value.substr(12345, middle.size()));
}

TEST_F(ChainTest, ARefOutlivesItsItem) {
  const std::string value = Pattern(200000);
  ASSERT_EQ(Put("a", value, 0, 1), OpResult::kOk);
  ChainRef chain = Find("a")->chain();
  ASSERT_TRUE(Erase("a"));
  DrainStore();
  std::string copy(value.size(), '?');
  chain.CopyTo(0, copy.data(), copy.size());
  EXPECT_TRUE(copy == value);
  EXPECT_GT(store().counters().item_bytes, value.size());
  chain = ChainRef();
  DrainStore();
  EXPECT_EQ(store().counters().item_bytes, 0u);
}

TEST_F(ChainTest, AppendSharesPiecesAndReadersKeepTheirLength) {
  const std::string value = Pattern(500000);
  ASSERT_EQ(Put("a", value, 5, 1), OpResult::kOk);
  ASSERT_EQ(store().Append(KeyOf("a"), "x", 2), OpResult::kOk);
  const ChainRef before = Find("a")->chain();
  const std::string more = Pattern(300000, 7);
  const uint64_t bytes_before = store().counters().item_bytes;
  ASSERT_EQ(store().Append(KeyOf("a"), more, 3), OpResult::kOk);
  EXPECT_LT(store().counters().item_bytes - bytes_before, 300000u + kPieceBytes + 8192u);
  EXPECT_EQ(before.size_bytes(), 500001u);
  EXPECT_EQ(Find("a")->value_bytes(), 800001u);
  EXPECT_EQ(Find("a")->expiry_ms(), 5u);
  EXPECT_TRUE(ValueOf(*Find("a")) == value + "x" + more);
  EXPECT_EQ(before.PieceAt(500000), "x");
}

TEST_F(ChainTest, TwoItemsOnOneChainPartWays) {
  const std::string value = Pattern(100000);
  ASSERT_EQ(Put("a", value, 0, 1), OpResult::kOk);
  ASSERT_EQ(store().PutChain(KeyOf("b"), Find("a")->chain(), 0, 2), OpResult::kOk);
  ASSERT_EQ(store().Append(KeyOf("a"), "from a", 3), OpResult::kOk);
  ASSERT_EQ(store().Append(KeyOf("b"), "from b", 4), OpResult::kOk);
  EXPECT_TRUE(ValueOf(*Find("a")) == value + "from a");
  EXPECT_TRUE(ValueOf(*Find("b")) == value + "from b");
  ASSERT_EQ(store().SetRange(KeyOf("a"), 10, "!!", 5), OpResult::kOk);
  EXPECT_EQ(ValueOf(*Find("a")).substr(9, 4), value.substr(9, 1) + "!!" + value.substr(12, 1));
  EXPECT_TRUE(ValueOf(*Find("b")) == value + "from b");
}

TEST_F(ChainTest, SetRangeCopiesWhatOthersReadAndFillsGapsWithZeros) {
  const std::string value = Pattern(100000);
  ASSERT_EQ(Put("a", value, 0, 1), OpResult::kOk);
  const ChainRef reader = Find("a")->chain();
  ASSERT_EQ(store().SetRange(KeyOf("a"), 50000, "changed", 2), OpResult::kOk);
  std::string seen(7, '?');
  reader.CopyTo(50000, seen.data(), seen.size());
  EXPECT_EQ(seen, value.substr(50000, 7));
  ASSERT_EQ(store().SetRange(KeyOf("a"), 150000, "end", 3), OpResult::kOk);
  std::string expected = value;
  expected.replace(50000, 7, "changed");
  expected.resize(150000, '\0');
  expected += "end";
  EXPECT_TRUE(ValueOf(*Find("a")) == expected);
}

TEST_F(ChainTest, InlineGrowsIntoAChain) {
  ASSERT_EQ(Put("a", "head", 0, 1), OpResult::kOk);
  ASSERT_EQ(store().SetRange(KeyOf("a"), 200000, "tail", 2), OpResult::kOk);
  EXPECT_TRUE(Find("a")->is_chain());
  EXPECT_TRUE(ValueOf(*Find("a")) == "head" + std::string(199996, '\0') + "tail");
}

TEST_F(ChainTest, BuilderTakesMemoryAsBytesArrive) {
  ChainBuilder builder = store().NewChain(kValueBytesMax);
  EXPECT_LT(store().counters().item_bytes, 1000u);
  ASSERT_EQ(builder.Write("0123456789"), OpResult::kOk);
  EXPECT_EQ(builder.written_bytes(), 10u);
  EXPECT_LT(store().counters().item_bytes, 2 * kPieceBytes);
  ChainBuilder none = store().NewChain(kValueBytesMax + 1);
  EXPECT_NE(none.Write("x"), OpResult::kOk);
  ChainBuilder empty = store().NewChain(0);
  ASSERT_EQ(store().PutChain(KeyOf("empty"), empty.Finish(), 0, 1), OpResult::kOk);
  EXPECT_EQ(ValueOf(*Find("empty")), "");
}

TEST_F(ChainTest, TheLargestValueGoesInBoundedSteps) {
  ChainBuilder builder = store().NewChain(kValueBytesMax);
  const std::string part(1 << 20, 'x');
  while (builder.written_bytes() < kValueBytesMax) {
    ASSERT_EQ(builder.Write(part), OpResult::kOk);
  }
  ASSERT_EQ(store().PutChain(KeyOf("a"), builder.Finish(), 0, 1), OpResult::kOk);
  EXPECT_EQ(Find("a")->value_bytes(), kValueBytesMax);
  EXPECT_EQ(store().Append(KeyOf("a"), "x", 2), OpResult::kTooLarge);
  ASSERT_TRUE(Erase("a"));
  uint64_t before = store().counters().item_bytes;
  EXPECT_GT(before, kValueBytesMax);
  uint32_t tick_count = 0;
  bool more = true;
  while (more) {
    more = store().Tick(0);
    ++tick_count;
    const uint64_t after = store().counters().item_bytes;
    ASSERT_LE(before - after, 300 * kPieceBytes);
    before = after;
  }
  EXPECT_GT(tick_count, 30u);
  EXPECT_EQ(before, 0u);
}

TEST_F(ChainTest, DroppedOnOtherThreads) {
  std::vector<ChainRef> references;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_EQ(Put(key, Pattern(kChainBytesMin + static_cast<uint64_t>(i)), 0, 1), OpResult::kOk);
    references.push_back(Find(key)->chain());
    ASSERT_TRUE(Erase(key));
  }
  std::atomic<int> running{2};
  const auto drop = [&running](std::vector<ChainRef> mine) {
    for (ChainRef& chain : mine) {
      ASSERT_EQ(chain.PieceAt(1)[0], static_cast<char>(131));
      const ChainRef copy = chain;
      chain = ChainRef();
    }
    --running;
  };
  std::thread first(drop, references);
  std::thread second(drop, std::move(references));
  do {
    store().Tick(0);
    ASSERT_EQ(Put("own", Pattern(kChainBytesMin), 0, 1), OpResult::kOk);
  } while (running.load() != 0);
  first.join();
  second.join();
  ASSERT_TRUE(Erase("own"));
  DrainStore();
  EXPECT_EQ(store().counters().item_bytes, 0u);
}

}  // namespace
}  // namespace kvstored::store
