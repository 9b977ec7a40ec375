#include "memory/slab.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "kvstored/limits.h"
#include "memory/poison.h"

namespace kvstored::memory {
namespace {

TEST(SlotClassTest, EveryRequestGetsTheSmallestClassThatHoldsIt) {
  for (size_t bytes = 1; bytes <= kSlotBytesMax; ++bytes) {
    const uint32_t slot_class = SlotClassOf(bytes);
    ASSERT_LT(slot_class, kSlotClassCount);
    ASSERT_GE(SlotClassBytes(slot_class), bytes);
    ASSERT_TRUE(slot_class == 1 || SlotClassBytes(slot_class - 1) < bytes) << bytes;
  }
}

TEST(SlotClassTest, StepsAreEightBytesThenAnEighth) {
  for (uint32_t slot_class = 2; slot_class < kSlotClassCount; ++slot_class) {
    const size_t bytes = SlotClassBytes(slot_class);
    const size_t step = bytes - SlotClassBytes(slot_class - 1);
    if (bytes <= 512) {
      ASSERT_EQ(step, 8u);
    } else {
      ASSERT_LE(step * 8, SlotClassBytes(slot_class - 1));
      ASSERT_EQ(bytes % 64, 0u);
    }
  }
}

TEST(SlabTest, LargestItemFits) {
  EXPECT_GE(kSlotBytesMax, 16 + 8 + kKeyBytesMax + kChainBytesMin - 1);
}

class SlabAllocatorTest : public testing::Test {
 protected:
  RegionPool pool_{{.max_bytes = uint64_t{256} << 20, .head_room_bytes = kChunkBytes}};
};

TEST_F(SlabAllocatorTest, SlotsDoNotOverlapAndAreAligned) {
  SlabAllocator slabs(&pool_);
  for (uint32_t slot_class = 1; slot_class < kSlotClassCount; ++slot_class) {
    const size_t bytes = SlotClassBytes(slot_class);
    const size_t count = 2 * (size_t{512} << 10) / bytes + 3;
    std::map<char*, size_t> slots;
    for (size_t i = 0; i < count; ++i) {
      char* const slot = static_cast<char*>(slabs.Allocate(bytes));
      ASSERT_NE(slot, nullptr);
      ASSERT_EQ(reinterpret_cast<uint64_t>(slot) % (bytes % 64 == 0 ? 64 : 8), 0u);
      slots[slot] = bytes;
      // Both ends belong to us alone.
      slot[0] = static_cast<char>(i);
      slot[bytes - 1] = static_cast<char>(i);
    }
    ASSERT_EQ(slots.size(), count);
    char* end = nullptr;
    for (const auto& [slot, slot_bytes] : slots) {
      ASSERT_GE(slot, end);
      end = slot + slot_bytes;
    }
    EXPECT_EQ(slabs.ClassCounters(slot_class).used_count, count);
    for (const auto& [slot, slot_bytes] : slots) {
      slabs.Free(slot, slot_bytes);
    }
    EXPECT_EQ(slabs.ClassCounters(slot_class).slab_count, 0u);
  }
  EXPECT_EQ(pool_.counters().used_bytes, 0u);
  EXPECT_EQ(slabs.held_bytes(), 0u);
}

TEST_F(SlabAllocatorTest, EmptySlabsServeOtherClasses) {
  RegionPool small({.max_bytes = kChunkBytes, .head_room_bytes = 1});
  SlabAllocator slabs(&small);
  for (const size_t bytes : {size_t{24}, size_t{100}, size_t{4096}, size_t{5000}, size_t{65536},
                             size_t{512}, kSlotBytesMax}) {
    std::vector<void*> slots;
    uint64_t total_bytes = 0;
    while (void* const slot = slabs.Allocate(bytes)) {
      slots.push_back(slot);
      total_bytes += bytes;
    }
    // The one class takes nearly all of what the pool has.
    EXPECT_GE(total_bytes, small.counters().used_bytes * 8 / 10) << bytes;
    for (void* slot : slots) {
      slabs.Free(slot, bytes);
    }
    EXPECT_EQ(small.counters().used_bytes, 0u);
  }
}

TEST_F(SlabAllocatorTest, WasteIsKnown) {
  SlabAllocator slabs(&pool_);
  std::vector<void*> slots;
  for (int i = 0; i < 100; ++i) {
    slots.push_back(slabs.Allocate(130));
  }
  const SlotClassCounters counters = slabs.ClassCounters(SlotClassOf(130));
  EXPECT_EQ(counters.used_count, 100u);
  EXPECT_EQ(counters.requested_bytes, 13000u);
  EXPECT_EQ(counters.slab_bytes, kSlabPageBytes);
  EXPECT_EQ(slabs.used_bytes(), 13600u);
  EXPECT_EQ(slabs.requested_bytes(), 13000u);
  EXPECT_EQ(slabs.held_bytes(), kChunkBytes);
  for (void* slot : slots) {
    slabs.Free(slot, 130);
  }
  EXPECT_EQ(slabs.used_bytes(), 0u);
  EXPECT_EQ(slabs.requested_bytes(), 0u);
}

TEST_F(SlabAllocatorTest, ChargesWhatIsUsedToTheBudget) {
  {
    SlabAllocator slabs(&pool_);
    for (int i = 0; i < 10000; ++i) {
      ASSERT_NE(slabs.Allocate(1000), nullptr);
      const int64_t spare = pool_.charged_bytes() - static_cast<int64_t>(slabs.used_bytes());
      ASSERT_GE(spare, 0);  // the least bit counts
      ASSERT_LT(spare, 128 << 10);
    }
    void* const chunk = slabs.AllocateChunk();
    EXPECT_GE(pool_.charged_bytes(), static_cast<int64_t>(kChunkBytes) + 10000000);
    slabs.FreeChunk(chunk);
  }
  EXPECT_EQ(pool_.charged_bytes(), 0);
  EXPECT_EQ(pool_.counters().used_bytes, 0u);
}

TEST_F(SlabAllocatorTest, RandomUseKeepsEverySlotsBytes) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    SlabAllocator slabs(&pool_);
    std::mt19937_64 random(seed);
    struct Held {
      unsigned char* slot;
      size_t bytes;
      unsigned char mark;
    };
    std::vector<Held> held;
    uint64_t used_bytes = 0;
    for (int step = 0; step < 60000; ++step) {
      const bool grow = (step / 10000) % 2 == 0;
      if (held.empty() || random() % 100 < (grow ? 65u : 35u)) {
        const size_t bytes = 8 + random() % (random() % 50 == 0 ? kSlotBytesMax - 8 : 700);
        auto* const slot = static_cast<unsigned char*>(slabs.Allocate(bytes));
        ASSERT_NE(slot, nullptr);
        held.push_back({slot, bytes, static_cast<unsigned char>(random())});
        std::memset(slot, held.back().mark, bytes);
        used_bytes += SlotBytes(bytes);
      } else {
        const size_t index = random() % held.size();
        const Held gone = held[index];
        held[index] = held.back();
        held.pop_back();
        for (size_t i = 0; i < gone.bytes; i += 61) {
          ASSERT_EQ(gone.slot[i], gone.mark);
        }
        slabs.Free(gone.slot, gone.bytes);
        used_bytes -= SlotBytes(gone.bytes);
      }
      ASSERT_EQ(slabs.used_bytes(), used_bytes);
    }
    EXPECT_EQ(slabs.held_bytes(), pool_.counters().used_bytes);
    for (const Held& item : held) {
      slabs.Free(item.slot, item.bytes);
    }
    EXPECT_EQ(pool_.counters().used_bytes, 0u);
  }
}

#ifdef KVS_HAS_ASAN
TEST_F(SlabAllocatorTest, AddressSanitizerSeesUseAfterFree) {
  SlabAllocator slabs(&pool_);
  void* const kept = slabs.Allocate(100);
  char* const gone = static_cast<char*>(slabs.Allocate(100));
  gone[99] = 1;
  slabs.Free(gone, 100);
  EXPECT_DEATH(static_cast<volatile char*>(gone)[50] = 1, "use-after-poison");
  slabs.Free(kept, 100);
}
#endif

}  // namespace
}  // namespace kvstored::memory
