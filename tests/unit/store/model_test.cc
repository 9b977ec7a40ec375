// The store against std::map: random operations, every answer compared.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/store/store_fixture.h"

namespace kvstored::store {
namespace {

struct ModelItem {
  std::string value;
  uint64_t expiry_ms = 0;
  Seq seq = 0;
};

// A reference that somebody holds while the store goes on, and the bytes it must keep.
struct HeldChain {
  ChainRef chain;
  std::string bytes;
};

class ModelRun {
 public:
  explicit ModelRun(uint64_t seed) : random_(seed) {
  }

  void Step() {
    const std::string key = "key:" + std::to_string(random_() % 3000);
    const uint64_t dice = random_() % 1000;
    if (dice < 400) {
      Put(key, RandomValue());
    } else if (dice < 560) {
      EXPECT_EQ(fixture_.Erase(key), model_.erase(key) == 1);
    } else if (dice < 680) {
      Append(key);
    } else if (dice < 780) {
      SetRange(key);
    } else if (dice < 840) {
      SetExpiry(key);
    } else if (dice < 860) {
      PutBuiltChain(key);
    } else if (dice < 880) {
      Copy(key);
    } else if (dice < 890) {
      HoldOrDrop(key);
    } else if (dice < 891 && random_() % 8 == 0) {
      fixture_.store().Clear();
      model_.clear();
      // Right or wrong, it only lays out the index.
      if (random_() % 2 == 0) {
        fixture_.store().Expect(random_() % 30'000);
      }
    } else if (dice < 892) {
      Compare();
    } else if (dice < 950) {
      fixture_.store().Tick(0);
    } else {
      Check(key);
    }
  }

  void Check(const std::string& key) {
    const Item* const item = fixture_.Find(key);
    const auto found = model_.find(key);
    ASSERT_EQ(item != nullptr, found != model_.end()) << key;
    if (item != nullptr) {
      ASSERT_EQ(item->key(), key);
      ASSERT_EQ(item->seq(), found->second.seq);
      ASSERT_EQ(item->expiry_ms(), found->second.expiry_ms);
      ASSERT_EQ(item->value_bytes(), found->second.value.size());
      ASSERT_TRUE(ValueOf(*item) == found->second.value) << key;
    }
  }

  void Compare() {
    for (const auto& [key, item] : model_) {
      ASSERT_NO_FATAL_FAILURE(Check(key));
    }
    // The hash from scratch: an empty store given the same items.
    StoreFixture other;
    uint64_t expiring_count = 0;
    std::set<std::string> seen;
    ScanAll(fixture_.store(), 7, [&](const Item& item) {
      ASSERT_TRUE(seen.insert(std::string(item.key())).second) << "visited twice at rest";
      expiring_count += item.expiry_ms() != 0;
      ASSERT_EQ(other.Put(item.key(), "", item.expiry_ms(), item.seq()), OpResult::kOk);
    });
    ASSERT_EQ(seen.size(), model_.size());
    ASSERT_EQ(fixture_.store().size(), model_.size());
    ASSERT_EQ(fixture_.store().StateHash(), other.store().StateHash());
    ASSERT_EQ(fixture_.store().counters().expiring_count, expiring_count);
    for (const HeldChain& held : held_) {
      std::string bytes(held.chain.size_bytes(), '?');
      held.chain.CopyTo(0, bytes.data(), bytes.size());
      ASSERT_TRUE(bytes == held.bytes);
    }
  }

  // Everything erased one by one: nothing may be left in any slot.
  void EraseAll() {
    while (!model_.empty()) {
      ASSERT_TRUE(fixture_.Erase(model_.begin()->first));
      model_.erase(model_.begin());
    }
    held_.clear();
    fixture_.DrainStore();
    const StoreCounters counters = fixture_.store().counters();
    EXPECT_EQ(counters.item_bytes, 0u);
    EXPECT_EQ(counters.slot_waste_bytes, 0u);
    EXPECT_EQ(fixture_.store().StateHash(), 0u);
    EXPECT_LE(counters.moved_max, kIndexMoveMax);
    // The index that is left: few slots of several classes.
    EXPECT_LE(fixture_.pool().counters().used_bytes, 2 * kChunkBytes);
    fixture_.DestroyStore();
    EXPECT_EQ(fixture_.pool().counters().used_bytes, 0u);
    EXPECT_EQ(fixture_.pool().charged_bytes(), 0);
  }

 private:
  std::string RandomBytes(uint64_t count) {
    std::string bytes(count, '\0');
    uint64_t state = random_();
    for (char& c : bytes) {
      state = state * 6364136223846793005u + 1;
      c = static_cast<char>(state >> 56);
    }
    return bytes;
  }
  std::string RandomValue() {
    const uint64_t dice = random_() % 100;
    const uint64_t limit = dice < 80 ? 300 : dice < 95 ? 9000 : dice < 99 ? 130000 : 300000;
    return RandomBytes(random_() % limit);
  }
  uint64_t RandomExpiry() {
    return random_() % 4 == 0 ? 1 + random_() % 1000 : 0;
  }

  void Put(const std::string& key, std::string value) {
    const uint64_t expiry_ms = RandomExpiry();
    ASSERT_EQ(fixture_.Put(key, value, expiry_ms, ++seq_), OpResult::kOk);
    model_[key] = {std::move(value), expiry_ms, seq_};
  }

  void Append(const std::string& key) {
    const std::string bytes = RandomBytes(random_() % (random_() % 10 == 0 ? 70000 : 500));
    const OpResult result = fixture_.store().Append(fixture_.KeyOf(key), bytes, ++seq_);
    const auto found = model_.find(key);
    ASSERT_EQ(result, found == model_.end() ? OpResult::kMiss : OpResult::kOk);
    if (found != model_.end()) {
      found->second.value += bytes;
      found->second.seq = seq_;
    }
  }

  void SetRange(const std::string& key) {
    const auto found = model_.find(key);
    const uint64_t size = found == model_.end() ? 0 : found->second.value.size();
    const uint64_t offset = random_() % (size + (random_() % 10 == 0 ? 70000 : 100));
    const std::string bytes = RandomBytes(random_() % (random_() % 20 == 0 ? 70000 : 200));
    const OpResult result = fixture_.store().SetRange(fixture_.KeyOf(key), offset, bytes, ++seq_);
    ASSERT_EQ(result, found == model_.end() ? OpResult::kMiss : OpResult::kOk);
    if (found != model_.end()) {
      std::string& value = found->second.value;
      value.resize(std::max(value.size(), offset + bytes.size()), '\0');
      value.replace(offset, bytes.size(), bytes);
      found->second.seq = seq_;
    }
  }

  void SetExpiry(const std::string& key) {
    const uint64_t expiry_ms = RandomExpiry();
    const OpResult result = fixture_.store().SetExpiry(fixture_.KeyOf(key), expiry_ms, ++seq_);
    const auto found = model_.find(key);
    ASSERT_EQ(result, found == model_.end() ? OpResult::kMiss : OpResult::kOk);
    if (found != model_.end()) {
      found->second.expiry_ms = expiry_ms;
      found->second.seq = seq_;
    }
  }

  void PutBuiltChain(const std::string& key) {
    std::string value = RandomBytes(random_() % 400000);
    ChainBuilder builder = fixture_.store().NewChain(value.size());
    while (builder.written_bytes() < value.size()) {
      const uint64_t step = 1 + random_() % 100000;
      ASSERT_EQ(builder.Write(std::string_view(value).substr(builder.written_bytes(), step)),
                OpResult::kOk);
      if (random_() % 20 == 0) {
        return;  // unfinished
      }
    }
    ASSERT_EQ(builder.Write("x"), OpResult::kTooLarge);
    ASSERT_EQ(fixture_.store().PutChain(fixture_.KeyOf(key), builder.Finish(), 0, ++seq_),
              OpResult::kOk);
    model_[key] = {std::move(value), 0, seq_};
  }

  // Two items share one chain.
  void Copy(const std::string& key) {
    const Item* const item = fixture_.Find(key);
    if (item == nullptr || !item->is_chain()) {
      return;
    }
    const std::string other = "key:" + std::to_string(random_() % 3000);
    ASSERT_EQ(fixture_.store().PutChain(fixture_.KeyOf(other), item->chain(), 0, ++seq_),
              OpResult::kOk);
    model_[other] = {model_[key].value, 0, seq_};
  }

  void HoldOrDrop(const std::string& key) {
    const Item* const item = fixture_.Find(key);
    if (item != nullptr && item->is_chain()) {
      held_.push_back({item->chain(), ValueOf(*item)});
    }
    if (held_.size() > 8) {
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(random_() % held_.size()));
    }
  }

  std::mt19937_64 random_;
  StoreFixture fixture_;
  std::map<std::string, ModelItem> model_;
  std::vector<HeldChain> held_;
  Seq seq_ = 0;
};

class ModelTest : public testing::TestWithParam<uint64_t> {};

TEST_P(ModelTest, StoreEqualsMap) {
  ModelRun run(GetParam());
  for (int step = 0; step < 20000; ++step) {
    ASSERT_NO_FATAL_FAILURE(run.Step()) << "step " << step;
    ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
  }
  ASSERT_NO_FATAL_FAILURE(run.Compare());
  run.EraseAll();
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModelTest, testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace kvstored::store
