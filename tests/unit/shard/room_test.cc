// Room in the memory budget: who asks, who gives, and what a refused command finds.
#include "tests/unit/shard/shard_fixture.h"

namespace kvstored::shard {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{8} << 20;

class RoomTest : public ShardFixture {
 protected:
  RoomTest() {
    pool_.SetMaxBytes(kMaxBytes);
  }
  void UsePolicy(store::Eviction policy) {
    gate_.eviction.store(static_cast<uint8_t>(policy));
    Tick();
  }
  void Tick() {
    shard_->BeginTick(now_us_ += 1'000);
    shard_->Housekeeping();
    shard_->Seal();
    shard_->AdvanceCommitted(shard_->applied());
  }
  // Writes as a client does that waits when it is told to.
  OpResult Write(std::string_view key, std::string_view value) {
    for (int ticks = 0; ticks < 1'000; ++ticks) {
      const OpResult reserved = shard_->Reserve(1, key.size() + value.size());
      if (reserved == OpResult::kOk) {
        return shard_->Set(KeyOf(key), value, 0);
      }
      if (reserved != OpResult::kWait) {
        return reserved;
      }
      Tick();
    }
    return OpResult::kWait;
  }
  // A shard of another node: what it writes goes nowhere.
  Shard::Options Elsewhere(memory::RegionPool* pool, const NodeGate* gate) const {
    return {.id = 0,
            .shard_count = 1,
            .pool = pool,
            .digester = &digester_,
            .gate = gate,
            .submit = [](record::BatchRef) {},
            .committed_moved = {},
            .reserve_log = [](uint64_t) { return OpResult::kOk; },
            .return_log =
                [](uint64_t) {
                }};
  }
  // Until it is refused or `count` are written; the number of those that were.
  int Fill(int count) {
    const std::string value(1'000, 'v');
    for (int i = 0; i < count; ++i) {
      if (Write("key:" + std::to_string(i), value) != OpResult::kOk) {
        return i;
      }
    }
    return count;
  }

  uint64_t now_us_ = kStartUs;
};

TEST_F(RoomTest, WithoutAPolicyWritesAreRefusedAtTheLimit) {
  const int written = Fill(20'000);
  EXPECT_GT(written, 6'000);
  EXPECT_LT(written, 9'000);
  EXPECT_EQ(Write("one more", "v"), OpResult::kOutOfMemory);
  EXPECT_EQ(shard_->counters().evicted_keys, 0u);
}

TEST_F(RoomTest, TheLeastRecentlyUsedGoAndAReplicaFollows) {
  UsePolicy(store::Eviction::kAllKeysLru);
  ASSERT_EQ(Write("hot", "v"), OpResult::kOk);
  const std::string value(1'000, 'v');
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(Write("key:" + std::to_string(i), value), OpResult::kOk) << i;
    ASSERT_NE(shard_->Find(KeyOf("hot")), nullptr) << i;
    if (i % 10 == 0) {
      Tick();
    }
  }
  EXPECT_TRUE(pool_.WithinBudget(0));
  EXPECT_GT(shard_->counters().evicted_keys, 10'000u);
  EXPECT_EQ(shard_->counters().evicted_keys + shard_->store()->size(), 20'001u);
  // Evictions are records: who replays them holds the same.
  shard_->Seal();
  memory::RegionPool pool({.max_bytes = uint64_t{1} << 30});
  NodeGate gate;
  Shard replica(Elsewhere(&pool, &gate));
  replica.BeginTick(kStartUs);
  Replay(batches_, &replica);
  EXPECT_EQ(replica.store()->size(), shard_->store()->size());
  EXPECT_EQ(replica.store()->StateHash(), shard_->store()->StateHash());
}

TEST_F(RoomTest, NothingThatAPolicySparesGoes) {
  UsePolicy(store::Eviction::kVolatileTtl);
  EXPECT_LT(Fill(20'000), 9'000);
  EXPECT_EQ(shard_->counters().evicted_keys, 0u);
  EXPECT_EQ(Write("one more", "v"), OpResult::kOutOfMemory);
}

TEST_F(RoomTest, MoreThanThereEverIsIsRefusedAtOnceAndNothingGoes) {
  UsePolicy(store::Eviction::kAllKeysLru);
  ASSERT_EQ(Fill(1'000), 1'000);
  EXPECT_EQ(shard_->AskRoom(kMaxBytes + 1), OpResult::kOutOfMemory);
  EXPECT_EQ(shard_->store()->size(), 1'000u);
}

TEST_F(RoomTest, ALoweredLimitIsReachedInSteps) {
  UsePolicy(store::Eviction::kAllKeysRandom);
  ASSERT_EQ(Fill(6'000), 6'000);
  pool_.SetMaxBytes(kMaxBytes / 4);
  Tick();
  EXPECT_FALSE(pool_.WithinBudget(0));
  for (int i = 0; i < 20; ++i) {
    Tick();
  }
  EXPECT_TRUE(pool_.WithinBudget(0));
  EXPECT_GT(shard_->store()->size(), 1'000u);
}

TEST_F(RoomTest, WhatWasFlushedIsRoomAlsoWithoutAPolicy) {
  Fill(20'000);
  ASSERT_EQ(Write("one more", "v"), OpResult::kOutOfMemory);
  ASSERT_EQ(shard_->ReserveLog(1, 0), OpResult::kOk);
  shard_->Flush();
  for (int i = 0; i < 100 && shard_->AskRoom(kMaxBytes / 2) == OpResult::kWait; ++i) {
    Tick();
  }
  EXPECT_EQ(shard_->AskRoom(kMaxBytes / 2), OpResult::kOk);
}

TEST_F(RoomTest, AFullDiskIsToldAndNothingWaitsForEver) {
  UsePolicy(store::Eviction::kAllKeysLru);
  Fill(9'000);
  shard_->Seal();
  log_answer_ = OpResult::kDiskFull;
  OpResult result = OpResult::kOk;
  for (int i = 0; i < 1'000 && result == OpResult::kOk; ++i) {
    result = Write("more:" + std::to_string(i), std::string(1'000, 'v'));
  }
  EXPECT_EQ(result, OpResult::kDiskFull);
}

// A data set that is larger than max_memory, as it was lowered since, is held all the same; a
// primary that evicts comes below the limit afterwards.
TEST_F(RoomTest, RecordsFromElsewhereAreHeldBeyondTheLimit) {
  pool_.SetMaxBytes(uint64_t{256} << 20);
  ASSERT_EQ(Fill(200'000), 200'000);
  shard_->Seal();
  memory::RegionPool pool({.max_bytes = uint64_t{32} << 20, .head_room_bytes = uint64_t{2} << 20});
  NodeGate gate;
  gate.role.store(static_cast<uint8_t>(Role::kPrimary));
  Shard loaded(Elsewhere(&pool, &gate));
  loaded.BeginTick(kStartUs);
  Replay(batches_, &loaded);
  EXPECT_EQ(loaded.store()->size(), 200'000u);
  EXPECT_EQ(loaded.AskRoom(1), OpResult::kLoading);
  loaded.SetRecovered(loaded.applied(), loaded.applied());
  gate.loading.store(false);
  gate.writable.store(true);
  EXPECT_EQ(loaded.AskRoom(1), OpResult::kOutOfMemory);
  gate.eviction.store(static_cast<uint8_t>(store::Eviction::kAllKeysLru));
  for (uint64_t tick = 1; tick < 1'000; ++tick) {
    loaded.BeginTick(kStartUs + tick * 1'000);
    loaded.Housekeeping();
    loaded.Seal();
    loaded.AdvanceCommitted(loaded.applied());
  }
  EXPECT_TRUE(pool.WithinBudget(0));
  EXPECT_GT(loaded.store()->size(), 20'000u);
}

TEST_F(RoomTest, OneShardGivesWhatAnotherLacks) {
  UsePolicy(store::Eviction::kAllKeysLru);
  ASSERT_EQ(Fill(20'000), 20'000);
  std::vector<record::BatchRef> batches;
  const std::unique_ptr<Shard> other = MakeShard(&batches);
  other->BeginTick(now_us_);
  other->Housekeeping();
  const uint64_t before = shard_->store()->size();
  ASSERT_EQ(other->AskRoom(kMaxBytes / 2), OpResult::kWait);
  for (int i = 0; i < 50; ++i) {
    Tick();
    other->BeginTick(now_us_);
    other->Housekeeping();
  }
  EXPECT_EQ(other->AskRoom(kMaxBytes / 2), OpResult::kOk);
  EXPECT_LT(shard_->store()->size(), before);
}

}  // namespace
}  // namespace kvstored::shard
