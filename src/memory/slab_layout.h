// What lies at the head of a chunk of slabs; private to this room.
#pragma once

#include "kvstored/limits.h"
#include "memory/slab.h"

namespace kvstored::memory {

inline constexpr uint32_t kPageCount = kChunkBytes / kSlabPageBytes;
inline constexpr uint32_t kGroupPages = 8;
inline constexpr size_t kChunkHeadBytes = 4096;
inline constexpr uint32_t kNoSlot = UINT32_MAX;
static_assert(kPageCount == 32, "free pages are a 32-bit map");

struct SlabAllocator::Slab {
  Slab* next;
  Slab* prev;
  uint32_t free_head;  // offset in the chunk of the first freed slot, or kNoSlot
  uint32_t begin;      // offset in the chunk of the first slot
  uint32_t slot_bytes;
  uint16_t carved_count;  // slots from here on were never used
  uint16_t used_count;
  uint16_t capacity;
  uint8_t slot_class;
  uint8_t page;  // first page
  uint8_t page_count;
};

struct SlabAllocator::Chunk {
  const SlabAllocator* owner;
  Chunk* next;
  Chunk* prev;
  Chunk** list;                    // the list it is filed in
  uint32_t index;                  // in SlabAllocator::chunks_
  uint32_t free_pages;             // bit i: page i belongs to no slab
  uint8_t first_page[kPageCount];  // of the slab that page i belongs to
  Slab slabs[kPageCount];          // by first page

  // Is `page` the first of a slab?
  bool HasSlabAt(uint32_t page) const {
    return (free_pages >> page & 1) == 0 && first_page[page] == page;
  }
};

inline SlabAllocator::Chunk* SlabAllocator::ChunkOf(void* slot) {
  return reinterpret_cast<Chunk*>(reinterpret_cast<uint64_t>(slot) & ~(kChunkBytes - 1));
}

}  // namespace kvstored::memory
