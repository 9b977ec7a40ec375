#include "store/index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace kvstored::store {
namespace {

// What an empty index points at, so that searching needs no case of its own. Never written: its
// address says that it is full.
alignas(kBucketBytes) const SegmentHead kEmptySegment[2] = {};

// Load at which a segment makes room: 7/8.
uint32_t CountMax(uint32_t bucket_count) {
  return bucket_count * (kBucketEntries - 1);
}

size_t SegmentBytes(uint32_t bucket_count) {
  return (size_t{bucket_count} + 1) * kBucketBytes;
}

// The bucket count of the smallest slot that holds at least `bytes`, all of the slot used.
uint32_t BucketsOfSlot(size_t bytes) {
  const size_t lines = (memory::SlotBytes(bytes) + kBucketBytes - 1) / kBucketBytes;
  return std::min(static_cast<uint32_t>(lines) - 1, kBucketCountMax);
}

// For `count` entries with some to come: a load of about 0.8 once past the smallest.
uint32_t BucketsFor(uint32_t count) {
  const uint32_t buckets = count * 5 / (kBucketEntries * 4) + 1;
  return BucketsOfSlot(SegmentBytes(std::min(buckets, kBucketCountMax)));
}

// What a segment of `depth` is until its first entry comes.
uint64_t EmptyWord(uint32_t depth) {
  Segment empty;
  empty.head = const_cast<SegmentHead*>(kEmptySegment);
  empty.bucket_count = 1;
  empty.depth = depth;
  return empty.Pack();
}

uint32_t LargerBuckets(uint32_t bucket_count) {
  const size_t bytes = SegmentBytes(bucket_count);
  return BucketsOfSlot(bytes + std::max(bytes / 8, kBucketBytes));
}

uint32_t MatchMask(const Entry* entries, uint32_t tag) {
  return OrOverBucket(
      [entries, tag](uint32_t i) { return uint32_t{EntryTag(entries[i]) == tag} << i; });
}

// Fills a new segment. Nothing was ever erased from it, so each bucket is full up to its mark and
// holds nothing above: no searching for a hole, which would be most of the cost of growing.
class SegmentFiller {
 public:
  explicit SegmentFiller(const Segment& segment) : segment_(segment) {
  }
  // There must be an empty entry left.
  void Add(Entry entry) {
    uint32_t at = segment_.HomeOf(EntryTag(entry));
    while (marks_[at] == kBucketEntries) {
      at = segment_.next(at);
    }
    segment_.bucket(at)[marks_[at]++] = entry;
    ++segment_.head->entry_count;
  }

 private:
  Segment segment_;
  std::array<uint8_t, kBucketCountMax> marks_{};
};

}  // namespace

Index::Index(memory::SlabAllocator* slabs, const base::Digester* digester)
    : slabs_(slabs), digester_(digester), root_(EmptyWord(0)) {
}

bool Index::IsEmptySegment(const Segment& segment) {
  return segment.head == kEmptySegment;
}

void Index::PrefetchItems(uint64_t high) const {
  const Segment segment = SegmentAt(high);
  const uint32_t tag = segment.TagOf(high);
  const Entry* const entries = segment.bucket(segment.HomeOf(tag));
  for (uint32_t mask = MatchMask(entries, tag); mask != 0; mask &= mask - 1) {
    if (const Entry entry = entries[__builtin_ctz(mask)]; entry != 0) {
      base::FetchLine(EntryItem(entry));
    }
  }
  if (!HasHole(entries)) {  // two buckets in five
    base::FetchLine(segment.bucket(segment.next(segment.HomeOf(tag))));
  }
}

EntryPlace Index::Find(const Key& key) const {
  EntryPlace place;
  place.segment = SegmentAt(key.digest.high);
  const uint32_t tag = place.segment.TagOf(key.digest.high);
  place.bucket = place.segment.HomeOf(tag);
  for (uint32_t step = 0; step < place.segment.bucket_count; ++step) {
    Entry* const entries = place.segment.bucket(place.bucket);
    for (uint32_t mask = MatchMask(entries, tag); mask != 0; mask &= mask - 1) {
      Entry* const entry = &entries[__builtin_ctz(mask)];
      if (*entry != 0 && EntryItem(*entry)->key() == key.bytes) {
        place.entry = entry;
        return place;
      }
    }
    if (HasHole(entries)) {
      break;
    }
    place.bucket = place.segment.next(place.bucket);
  }
  return place;
}

bool Index::NewSegment(uint32_t bucket_count, uint32_t depth, uint32_t lost_bits,
                       Segment* segment) {
  const size_t bytes = SegmentBytes(bucket_count);
  void* const memory = slabs_->Allocate(bytes);
  if (memory == nullptr) {
    return false;
  }
  KVS_CHECK(reinterpret_cast<uint64_t>(memory) % kBucketBytes == 0, "memory=%p", memory);
  std::memset(memory, 0, bytes);
  segment->head = static_cast<SegmentHead*>(memory);
  segment->bucket_count = bucket_count;
  segment->depth = depth;
  segment->lost_bits = lost_bits;
  counters_.bytes += memory::SlotBytes(bytes);
  return true;
}

