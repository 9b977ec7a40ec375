#include "memory/slab.h"

#include <cstring>
#include <new>

#include "base/check.h"
#include "memory/poison.h"
#include "memory/slab_layout.h"

namespace kvstored::memory {
namespace {

constexpr size_t kPageSlotBytesMax = 4096;  // larger slots live in slabs of a whole group

// The pages of groups that are free as a whole.
uint32_t FreeGroupMask(uint32_t free_pages) {
  uint32_t mask = 0;
  for (uint32_t group = 0; group < kPageCount / kGroupPages; ++group) {
    const uint32_t pages = 0xffu << (group * kGroupPages);
    if ((free_pages & pages) == pages) {
      mask |= pages;
    }
  }
  return mask;
}

}  // namespace

SlabAllocator::SlabAllocator(RegionPool* pool) : pool_(pool) {
  static_assert(sizeof(Chunk) <= kChunkHeadBytes);
}

SlabAllocator::~SlabAllocator() {
  for (Chunk* chunk : chunks_) {
    pool_->Free(chunk);
  }
  pool_->Charge(-charged_bytes_);
}

void SlabAllocator::SettleCharge() {
  const int64_t used = static_cast<int64_t>(used_bytes_);
  const int64_t spare = charged_bytes_ - used;
  if (spare < 0 || spare >= 2 * kChargeStepBytes || used == 0) {
    const int64_t charged = (used + kChargeStepBytes - 1) / kChargeStepBytes * kChargeStepBytes;
    pool_->Charge(charged - charged_bytes_);
    charged_bytes_ = charged;
  }
}

void SlabAllocator::FileChunk(Chunk* chunk) {
  Chunk** const list = FreeGroupMask(chunk->free_pages) != 0 ? &whole_group_chunks_
                       : chunk->free_pages != 0              ? &page_chunks_
                                                             : &full_chunks_;
  chunk->list = list;
  chunk->prev = nullptr;
  chunk->next = *list;
  if (*list != nullptr) {
    (*list)->prev = chunk;
  }
  *list = chunk;
}

void SlabAllocator::UnfileChunk(Chunk* chunk) {
  if (chunk->prev != nullptr) {
    chunk->prev->next = chunk->next;
  } else {
    *chunk->list = chunk->next;
  }
  if (chunk->next != nullptr) {
    chunk->next->prev = chunk->prev;
  }
}

void* SlabAllocator::PoolChunk() {
  void* chunk = pool_->Allocate();
  if (chunk == nullptr && (must_succeed_ || beyond_limit_)) {
    chunk = pool_->Allocate(/*beyond_limit=*/true);
    // Recovery drops the whole of a transaction that was not closed: ending is what keeps it whole.
    KVS_CHECK(chunk != nullptr || !must_succeed_,
              "the kernel refuses %llu bytes inside a transaction; held_bytes=%llu",
              static_cast<unsigned long long>(kChunkBytes),
              static_cast<unsigned long long>(held_bytes_));
  }
  return chunk;
}

SlabAllocator::Chunk* SlabAllocator::NewChunk() {
  void* const memory = PoolChunk();
  if (memory == nullptr) {
    return nullptr;
  }
  Chunk* const chunk = new (memory) Chunk;
  chunk->owner = this;
  chunk->free_pages = UINT32_MAX;
  chunk->index = static_cast<uint32_t>(chunks_.size());
  chunks_.push_back(chunk);
  held_bytes_ += kChunkBytes;
  Poison(static_cast<char*>(memory) + kChunkHeadBytes, kChunkBytes - kChunkHeadBytes);
  return chunk;
}

// Gives the class a slab with free slots. False: the pool is exhausted.
bool SlabAllocator::OpenSlab(uint32_t slot_class) {
  const size_t slot_bytes = SlotClassBytes(slot_class);
  const uint32_t page_count = slot_bytes <= kPageSlotBytesMax ? 1 : kGroupPages;
  Chunk* chunk = page_count == 1 && page_chunks_ != nullptr ? page_chunks_ : whole_group_chunks_;
  if (chunk != nullptr) {
    UnfileChunk(chunk);
  } else {
    chunk = NewChunk();
    if (chunk == nullptr) {
      return false;
    }
  }
  const uint32_t group_pages = FreeGroupMask(chunk->free_pages);
  uint32_t choice = group_pages;
  if (page_count == 1 && (chunk->free_pages & ~group_pages) != 0) {
    choice = chunk->free_pages & ~group_pages;  // breaks no group
  }
  const uint32_t page = static_cast<uint32_t>(__builtin_ctz(choice));
  chunk->free_pages &= ~((page_count == 1 ? 1u : 0xffu) << page);
  for (uint32_t i = page; i < page + page_count; ++i) {
    chunk->first_page[i] = static_cast<uint8_t>(page);
  }
  FileChunk(chunk);

  const size_t head_bytes = page == 0 ? kChunkHeadBytes : 0;
  const size_t slab_bytes = page_count * kSlabPageBytes - head_bytes;
  Slab* const slab = &chunk->slabs[page];
  ClassState& state = classes_[slot_class];
  *slab = {.next = nullptr,
           .prev = nullptr,
           .free_head = kNoSlot,
           .begin = static_cast<uint32_t>(page * kSlabPageBytes + head_bytes),
           .slot_bytes = static_cast<uint32_t>(slot_bytes),
           .carved_count = 0,
           .used_count = 0,
           .capacity = static_cast<uint16_t>(slab_bytes / slot_bytes),
           .slot_class = static_cast<uint8_t>(slot_class),
           .page = static_cast<uint8_t>(page),
           .page_count = static_cast<uint8_t>(page_count)};
  LinkSlab(slab);
  ++state.counters.slab_count;
  state.counters.slab_bytes += page_count * kSlabPageBytes;
  state.counters.slot_count += slab->capacity;
  return true;
}

void SlabAllocator::LinkSlab(Slab* slab) {
  ClassState& state = classes_[slab->slot_class];
  slab->prev = nullptr;
  slab->next = state.open;
  if (state.open != nullptr) {
    state.open->prev = slab;
  }
  state.open = slab;
}

void SlabAllocator::UnlinkSlab(Slab* slab) {
  if (slab->prev != nullptr) {
    slab->prev->next = slab->next;
  } else {
    classes_[slab->slot_class].open = slab->next;
  }
  if (slab->next != nullptr) {
    slab->next->prev = slab->prev;
  }
}

// An empty slab's pages go back to its chunk, an empty chunk to the pool.
void SlabAllocator::CloseSlab(Slab* slab) {
  ClassState& state = classes_[slab->slot_class];
  Chunk* const chunk = ChunkOf(slab);
  if (chunk != evacuated_) {
    UnlinkSlab(slab);
    UnfileChunk(chunk);
  }
  --state.counters.slab_count;
  state.counters.slab_bytes -= slab->page_count * kSlabPageBytes;
  state.counters.slot_count -= slab->capacity;
  chunk->free_pages |= (slab->page_count == 1 ? 1u : 0xffu) << slab->page;
  if (chunk->free_pages == UINT32_MAX) {
    DropChunk(chunk);
  } else if (chunk != evacuated_) {
    FileChunk(chunk);
  }
}

void SlabAllocator::DropChunk(Chunk* chunk) {
  if (chunk == evacuated_) {
    evacuated_ = nullptr;
  }
  chunks_[chunk->index] = chunks_.back();
  chunks_[chunk->index]->index = chunk->index;
  chunks_.pop_back();
  held_bytes_ -= kChunkBytes;
  pool_->Free(chunk);
}

void* SlabAllocator::Allocate(size_t bytes) {
  KVS_DCHECK(bytes != 0 && bytes <= kSlotBytesMax, "bytes=%zu", bytes);
  const uint32_t slot_class = SlotClassOf(bytes);
  ClassState& state = classes_[slot_class];
  if (state.open == nullptr && !OpenSlab(slot_class)) {
    return nullptr;
  }
  Slab* const slab = state.open;
  char* const chunk = reinterpret_cast<char*>(ChunkOf(slab));
  char* slot;
  if (slab->free_head != kNoSlot) {
    slot = chunk + slab->free_head;
    Unpoison(slot, slab->slot_bytes);
    std::memcpy(&slab->free_head, slot, sizeof(slab->free_head));
  } else {
    slot = chunk + slab->begin + size_t{slab->carved_count} * slab->slot_bytes;
    ++slab->carved_count;
  }
  if (++slab->used_count == slab->capacity) {
    state.open = slab->next;
    if (slab->next != nullptr) {
      slab->next->prev = nullptr;
    }
  }
  ++state.counters.used_count;
  state.counters.requested_bytes += bytes;
  used_bytes_ += slab->slot_bytes;
  requested_bytes_ += bytes;
  SettleCharge();
  Unpoison(slot, bytes);
  Poison(slot + (bytes + 7) / 8 * 8, slab->slot_bytes - (bytes + 7) / 8 * 8);
  return slot;
}

void SlabAllocator::Free(void* slot, size_t bytes) {
  Chunk* const chunk = ChunkOf(slot);
  const uint64_t offset = reinterpret_cast<uint64_t>(slot) & (kChunkBytes - 1);
  Slab* const slab = &chunk->slabs[chunk->first_page[offset / kSlabPageBytes]];
  KVS_CHECK(chunk->owner == this && slab->used_count != 0, "slot=%p used_count=%u", slot,
            unsigned{slab->used_count});
  KVS_DCHECK(slab->slot_class == SlotClassOf(bytes), "bytes=%zu slot_bytes=%u", bytes,
             slab->slot_bytes);
  ClassState& state = classes_[slab->slot_class];
  --state.counters.used_count;
  state.counters.requested_bytes -= bytes;
  used_bytes_ -= slab->slot_bytes;
  requested_bytes_ -= bytes;
  SettleCharge();
  if (slab->used_count-- == slab->capacity && chunk != evacuated_) {
    LinkSlab(slab);
  }
  if (slab->used_count == 0) {
    Poison(reinterpret_cast<char*>(chunk) + slab->begin, size_t{slab->capacity} * slab->slot_bytes);
    CloseSlab(slab);
    return;
  }
  std::memcpy(slot, &slab->free_head, sizeof(slab->free_head));
  slab->free_head = static_cast<uint32_t>(offset);
  Poison(slot, slab->slot_bytes);
}

void* SlabAllocator::AllocateChunk() {
  void* const chunk = PoolChunk();
  if (chunk != nullptr) {
    held_bytes_ += kChunkBytes;
    used_bytes_ += kChunkBytes;
    requested_bytes_ += kChunkBytes;
    SettleCharge();
  }
  return chunk;
}

void SlabAllocator::FreeChunk(void* chunk) {
  held_bytes_ -= kChunkBytes;
  used_bytes_ -= kChunkBytes;
  requested_bytes_ -= kChunkBytes;
  SettleCharge();
  pool_->Free(chunk);
}

SlotClassCounters SlabAllocator::ClassCounters(uint32_t slot_class) const {
  return classes_[slot_class].counters;
}

}  // namespace kvstored::memory
