#include "memory/region_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "kvstored/limits.h"

namespace kvstored::memory {
namespace {

TEST(RegionPoolTest, HandsOutAlignedChunksUpToItsLimit) {
  RegionPool pool({.max_bytes = 3 * kChunkBytes, .head_room_bytes = kChunkBytes});
  std::set<void*> chunks;
  for (int i = 0; i < 4; ++i) {
    void* const chunk = pool.Allocate();
    ASSERT_NE(chunk, nullptr);
    EXPECT_EQ(reinterpret_cast<uint64_t>(chunk) % kChunkBytes, 0u);
    std::memset(chunk, i, kChunkBytes);
    EXPECT_TRUE(chunks.insert(chunk).second);
  }
  EXPECT_EQ(pool.Allocate(), nullptr);
  EXPECT_EQ(pool.counters().exhausted_count, 1u);
  EXPECT_EQ(pool.counters().used_bytes, 4 * kChunkBytes);
  pool.Free(*chunks.begin());
  EXPECT_EQ(pool.counters().free_bytes, kChunkBytes);
  EXPECT_EQ(pool.Allocate(), *chunks.begin());
  for (void* chunk : chunks) {
    pool.Free(chunk);
  }
  EXPECT_EQ(pool.counters().used_bytes, 0u);
  EXPECT_EQ(pool.counters().mapped_bytes, 4 * kChunkBytes);
}

TEST(RegionPoolTest, StartMakesTheInitialBytesReady) {
  RegionPool pool({.initial_bytes = 5 * kChunkBytes - 1, .max_bytes = 64 * kChunkBytes});
  ASSERT_TRUE(pool.Start().ok());
  EXPECT_EQ(pool.counters().free_bytes, 5 * kChunkBytes);
  std::thread other([&] { pool.Pretouch(0, 2); });
  pool.Pretouch(1, 2);
  other.join();
  std::vector<void*> chunks;
  for (int i = 0; i < 5; ++i) {
    chunks.push_back(pool.Allocate());
  }
  EXPECT_EQ(pool.counters().grow_in_tick_count, 0u);
  // All inside one region, lowest first.
  ASSERT_EQ(pool.regions().size(), 1u);
  EXPECT_EQ(pool.regions()[0].base, chunks[0]);
  EXPECT_EQ(pool.regions()[0].kind, RegionKind::kHost);
  for (void* chunk : chunks) {
    pool.Free(chunk);
  }
}

TEST(RegionPoolTest, StartRefusesMoreThanTheLimitWithARemedy) {
  RegionPool pool({.initial_bytes = 9 * kChunkBytes,
                   .max_bytes = 4 * kChunkBytes,
                   .head_room_bytes = kChunkBytes});
  const absl::Status status = pool.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("memory.pool_size"), absl::string_view::npos);
}

TEST(RegionPoolTest, KeepFreeGrowsAheadAndTrimGivesBack) {
  RegionPool pool({.max_bytes = 8 * kChunkBytes, .head_room_bytes = kChunkBytes});
  EXPECT_EQ(pool.KeepFree(3), 3u);
  EXPECT_EQ(pool.KeepFree(3), 0u);
  void* const chunk = pool.Allocate();
  std::memset(chunk, 0xff, kChunkBytes);
  EXPECT_EQ(pool.counters().grow_in_tick_count, 0u);
  pool.Free(chunk);
  EXPECT_EQ(pool.Trim(1), 2u);
  EXPECT_EQ(pool.counters().mapped_bytes, kChunkBytes);
  EXPECT_EQ(pool.counters().free_bytes, kChunkBytes);
  // Trimmed addresses are used again before new ones.
  EXPECT_EQ(pool.KeepFree(3), 2u);
  EXPECT_EQ(pool.regions()[0].mapped_bytes, 3 * kChunkBytes);
  EXPECT_EQ(pool.KeepFree(100), 6u);
  EXPECT_EQ(pool.counters().mapped_bytes, 9 * kChunkBytes);
}

TEST(RegionPoolTest, LimitFollowsMaxBytes) {
  RegionPool pool({.max_bytes = 2 * kChunkBytes, .head_room_bytes = kChunkBytes});
  std::vector<void*> chunks;
  for (int i = 0; i < 3; ++i) {
    chunks.push_back(pool.Allocate());
  }
  ASSERT_EQ(pool.Allocate(), nullptr);
  pool.SetMaxBytes(5 * kChunkBytes);
  for (int i = 0; i < 3; ++i) {
    chunks.push_back(pool.Allocate());
    ASSERT_NE(chunks.back(), nullptr);
    std::memset(chunks.back(), 1, kChunkBytes);
  }
  ASSERT_EQ(pool.Allocate(), nullptr);
  pool.SetMaxBytes(1);
  pool.Free(chunks.back());
  chunks.pop_back();
  EXPECT_EQ(pool.Allocate(), nullptr) << "a free chunk is no room when the limit is lower";
  for (void* chunk : chunks) {
    pool.Free(chunk);
  }
  EXPECT_EQ(pool.KeepFree(100), 0u);
}

TEST(RegionPoolTest, OneBudgetForEverybody) {
  RegionPool pool({.max_bytes = 1000});
  EXPECT_TRUE(pool.WithinBudget(1000));
  EXPECT_FALSE(pool.WithinBudget(1001));
  pool.Charge(600);
  EXPECT_TRUE(pool.WithinBudget(400));
  EXPECT_FALSE(pool.WithinBudget(401));
  pool.SetMaxBytes(500);
  EXPECT_FALSE(pool.WithinBudget(0));
  pool.Charge(-600);
  EXPECT_TRUE(pool.WithinBudget(500));
  EXPECT_EQ(pool.charged_bytes(), 0);
}

TEST(RegionPoolTest, ManyThreadsShareIt) {
  RegionPool pool({.max_bytes = 32 * kChunkBytes, .head_room_bytes = kChunkBytes});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int round = 0; round < 200; ++round) {
        std::vector<uint64_t*> mine;
        for (int i = 0; i < 6; ++i) {
          auto* const chunk = static_cast<uint64_t*>(pool.Allocate());
          if (chunk != nullptr) {
            *chunk = static_cast<uint64_t>(t);
            mine.push_back(chunk);
          }
        }
        pool.Charge(64);
        for (uint64_t* chunk : mine) {
          ASSERT_EQ(*chunk, static_cast<uint64_t>(t));
          pool.Free(chunk);
        }
        pool.Charge(-64);
      }
    });
  }
  for (int round = 0; round < 100; ++round) {
    pool.KeepFree(4);
    pool.Trim(2);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(pool.counters().used_bytes, 0u);
  EXPECT_EQ(pool.counters().free_bytes, pool.counters().mapped_bytes);
  EXPECT_EQ(pool.charged_bytes(), 0);
}

TEST(RegionPoolDeathTest, ALostChunkIsNoticed) {
  EXPECT_DEATH(
      {
        RegionPool pool({.max_bytes = kChunkBytes});
        pool.Allocate();
      },
      "still in use");
}

#if !defined(__SANITIZE_THREAD__)
TEST(RegionPoolDeathTest, AnOverrunMeetsTheGuardPage) {
  RegionPool pool({.max_bytes = kChunkBytes, .head_room_bytes = 1});
  char* const chunk = static_cast<char*>(pool.Allocate());
  EXPECT_DEATH(*static_cast<volatile char*>(chunk - 1) = 1, "");
  EXPECT_DEATH(*static_cast<volatile char*>(chunk + pool.regions()[0].size_bytes) = 1, "");
  pool.Free(chunk);
}
#endif

}  // namespace
}  // namespace kvstored::memory