void Index::FreeSegment(const Segment& segment) {
  const size_t bytes = SegmentBytes(segment.bucket_count);
  counters_.bytes -= memory::SlotBytes(bytes);
  slabs_->Free(segment.head, bytes);
}

// Enters the segment under every directory word of its prefix, which `high` is one of.
void Index::SetWords(uint64_t high, const Segment& segment) {
  KVS_CHECK(segment.depth <= depth_, "depth=%u of %u", segment.depth, depth_);
  const uint64_t begin = WordIndex(BeginOf(segment, high));
  const uint64_t count = uint64_t{1} << (depth_ - segment.depth);
  std::fill_n(directory() + begin, count, segment.Pack());
}

bool Index::Insert(uint64_t high, const Item* item, bool has_expiry) {
  KVS_DCHECK(
      (reinterpret_cast<uint64_t>(item) & 7) == 0 && reinterpret_cast<uint64_t>(item) >> 48 == 0,
      "item=%p", static_cast<const void*>(item));
  Segment segment = SegmentAt(high);
  if (IsEmptySegment(segment) || segment.head->entry_count >= CountMax(segment.bucket_count)) {
    if (!MakeRoom(high, segment)) {
      return false;
    }
    segment = SegmentAt(high);
  }
  segment.Insert(MakeEntry(item, segment.TagOf(high), has_expiry));
  return true;
}

void Index::Replace(const EntryPlace& place, const Item* item, bool has_expiry) {
  *place.entry = MakeEntry(item, EntryTag(*place.entry), has_expiry);
}

void Index::Erase(uint64_t high, const EntryPlace& place) {
  Segment segment = place.segment;
  NoteMoved(segment.Erase(place.bucket, place.entry));
  // Gives memory back when three quarters are gone; the new size has room again, so a key set and
  // deleted in turn does not resize each time. Without memory it stays as it is.
  const uint32_t count = segment.head->entry_count;
  if (segment.bucket_count > 3 && count * 4 < segment.capacity()) {
    (void)Resize(high, segment, BucketsFor(count));
  }
}

// After it, the segment of `high` has room for one entry more.
bool Index::MakeRoom(uint64_t high, const Segment& full) {
  if (IsEmptySegment(full)) {
    Segment first;
    if (!NewSegment(first_buckets_, full.depth, 0, &first)) {
      return false;
    }
    SetWords(high, first);
    return true;
  }
  bool made_room = false;
  if (full.bucket_count < kBucketCountMax) {
    made_room = Resize(high, full, LargerBuckets(full.bucket_count));
  } else {
    made_room = Split(high, full);
  }
  // Without memory for a better one, fill what there is; one entry stays empty to end searches.
  return made_room || full.head->entry_count + 1 < full.capacity();
}

bool Index::Resize(uint64_t high, const Segment& from, uint32_t bucket_count) {
  Segment to;
  if (!NewSegment(bucket_count, from.depth, from.lost_bits, &to)) {
    return false;
  }
  KVS_CHECK(from.head->entry_count < to.capacity(), "entry_count=%u bucket_count=%u",
            from.head->entry_count, bucket_count);
  SegmentFiller filler(to);
  for (uint32_t i = 0; i < from.capacity(); ++i) {
    if (const Entry entry = from.bucket(0)[i]; entry != 0) {
      filler.Add(entry);
    }
  }
  KVS_CHECK(to.head->entry_count == from.head->entry_count && to.head->entry_count <= kIndexMoveMax,
            "moved %u of %u", to.head->entry_count, from.head->entry_count);
  NoteMoved(to.head->entry_count);
  SetWords(high, to);
  FreeSegment(from);
  return true;
}

// The leading tag bit decides the side and joins the prefix. The bit that each tag gets at its end
// would have to come from the item's key: a cache miss each. So tags go without for kLostBitsMax
// splits.
bool Index::Split(uint64_t high, const Segment& from) {
  if (from.depth == depth_ && !DoubleDirectory()) {
    return false;
  }
  uint32_t high_side_count = 0;
  for (uint32_t i = 0; i < from.capacity(); ++i) {
    high_side_count += static_cast<uint32_t>(from.bucket(0)[i] >> 63);
  }
  const bool refresh = from.lost_bits == Segment::kLostBitsMax;
  const uint32_t lost_bits = refresh ? 0 : from.lost_bits + 1;
  Segment sides[2];
  if (!NewSegment(BucketsFor(from.head->entry_count - high_side_count), from.depth + 1, lost_bits,
                  &sides[0])) {
    return false;
  }
  if (!NewSegment(BucketsFor(high_side_count), from.depth + 1, lost_bits, &sides[1])) {
    FreeSegment(sides[0]);
    return false;
  }
  KVS_CHECK(high_side_count < sides[1].capacity() &&
                from.head->entry_count - high_side_count < sides[0].capacity(),
            "entry_count=%u high_side_count=%u", from.head->entry_count, high_side_count);
  SegmentFiller fillers[2] = {SegmentFiller(sides[0]), SegmentFiller(sides[1])};
  for (uint32_t bucket = 0; bucket < from.bucket_count; ++bucket) {
    const Entry* const entries = from.bucket(bucket);
    if (refresh && bucket + 1 < from.bucket_count) {
      for (uint32_t i = 0; i < kBucketEntries; ++i) {
        __builtin_prefetch(EntryItem(entries[kBucketEntries + i]));
      }
    }
    for (uint32_t i = 0; i < kBucketEntries; ++i) {
      const Entry entry = entries[i];
      if (entry == 0) {
        continue;
      }
      const uint32_t tag = refresh ? sides[0].TagOf(digester_->Of(EntryItem(entry)->key()).high)
                                   : EntryTag(entry) << 1 & (kTagEnd - 1);
      fillers[entry >> 63].Add(MakeEntry(EntryItem(entry), tag, EntryHasExpiry(entry)));
    }
  }
  const uint32_t moved_count = sides[0].head->entry_count + sides[1].head->entry_count;
  KVS_CHECK(moved_count == from.head->entry_count && moved_count <= kIndexMoveMax, "moved %u of %u",
            moved_count, from.head->entry_count);
  NoteMoved(moved_count);
  ++counters_.segment_splits;
  const uint64_t begin = BeginOf(from, high);
  SetWords(begin, sides[0]);
  SetWords(begin + (uint64_t{1} << (63 - from.depth)), sides[1]);
  FreeSegment(from);
  return true;
}

