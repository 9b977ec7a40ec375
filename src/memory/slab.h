// Slab allocator of one shard: slots of fixed size classes, carved from chunks of the region pool.
//
// A chunk is 32 pages of 64 KiB; its first 4 KiB describe it. A slab is one page (slots up to 4
// KiB) or a group of eight (larger ones), all slots of one class. From any slot the chunk is found
// by masking the address, and in the chunk the slab by the page number. An empty slab gives its
// pages back at once, for any class to take; an empty chunk goes back to the pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memory/region_pool.h"

namespace kvstored::memory {

inline constexpr size_t kSlabPageBytes = size_t{64} << 10;

// Classes are 8 bytes apart up to 512 bytes, then an eighth of a power of two. The largest holds an
// item with the longest key and the longest inline value.
inline constexpr uint32_t kFineClassCount = 65;  // class i <= 64: slots of 8 * i bytes
inline constexpr uint32_t kSlotClassCount = 130;
inline constexpr size_t kSlotBytesMax = (size_t{128} << 10) + (size_t{16} << 10);

// The class of a request, 1 .. kSlotClassCount - 1. bytes: 1 .. kSlotBytesMax.
inline uint32_t SlotClassOf(size_t bytes) {
  if (bytes <= 512) {
    return static_cast<uint32_t>((bytes + 7) / 8);
  }
  const uint32_t log2 = 63 - static_cast<uint32_t>(__builtin_clzll(bytes - 1));  // >= 9
  const uint32_t eighth = static_cast<uint32_t>((bytes - 1) >> (log2 - 3)) & 7;
  return kFineClassCount + (log2 - 9) * 8 + eighth;
}

// Slot size of a class.
inline constexpr size_t SlotClassBytes(uint32_t slot_class) {
  if (slot_class < kFineClassCount) {
    return size_t{8} * slot_class;
  }
  const uint32_t log2 = 9 + (slot_class - kFineClassCount) / 8;
  const uint32_t eighth = (slot_class - kFineClassCount) % 8;
  return (size_t{1} << log2) + (size_t{1} << (log2 - 3)) * (eighth + 1);
}
static_assert(SlotClassBytes(kSlotClassCount - 1) == kSlotBytesMax);

inline size_t SlotBytes(size_t bytes) {
  return SlotClassBytes(SlotClassOf(bytes));
}

struct SlotClassCounters {
  uint64_t slab_count = 0;
  uint64_t slab_bytes = 0;       // pages held by the class
  uint64_t slot_count = 0;       // slots of those slabs
  uint64_t used_count = 0;       // of them in use
  uint64_t requested_bytes = 0;  // what they were asked for

  SlotClassCounters operator+(const SlotClassCounters& other) const {
    return {.slab_count = slab_count + other.slab_count,
            .slab_bytes = slab_bytes + other.slab_bytes,
            .slot_count = slot_count + other.slot_count,
            .used_count = used_count + other.used_count,
            .requested_bytes = requested_bytes + other.requested_bytes};
  }
};

// Shard-local. Invariants: (1) a slab on a class's list has at least one free slot; (2) a chunk
// holds at least one slab, or it is back in the pool; (3) what is charged to the pool's budget
// is at least used_bytes() and less than that plus twice kChargeStepBytes; nothing while nothing is
// used.
class SlabAllocator {
 public:
  explicit SlabAllocator(RegionPool* pool);
  // Gives every chunk back, whatever was in use.
  ~SlabAllocator();
  SlabAllocator(const SlabAllocator&) = delete;
  SlabAllocator& operator=(const SlabAllocator&) = delete;

  // A slot of at least `bytes` (contents undefined), aligned to 8, to 64 if SlotBytes(bytes) is a
  // multiple of 64; null if the pool is exhausted.
  void* Allocate(size_t bytes);
  // `bytes` as it was asked for.
  void Free(void* slot, size_t bytes);
  // While `on`, memory is found even where the pool is at its limit (RegionPool::Allocate): for a
  // transaction, which must not stop half way.
  void SetMustSucceed(bool on) {
    must_succeed_ = on;
  }
  bool must_succeed() const {
    return must_succeed_;
  }
  // While `on`, the pool's limit does not bind, only the kernel does: for what is there already, on
  // disk or on the primary, and must be held whatever the limit says now.
  void SetBeyondLimit(bool on) {
    beyond_limit_ = on;
  }
  // A whole chunk, for what no class holds.
  void* AllocateChunk();
  void FreeChunk(void* chunk);

  // Bytes of slots (and whole chunks) in use.
  uint64_t used_bytes() const {
    return used_bytes_;
  }
  // What those were asked for; the difference is internal waste.
  uint64_t requested_bytes() const {
    return requested_bytes_;
  }
  // Bytes of chunks held; beyond used_bytes() it is external waste.
  uint64_t held_bytes() const {
    return held_bytes_;
  }
  SlotClassCounters ClassCounters(uint32_t slot_class) const;

  // --- Evacuation (slab_evacuate.cc): where frees have left chunks thinly used, their slots move
  // together and the chunks go back to the pool, for any class and any shard. Only for allocators
  // whose every slot may move. ---

  // Bytes of chunks that would come free if all slots moved together.
  uint64_t ThinBytes() const;
  bool IsEvacuating() const {
    return evacuated_ != nullptr;
  }
  // Picks the emptiest of so many chunks, taken at random; from now on nothing is placed in it.
  // False: there is none beside the one that would take its slots.
  bool BeginEvacuation(uint64_t random, uint32_t sample_count);
  // The next slots in use of the chunk, all of one class; how many. 0: none is left, or the chunk
  // has gone already. Looks only forward: the caller moves each (Allocate, copy, Free) at once, and
  // frees no other before it has.
  size_t NextToMove(std::span<void*> slots);
  // Nothing moves out any more: places are given in the chunk again.
  void EndEvacuation();

 private:
  struct Slab;
  struct Chunk;
  struct ClassState {
    Slab* open = nullptr;  // slabs with a free slot
    SlotClassCounters counters;
  };
  static constexpr int64_t kChargeStepBytes = 64 << 10;

  static Chunk* ChunkOf(void* slot);
  static uint64_t UsedBytes(const Chunk& chunk);
  void NoteFreeSlots(const Slab& slab);
  bool OpenSlab(uint32_t slot_class);
  void LinkSlab(Slab* slab);
  void UnlinkSlab(Slab* slab);
  void CloseSlab(Slab* slab);
  Chunk* NewChunk();
  void DropChunk(Chunk* chunk);
  void FileChunk(Chunk* chunk);
  void UnfileChunk(Chunk* chunk);
  void SettleCharge();
  void* PoolChunk();

  RegionPool* const pool_;
  bool must_succeed_ = false;
  bool beyond_limit_ = false;
  std::array<ClassState, kSlotClassCount> classes_;
  Chunk* whole_group_chunks_ = nullptr;  // chunks with a free group of eight pages
  Chunk* page_chunks_ = nullptr;         // chunks with free pages, but no free group
  Chunk* full_chunks_ = nullptr;
  std::vector<Chunk*> chunks_;  // all of them
  uint64_t used_bytes_ = 0;
  uint64_t requested_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  int64_t charged_bytes_ = 0;

  // Evacuation: how far it has come.
  Chunk* evacuated_ = nullptr;
  uint32_t evacuated_page_ = 0;
  uint32_t evacuated_slot_ = 0;
  std::vector<bool> slot_is_free_;
};

}  // namespace kvstored::memory
