#include "store/segment.h"

#include <utility>

#include "base/check.h"

namespace kvstored::store {

void Segment::Insert(Entry entry) {
  uint32_t at = HomeOf(EntryTag(entry));
  for (uint32_t step = 0; step < bucket_count; ++step, at = next(at)) {
    Entry* const entries = bucket(at);
    for (uint32_t i = 0; i < kBucketEntries; ++i) {
      if (entries[i] == 0) {
        entries[i] = entry;
        ++head->entry_count;
        return;
      }
    }
  }
  KVS_CHECK(false, "segment full: entry_count=%u bucket_count=%u", head->entry_count, bucket_count);
}

uint32_t Segment::Erase(uint32_t index, Entry* place) {
  KVS_CHECK(*place != 0 && head->entry_count != 0, "entry_count=%u", head->entry_count);
  *place = 0;
  --head->entry_count;
  uint32_t moved_count = 0;
  // Was the bucket full, later ones may hold what belongs here or before.
  uint32_t hole_bucket = index;
  for (uint32_t i = 0; i < kBucketEntries; ++i) {
    if (bucket(index)[i] == 0 && &bucket(index)[i] != place) {
      return 0;
    }
  }
  const auto distance = [this](uint32_t from, uint32_t to) {
    return to >= from ? to - from : to + bucket_count - from;
  };
  for (uint32_t at = next(index); at != hole_bucket; at = next(at)) {
    Entry* const entries = bucket(at);
    Entry* candidate = nullptr;
    for (uint32_t i = 0; i < kBucketEntries && candidate == nullptr; ++i) {
      const uint32_t home = HomeOf(EntryTag(entries[i]));
      if (entries[i] != 0 && distance(home, hole_bucket) < distance(home, at)) {
        candidate = &entries[i];
      }
    }
    const bool was_full = !HasHole(entries);
    if (candidate != nullptr) {
      *place = std::exchange(*candidate, 0);
      place = candidate;
      hole_bucket = at;
      ++moved_count;
    }
    if (!was_full) {
      break;
    }
  }
  return moved_count;
}

}  // namespace kvstored::store