// Copies words, not entries: 8 bytes for some thousand items. At most a chunk.
bool Index::DoubleDirectory() {
  uint64_t* const words = depth_ == kDepthMax ? nullptr : NewDirectory(depth_ + 1);
  if (words == nullptr) {
    return false;
  }
  for (uint64_t i = 0; i < uint64_t{1} << (depth_ + 1); ++i) {
    words[i] = directory()[i / 2];
  }
  FreeDirectory(words_, depth_);
  words_ = words;
  ++depth_;
  return true;
}

uint64_t* Index::NewDirectory(uint32_t depth) {
  static_assert((sizeof(uint64_t) << kDepthMax) == kChunkBytes);
  const size_t bytes = sizeof(uint64_t) << depth;
  const bool is_slot = bytes <= memory::kSlotBytesMax;
  void* const words = is_slot ? slabs_->Allocate(bytes) : slabs_->AllocateChunk();
  if (words != nullptr) {
    counters_.bytes += is_slot ? memory::SlotBytes(bytes) : kChunkBytes;
  }
  return static_cast<uint64_t*>(words);
}

void Index::Expect(uint64_t item_count) {
  if (depth_ != 0 || root_ != EmptyWord(0)) {
    return;
  }
  // A sixteenth more than the share of a segment: the digests spread, and the count is a guess.
  const uint64_t wanted = item_count + item_count / 16;
  const uint64_t segment_max = CountMax(kBucketCountMax) * 4 / 5;
  uint32_t depth = 0;
  while (depth < kDepthMax && wanted >> depth > segment_max) {
    ++depth;
  }
  if (depth != 0) {
    words_ = NewDirectory(depth);
    if (words_ == nullptr) {
      return;
    }
    std::fill_n(words_, uint64_t{1} << depth, EmptyWord(depth));
    depth_ = depth;
  }
  first_buckets_ = BucketsFor(static_cast<uint32_t>(std::min(wanted >> depth, segment_max)));
}

void Index::FreeDirectory(uint64_t* words, uint32_t depth) {
  if (words == nullptr) {
    return;
  }
  const size_t bytes = sizeof(uint64_t) << depth;
  if (bytes <= memory::kSlotBytesMax) {
    counters_.bytes -= memory::SlotBytes(bytes);
    slabs_->Free(words, bytes);
  } else {
    counters_.bytes -= kChunkBytes;
    slabs_->FreeChunk(words);
  }
}

Entry Index::Random(uint64_t random) const {
  uint64_t high = random;
  uint64_t in_segment = random * 0x9e3779b97f4a7c15u;
  // Once round the digests, and once more through the segment where it began.
  for (bool wrapped = false;;) {
    const Segment segment = SegmentAt(high);
    const uint32_t begin = static_cast<uint32_t>(
        static_cast<unsigned __int128>(in_segment) * segment.capacity() >> 64);
    for (uint32_t i = begin; i < segment.capacity(); ++i) {
      if (segment.bucket(0)[i] != 0) {
        return segment.bucket(0)[i];
      }
    }
    const uint64_t after = AfterOf(segment, high);
    if (wrapped && (after == 0 || after > random)) {
      return 0;
    }
    wrapped |= after == 0;
    high = after;
    in_segment = 0;
  }
}

void Index::Swap(Index* other) {
  std::swap(root_, other->root_);
  std::swap(words_, other->words_);
  std::swap(depth_, other->depth_);
  std::swap(first_buckets_, other->first_buckets_);
  std::swap(dismantle_bucket_, other->dismantle_bucket_);
  std::swap(dismantle_high_, other->dismantle_high_);
  std::swap(dismantle_done_, other->dismantle_done_);
  std::swap(counters_.bytes, other->counters_.bytes);
}

}  // namespace kvstored::store
