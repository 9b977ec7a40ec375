// Evacuation of thinly used chunks. A chunk being emptied is on none of the lists that places are
// given from, and neither are its slabs; when its last slot is freed it goes back to the pool like
// any other.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "memory/poison.h"
#include "memory/slab_layout.h"

namespace kvstored::memory {

uint64_t SlabAllocator::ThinBytes() const {
  uint64_t thin_bytes = 0;
  uint64_t slab_bytes = 0;
  for (uint32_t slot_class = 1; slot_class < kSlotClassCount; ++slot_class) {
    const SlotClassCounters& counters = classes_[slot_class].counters;
    slab_bytes += counters.slab_bytes;
    if (counters.slab_count > 1) {
      // The last slab of a class is seldom full.
      const uint64_t spare_bytes =
          (counters.slot_count - counters.used_count) * SlotClassBytes(slot_class);
      thin_bytes += spare_bytes - std::min(spare_bytes, counters.slab_bytes / counters.slab_count);
    }
  }
  const uint64_t page_bytes = chunks_.size() * kChunkBytes - slab_bytes;
  return thin_bytes + page_bytes - std::min<uint64_t>(page_bytes, kChunkBytes);
}

uint64_t SlabAllocator::UsedBytes(const Chunk& chunk) {
  uint64_t bytes = 0;
  for (uint32_t page = 0; page < kPageCount; ++page) {
    if (chunk.HasSlabAt(page)) {
      bytes += uint64_t{chunk.slabs[page].used_count} * chunk.slabs[page].slot_bytes;
    }
  }
  return bytes;
}

bool SlabAllocator::BeginEvacuation(uint64_t random, uint32_t sample_count) {
  KVS_CHECK(evacuated_ == nullptr, "chunk=%p", static_cast<void*>(evacuated_));
  if (chunks_.size() < 2) {
    return false;
  }
  uint64_t fewest_bytes = UINT64_MAX;
  for (uint32_t i = 0; i < sample_count; ++i) {
    Chunk* const chunk = chunks_[(random + i * 0x9e3779b97f4a7c15) % chunks_.size()];
    const uint64_t used_bytes = UsedBytes(*chunk);
    if (used_bytes < fewest_bytes) {
      fewest_bytes = used_bytes;
      evacuated_ = chunk;
    }
  }
  UnfileChunk(evacuated_);
  for (uint32_t page = 0; page < kPageCount; ++page) {
    Slab* const slab = &evacuated_->slabs[page];
    if (evacuated_->HasSlabAt(page) && slab->used_count < slab->capacity) {
      UnlinkSlab(slab);
    }
  }
  evacuated_page_ = 0;
  evacuated_slot_ = 0;
  return true;
}

void SlabAllocator::NoteFreeSlots(const Slab& slab) {
  slot_is_free_.assign(slab.capacity, false);
  for (uint32_t slot = slab.carved_count; slot < slab.capacity; ++slot) {
    slot_is_free_[slot] = true;
  }
  for (uint32_t offset = slab.free_head; offset != kNoSlot;) {
    slot_is_free_[(offset - slab.begin) / slab.slot_bytes] = true;
    char* const link = reinterpret_cast<char*>(evacuated_) + offset;
    Unpoison(link, sizeof(offset));
    std::memcpy(&offset, link, sizeof(offset));
    Poison(link, sizeof(offset));
  }
}

size_t SlabAllocator::NextToMove(std::span<void*> slots) {
  size_t count = 0;
  for (; count == 0 && evacuated_ != nullptr && evacuated_page_ < kPageCount; ++evacuated_page_) {
    if (!evacuated_->HasSlabAt(evacuated_page_)) {
      evacuated_slot_ = 0;  // the slab may have gone while it was half moved
      continue;
    }
    const Slab& slab = evacuated_->slabs[evacuated_page_];
    NoteFreeSlots(slab);
    while (evacuated_slot_ < slab.capacity && count < slots.size()) {
      if (!slot_is_free_[evacuated_slot_]) {
        slots[count++] = reinterpret_cast<char*>(evacuated_) + slab.begin +
                         size_t{evacuated_slot_} * slab.slot_bytes;
      }
      ++evacuated_slot_;
    }
    if (evacuated_slot_ < slab.capacity) {
      return count;
    }
    evacuated_slot_ = 0;
  }
  return count;
}

void SlabAllocator::EndEvacuation() {
  if (evacuated_ == nullptr) {
    return;
  }
  Chunk* const chunk = std::exchange(evacuated_, nullptr);
  FileChunk(chunk);
  for (uint32_t page = 0; page < kPageCount; ++page) {
    Slab* const slab = &chunk->slabs[page];
    if (chunk->HasSlabAt(page) && slab->used_count < slab->capacity) {
      LinkSlab(slab);
    }
  }
}

}  // namespace kvstored::memory
