// Index of one shard: extendible hashing by the leading bits of digest.high. The directory maps
// them to segments; a segment that is full grows by about an eighth, and at its largest it splits
// into two. So load, and with it bytes an item, stay level at every size, and no operation moves
// more than one segment's entries (kIndexMoveMax). All of it lives in the shard's slabs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/digest.h"
#include "base/fetch_line.h"
#include "kvstored/types.h"
#include "memory/slab.h"
#include "store/item.h"
#include "store/segment.h"

namespace kvstored::store {

struct IndexCounters {
  uint64_t bytes = 0;  // slots of directory and segments
  uint64_t segment_splits = 0;
  uint64_t moved_max = 0;  // most entries moved by one operation
};

// Where an entry lies; valid until the index changes.
struct EntryPlace {
  Segment segment;
  uint32_t bucket = 0;
  Entry* entry = nullptr;  // null: not found
};

// Shard-local. Invariants: (1) every directory word of a segment's prefix is equal; (2) every
// segment but the shared empty one has at least one empty entry.
class Index {
 public:
  Index(memory::SlabAllocator* slabs, const base::Digester* digester);
  // Leaves its memory to the allocator.
  ~Index() = default;
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  void Prefetch(uint64_t high) const {
    const Segment segment = SegmentAt(high);
    base::FetchLine(segment.bucket(segment.HomeOf(segment.TagOf(high))));
  }
  // So many items will come: the index is laid out for them, which spares most of its growth, and
  // lets them come in the order of their digests (else each segment is filled from one end, and
  // every insertion walks past all that came before). Only while it is empty; more or fewer may
  // come, and without memory nothing happens.
  void Expect(uint64_t item_count);
  // Second step, when the line of Prefetch has come: the items that Find would compare, and the
  // bucket where it would go on.
  void PrefetchItems(uint64_t high) const;
  EntryPlace Find(const Key& key) const;
  // The key must be absent. False: no memory, nothing changed.
  bool Insert(uint64_t high, const Item* item, bool has_expiry);
  // Both take the place of a Find since which nothing has changed.
  void Replace(const EntryPlace& place, const Item* item, bool has_expiry);
  void Erase(uint64_t high, const EntryPlace& place);

  // Visits from `cursor` on, whole home buckets, until visit() said so by returning false or
  // `bucket_budget` buckets were seen. Returns the cursor to go on with, 0 at the end. visit(Entry)
  // must not change the index.
  template <typename Visit>
  uint64_t Walk(uint64_t cursor, uint32_t bucket_budget, Visit visit) const;
  // The first entry at or after the place that `random` names; 0 if there is none.
  Entry Random(uint64_t random) const;

  // Takes the index apart: up to about `budget` entries and segments. free_item(const Item*) gets
  // every item. True: there is more. Nothing else may be called once begun, until it is done; then
  // the index is empty.
  template <typename FreeItem>
  bool Dismantle(uint32_t budget, FreeItem free_item);
  // Exchanges everything but the counters of splits and moves.
  void Swap(Index* other);

  const IndexCounters& counters() const {
    return counters_;
  }

 private:
  static constexpr uint32_t kDepthMax = 18;

  uint64_t WordIndex(uint64_t high) const {
    return depth_ == 0 ? 0 : high >> (64 - depth_);
  }
  Segment SegmentAt(uint64_t high) const {
    return Segment::Unpack(directory()[WordIndex(high)]);
  }
  const uint64_t* directory() const {
    return words_ != nullptr ? words_ : &root_;
  }
  uint64_t* directory() {
    return words_ != nullptr ? words_ : &root_;
  }
  // The digest where the segment of `high` begins, and the one after its end (0 after the last).
  static uint64_t BeginOf(const Segment& segment, uint64_t high) {
    return segment.depth == 0 ? 0 : high >> (64 - segment.depth) << (64 - segment.depth);
  }
  static uint64_t AfterOf(const Segment& segment, uint64_t high) {
    return segment.depth == 0 ? 0 : BeginOf(segment, high) + (uint64_t{1} << (64 - segment.depth));
  }
  static bool IsEmptySegment(const Segment& segment);

