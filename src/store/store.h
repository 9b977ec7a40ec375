// The store of one shard: index + items over slabs. No I/O, no clock, no policy: the shard decides.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/digest.h"
#include "kvstored/op_result.h"
#include "kvstored/types.h"
#include "memory/region_pool.h"
#include "memory/slab.h"
#include "store/eviction.h"
#include "store/item.h"

namespace kvstored::store {

// Figures of one store, read by its thread only.
struct StoreCounters {
  uint64_t item_count = 0;
  uint64_t expiring_count = 0;  // items with an expiry
  uint64_t item_bytes = 0;      // slots in use, headers included
  uint64_t index_bytes = 0;
  uint64_t slab_free_bytes = 0;   // slots of our slabs that hold nothing (external waste)
  uint64_t slot_waste_bytes = 0;  // slot bytes beyond the items in them (internal waste)
  uint64_t segment_splits = 0;
  uint64_t moved_max = 0;  // most entries moved by one operation, <= kIndexMoveMax
};

// Shard-local: every method on the owner's thread. Invariants: (1) at most one item a key; (2) an
// item is immutable once linked, replacing links a new one; (3) no operation moves more than
// kIndexMoveMax index entries; (4) items live in slots of the region pool, never in operator new;
// (5) StateHash is the sum over items of H(digest, seq, expiry).
class Store {
 public:
  Store(memory::RegionPool* pool, const base::Digester* digester);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The item or null. Expired items are returned: the caller judges. Borrowed until the next
  // change.
  const Item* Find(const Key& key) const;
  // Pulls the index line that Find will need into the cache.
  void Prefetch(const Digest& digest) const;
  // A second step, once that line has come: pulls the item itself, or where its entry is looked for
  // next.
  void PrefetchItem(const Digest& digest) const;

  // key := value (copied). Replaces. kOutOfMemory (the pool is exhausted): nothing changed.
  OpResult Put(const Key& key, std::string_view value, uint64_t expiry_ms, Seq seq);
  // The same, unless an item is there that is as new or newer: then nothing happens.
  OpResult PutNewer(const Key& key, std::string_view value, uint64_t expiry_ms, Seq seq);
  // key := chain (shared).
  OpResult PutChain(const Key& key, ChainRef chain, uint64_t expiry_ms, Seq seq);
  // Appends / overwrites at offset (zero-filled gap) of the present item's value; the result may
  // become a chain. The item must exist (kMiss otherwise); kTooLarge over kValueBytesMax. Keeps the
  // expiry. `bytes` lie outside the store. Appending to a chain copies nothing; overwriting copies
  // a chain others hold.
  OpResult Append(const Key& key, std::string_view bytes, Seq seq);
  OpResult SetRange(const Key& key, uint64_t offset, std::string_view bytes, Seq seq);
  // Same value, new expiry (0 = none), new seq.
  OpResult SetExpiry(const Key& key, uint64_t expiry_ms, Seq seq);
  // True if it was there.
  bool Erase(const Key& key);
  // So many items will come, perhaps in the order of their digests. See Index::Expect.
  void Expect(uint64_t item_count);
  // Empties the store at once for every reader; memory comes back in bounded steps by Tick().
  void Clear();

  // Starts a chain of exactly total_bytes; fill with ChainBuilder::Write, then PutChain(Finish()).
  // See store/item.h. kOutOfMemory is reported by Write.
  ChainBuilder NewChain(uint64_t total_bytes);

  // Visits items in digest order from `cursor` (a prefix of digest.high; 0 = begin) until about
  // `count` were seen, whole buckets of the index only. Returns the cursor to go on with, 0 = end;
  // its low 16 bits are zero. Valid across splits: every item present during the whole iteration is
  // visited. The visitor must not change the store. A call looks at no more than about 16 x count
  // buckets, so it may return with fewer.
  uint64_t Scan(uint64_t cursor, uint32_t count, void (*visit)(void* context, const Item& item),
                void* context) const;

  // One random item or null when empty. `random` is any 64-bit number.
  const Item* Random(uint64_t random) const;

  // Walks on through the index from where the last call stopped, over at most about `budget`
  // entries (of those only items with an expiry are touched), and visits the items that expired by
  // now_ms. The visitor may erase the item it is given, and change nothing else. Returns how many
  // it visited; free of cost while nothing has an expiry.
  uint32_t CollectExpired(uint64_t now_ms, uint32_t budget,
                          void (*visit)(void* context, const Item& item), void* context);

  // The time by which uses are remembered; once a tick.
  void SetNow(uint64_t now_us);
  // The item was used (Find does not say so by itself: many look without using).
  void NoteUse(const Item& item);
  uint64_t IdleUs(const Item& item) const;
  // How often it was used, on Redis' logarithmic scale; only under a policy that counts it.
  uint32_t Frequency(const Item& item) const;

  void SetEviction(Eviction policy);
  Eviction eviction() const;
  // Is there an item that the policy lets go?
  bool HasEvictable() const;
  // The item that the policy lets go first, of a small sample that begins where the last one ended;
  // null: none was met in about so many buckets of the index, go on by calling again. `random` is
  // any 64-bit number.
  const Item* FindVictim(uint64_t random, uint32_t bucket_budget);

  // While `on`, nothing answers kOutOfMemory: memory is taken beyond the pool's limit. For a
  // transaction whose need was judged before it began.
  void SetMustSucceed(bool on);

  // While `on`, kOutOfMemory means that the kernel refuses: for records from elsewhere, which are
  // there whatever the limit says.
  void SetBeyondLimit(bool on);

  // Bounded housekeeping, once a tick: gives back memory of cleared or released chains, and moves
  // items together where they lie thinly (pointers to items end here). Returns true if there is
  // more to do. `random` is any 64-bit number.
  bool Tick(uint64_t random);
  // The first of the two alone.
  bool Reclaim();
  // Is there memory that it would give back?
  bool HasReclaimable() const;
  // Would moving items together find place where the pool has none left?
  bool CanCompact() const;

  uint64_t size() const {
    return counters_.item_count;
  }
  uint64_t expiring_count() const {
    return counters_.expiring_count;
  }
  // Slots in use, of items, chains and the index.
  uint64_t used_bytes() const;
  uint64_t StateHash() const;
  const StoreCounters& counters() const;
  // Internal and external waste of one size class (1 .. memory::kSlotClassCount - 1).
  memory::SlotClassCounters SlotCounters(uint32_t slot_class) const;

 private:
  class Impl;
  mutable StoreCounters counters_;  // sums are brought up to date by counters()
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvstored::store
