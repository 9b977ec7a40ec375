// Segment of the index: a small hash table of packed 8-byte entries, in the order of their tags.
//
// A segment is a slot of the shard's slabs: a head line (its entry count), then 1 to 511 buckets of
// eight entries, one cache line each. An entry's home bucket follows from its tag alone, so a
// segment is grown, shrunk and repaired without looking at any item. A full home spills into the
// buckets that follow (cyclically); an erase pulls spilled entries back, so a search ends at the
// first bucket with a hole.
//
//   entry: bits 63..46 tag | 45 item has an expiry | 44..0 item address / 8; 0 = empty
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kvstored/limits.h"

namespace kvstored::store {

class Item;

inline constexpr uint32_t kTagBits = 18;
inline constexpr uint32_t kTagEnd = 1u << kTagBits;
inline constexpr uint32_t kBucketEntries = 8;
inline constexpr size_t kBucketBytes = 64;
inline constexpr uint32_t kBucketCountMax = 511;  // with the head line 32 KiB: a slot class
static_assert(kBucketCountMax * kBucketEntries <= kIndexMoveMax);

using Entry = uint64_t;

inline Entry MakeEntry(const Item* item, uint32_t tag, bool has_expiry) {
  return uint64_t{tag} << (64 - kTagBits) | uint64_t{has_expiry} << 45 |
         reinterpret_cast<uint64_t>(item) >> 3;
}
inline uint32_t EntryTag(Entry entry) {
  return static_cast<uint32_t>(entry >> (64 - kTagBits));
}
inline bool EntryHasExpiry(Entry entry) {
  return (entry >> 45 & 1) != 0;
}
inline const Item* EntryItem(Entry entry) {
  return reinterpret_cast<const Item*>((entry & ((uint64_t{1} << 45) - 1)) << 3);
}

// Calls visit(0) to visit(kBucketEntries - 1) without a loop, and gives the results or-ed together.
template <typename Visit>
uint32_t OrOverBucket(Visit visit) {
  return [&visit]<size_t... kIndexes>(std::index_sequence<kIndexes...>) {
    return (visit(static_cast<uint32_t>(kIndexes)) | ...);
  }
  (std::make_index_sequence<kBucketEntries>());
}

inline bool HasHole(const Entry* entries) {
  return OrOverBucket([entries](uint32_t i) { return uint32_t{entries[i] == 0}; }) != 0;
}

struct alignas(kBucketBytes) SegmentHead {
  uint32_t entry_count;
};
static_assert(sizeof(SegmentHead) == kBucketBytes);

// A view of a segment, unpacked from one 8-byte word of the directory.
struct Segment {
  SegmentHead* head = nullptr;
  uint32_t bucket_count = 0;
  uint32_t depth = 0;      // leading digest bits shared by all entries
  uint32_t lost_bits = 0;  // low tag bits that splits took without asking the items; always zero

  static constexpr uint32_t kLostBitsMax = 2;

  uint64_t Pack() const {
    return reinterpret_cast<uint64_t>(head) >> 6 | uint64_t{bucket_count} << 42 |
           uint64_t{depth} << 52 | uint64_t{lost_bits} << 57;
  }
  static Segment Unpack(uint64_t word) {
    Segment segment;
    segment.head = reinterpret_cast<SegmentHead*>((word & ((uint64_t{1} << 42) - 1)) << 6);
    segment.bucket_count = static_cast<uint32_t>(word >> 42) & 0x3ff;
    segment.depth = static_cast<uint32_t>(word >> 52) & 0x1f;
    segment.lost_bits = static_cast<uint32_t>(word >> 57) & 3;
    return segment;
  }

  Entry* bucket(uint32_t index) const {
    return reinterpret_cast<Entry*>(head + 1) + size_t{index} * kBucketEntries;
  }
  uint32_t capacity() const {
    return bucket_count * kBucketEntries;
  }
  uint32_t next(uint32_t index) const {
    return index + 1 == bucket_count ? 0 : index + 1;
  }
  // The digest bits that follow the shared ones.
  uint32_t TagOf(uint64_t digest_high) const {
    const uint32_t tag = static_cast<uint32_t>(digest_high << depth >> (64 - kTagBits));
    return tag >> lost_bits << lost_bits;
  }
  uint32_t HomeOf(uint32_t tag) const {
    return static_cast<uint32_t>(uint64_t{tag} * bucket_count >> kTagBits);
  }
  // The lowest tag whose home is `index` or later.
  uint32_t FirstTagOf(uint32_t index) const {
    const uint64_t exact = ((uint64_t{index} << kTagBits) + bucket_count - 1) / bucket_count;
    const uint64_t step = uint64_t{1} << lost_bits;
    return static_cast<uint32_t>((exact + step - 1) / step * step);
  }

  // Puts the entry where its tag belongs; there must be an empty one.
  void Insert(Entry entry);
  // Empties the entry at `place` of bucket `index` and closes the gap. Returns how many entries
  // moved.
  uint32_t Erase(uint32_t index, Entry* place);

  // Calls visit(Entry*) for the entries whose home is `index`.
  template <typename Visit>
  void ForEachAtHome(uint32_t index, Visit visit) const {
    uint32_t at = index;
    do {
      bool has_hole = false;
      Entry* const entries = bucket(at);
      for (uint32_t i = 0; i < kBucketEntries; ++i) {
        if (entries[i] == 0) {
          has_hole = true;
        } else if (HomeOf(EntryTag(entries[i])) == index) {
          visit(&entries[i]);
        }
      }
      if (has_hole) {
        return;
      }
      at = next(at);
    } while (at != index);
  }
};

}  // namespace kvstored::store