  bool NewSegment(uint32_t bucket_count, uint32_t depth, uint32_t lost_bits, Segment* segment);
  void FreeSegment(const Segment& segment);
  void SetWords(uint64_t high, const Segment& segment);
  bool MakeRoom(uint64_t high, const Segment& full);
  bool Resize(uint64_t high, const Segment& from, uint32_t bucket_count);
  bool Split(uint64_t high, const Segment& from);
  bool DoubleDirectory();
  uint64_t* NewDirectory(uint32_t depth);
  void FreeDirectory(uint64_t* words, uint32_t depth);
  void NoteMoved(uint64_t count) {
    counters_.moved_max = count > counters_.moved_max ? count : counters_.moved_max;
  }

  memory::SlabAllocator* slabs_;
  const base::Digester* digester_;
  uint64_t root_;              // the directory while depth_ is 0
  uint64_t* words_ = nullptr;  // 1 << depth_ words, or null
  uint32_t depth_ = 0;
  uint32_t first_buckets_ = 1;  // of a segment that replaces the shared empty one
  uint32_t dismantle_bucket_ = 0;
  uint64_t dismantle_high_ = 0;
  bool dismantle_done_ = false;
  IndexCounters counters_;
};

template <typename Visit>
uint64_t Index::Walk(uint64_t cursor, uint32_t bucket_budget, Visit visit) const {
  for (;;) {
    const Segment segment = SegmentAt(cursor);
    const uint64_t after = AfterOf(segment, cursor);
    for (uint32_t bucket = segment.HomeOf(segment.TagOf(cursor)); bucket < segment.bucket_count;
         ++bucket) {
      bool go_on = true;
      segment.ForEachAtHome(bucket, [&](const Entry* entry) { go_on &= visit(*entry); });
      if (go_on && --bucket_budget != 0) {
        continue;
      }
      const uint32_t next_tag = segment.FirstTagOf(bucket + 1);
      return next_tag >= kTagEnd ? after
                                 : BeginOf(segment, cursor) +
                                       (uint64_t{next_tag} << (64 - kTagBits) >> segment.depth);
    }
    if (after == 0) {
      return 0;
    }
    cursor = after;
  }
}

template <typename FreeItem>
bool Index::Dismantle(uint32_t budget, FreeItem free_item) {
  while (!dismantle_done_) {
    const Segment segment = SegmentAt(dismantle_high_);
    const bool is_shared = IsEmptySegment(segment);
    for (; !is_shared && dismantle_bucket_ < segment.bucket_count; ++dismantle_bucket_) {
      if (budget == 0) {
        return true;
      }
      Entry* const entries = segment.bucket(dismantle_bucket_);
      for (uint32_t i = 0; i < kBucketEntries; ++i) {
        if (entries[i] != 0) {
          __builtin_prefetch(EntryItem(entries[i]));
        }
      }
      for (uint32_t i = 0; i < kBucketEntries; ++i) {
        if (entries[i] != 0) {
          free_item(EntryItem(entries[i]));
          budget -= budget != 0 ? 1 : 0;
        }
      }
    }
    dismantle_bucket_ = 0;
    budget -= budget != 0 ? 1 : 0;
    const uint64_t after = AfterOf(segment, dismantle_high_);
    if (!is_shared) {
      FreeSegment(segment);
    }
    dismantle_done_ = after == 0;
    dismantle_high_ = after;
  }
  Index empty(slabs_, digester_);
  FreeDirectory(words_, depth_);
  words_ = nullptr;
  depth_ = 0;
  first_buckets_ = 1;
  root_ = empty.root_;
  dismantle_done_ = false;
  return false;
}

}  // namespace kvstored::store
