// What a Store is made of; private to this room.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "kvstored/op_result.h"
#include "kvstored/types.h"
#include "memory/slab.h"
#include "store/access.h"
#include "store/chain.h"
#include "store/eviction.h"
#include "store/index.h"
#include "store/item_layout.h"
#include "store/store.h"

namespace kvstored::store {

class Store::Impl {
 public:
  Impl(memory::RegionPool* pool, const base::Digester* digester, StoreCounters* counters);
  ~Impl();

  // What a new item is made of: an inline value, or the one count of a chain.
  struct Content {
    std::string_view value;
    std::string_view appended;  // follows `value`
    Chain* chain = nullptr;
    uint64_t value_bytes = 0;
    uint64_t expiry_ms = 0;
    Seq seq = 0;
  };

  // Links a new item, in place of the present one if any. On success the item owns content.chain;
  // on failure nothing was changed and the caller still does.
  OpResult Link(const Key& key, const EntryPlace& place, const Content& content);
  OpResult LinkChain(const Key& key, const EntryPlace& place, Chain* chain, uint64_t value_bytes,
                     uint64_t expiry_ms, Seq seq);
  // key := value at the place that Find gave.
  OpResult Put(const Key& key, const EntryPlace& place, std::string_view value, uint64_t expiry_ms,
               Seq seq);
  OpResult Append(const Key& key, std::string_view bytes, Seq seq);
  OpResult SetRange(const Key& key, uint64_t offset, std::string_view bytes, Seq seq);
  OpResult SetExpiry(const Key& key, uint64_t expiry_ms, Seq seq);
  bool Erase(const Key& key);
  void Clear();
  uint32_t CollectExpired(uint64_t now_ms, uint32_t budget,
                          void (*visit)(void* context, const Item& item), void* context);
  // One bounded step of giving memory back; true if there is more.
  bool Reclaim(uint32_t budget);
  bool HasReclaimable() const;

  // compaction.cc
  bool Compact(uint64_t random);
  bool CanCompact() const;

  // eviction.cc
  void SetEviction(Eviction policy);
  Eviction eviction() const {
    return eviction_;
  }
  bool HasEvictable() const;
  const Item* FindVictim(uint64_t random, uint32_t bucket_budget);

  memory::SlabAllocator items;  // apart, as they may move: the index finds them
  memory::SlabAllocator slabs;  // of the index and of chains, which stay where they are
  ChainSpace chains;
  const base::Digester* const digester;
  Index index;
  AccessTracker access;
  uint64_t state_hash = 0;

 private:
  // Runs `attempt` until it succeeds or no memory is left that could be given back.
  template <typename Attempt>
  bool WithReclaim(Attempt attempt) {
    while (!attempt()) {
      if (!HasReclaimable()) {
        return false;
      }
      Reclaim(kReclaimBudget);
    }
    return true;
  }
  OpResult PutAsChain(const Key& key, std::string_view value, uint64_t expiry_ms, Seq seq);
  void Account(const Digest& digest, const Item& item, bool added);
  void FreeItem(const Item* item);
  Chain* WritableChain(const Item& item, uint64_t offset, uint64_t new_bytes);
  OpResult RewriteInline(const Key& key, const EntryPlace& place, uint64_t offset,
                         std::string_view bytes, uint64_t new_bytes, Seq seq);
  OpResult RewriteChain(const Key& key, const EntryPlace& place, uint64_t offset,
                        std::string_view bytes, uint64_t new_bytes, Seq seq);

  uint64_t EvictionRank(const ItemLayout& layout) const;
  bool IsWorthCompacting();
  bool Move(ItemLayout* from);
  void Settle();

  static constexpr uint32_t kReclaimBudget = 256;

  StoreCounters* const counters_;
  std::vector<std::unique_ptr<Index>> cleared_;  // being taken apart, oldest first
  uint64_t expiry_cursor_ = 0;
  Eviction eviction_ = Eviction::kNone;
  uint64_t eviction_cursor_ = 0;

  // Compaction.
  memory::RegionPool* const pool_;
  uint64_t held_before_bytes_ = 0;  // by items, when the evacuation under way began
  uint32_t futile_count_ = 0;       // evacuations in a row after which no fewer chunks were held
  uint64_t settled_bytes_ = 0;      // so much held and unused is best left alone
};

}  // namespace kvstored::store
