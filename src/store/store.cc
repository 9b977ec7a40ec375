// Store: the calls of store.h. What makes and rewrites items is in store_impl.cc and
// store_rewrite.cc.
#include "store/store.h"

#include <algorithm>

#include "base/check.h"
#include "base/fetch_line.h"
#include "store/store_impl.h"

namespace kvstored::store {
namespace {

// Slots and entries given back by one Tick(): some tens of microseconds.
constexpr uint32_t kTickReclaimBudget = 256;

}  // namespace

Store::Store(memory::RegionPool* pool, const base::Digester* digester)
    : impl_(std::make_unique<Impl>(pool, digester, &counters_)) {
}

Store::~Store() = default;

const Item* Store::Find(const Key& key) const {
  const EntryPlace place = impl_->index.Find(key);
  return place.entry == nullptr ? nullptr : EntryItem(*place.entry);
}

void Store::Prefetch(const Digest& digest) const {
  impl_->index.Prefetch(digest.high);
}

void Store::PrefetchItem(const Digest& digest) const {
  impl_->index.PrefetchItems(digest.high);
}

OpResult Store::Put(const Key& key, std::string_view value, uint64_t expiry_ms, Seq seq) {
  return impl_->Put(key, impl_->index.Find(key), value, expiry_ms, seq);
}

OpResult Store::PutNewer(const Key& key, std::string_view value, uint64_t expiry_ms, Seq seq) {
  const EntryPlace place = impl_->index.Find(key);
  if (place.entry != nullptr && EntryItem(*place.entry)->seq() >= seq) {
    return OpResult::kOk;
  }
  return impl_->Put(key, place, value, expiry_ms, seq);
}

OpResult Store::PutChain(const Key& key, ChainRef chain, uint64_t expiry_ms, Seq seq) {
  if (!chain) {
    return OpResult::kOutOfMemory;  // NewChain() had no memory for it
  }
  KVS_CHECK(ChainSpace::ChainOf(chain)->space() == &impl_->chains, "a chain of another store");
  const uint64_t value_bytes = chain.size_bytes();
  return impl_->LinkChain(key, impl_->index.Find(key), ChainSpace::TakeChain(&chain), value_bytes,
                          expiry_ms, seq);
}

OpResult Store::Append(const Key& key, std::string_view bytes, Seq seq) {
  return impl_->Append(key, bytes, seq);
}

OpResult Store::SetRange(const Key& key, uint64_t offset, std::string_view bytes, Seq seq) {
  return impl_->SetRange(key, offset, bytes, seq);
}

OpResult Store::SetExpiry(const Key& key, uint64_t expiry_ms, Seq seq) {
  return impl_->SetExpiry(key, expiry_ms, seq);
}

bool Store::Erase(const Key& key) {
  return impl_->Erase(key);
}

void Store::Expect(uint64_t item_count) {
  impl_->index.Expect(item_count);
}

void Store::Clear() {
  impl_->Clear();
}

ChainBuilder Store::NewChain(uint64_t total_bytes) {
  return ChainBuilder(total_bytes > kValueBytesMax ? nullptr : impl_->chains.New(), total_bytes);
}

uint64_t Store::Scan(uint64_t cursor, uint32_t count,
                     void (*visit)(void* context, const Item& item), void* context) const {
  uint32_t fetched_count = 0;
  uint32_t seen_count = 0;
  const uint32_t wanted_count = std::max(count, 1u);
  const uint32_t bucket_budget = wanted_count < (1u << 27) ? wanted_count * 16 : UINT32_MAX;
  impl_->index.Walk(cursor, bucket_budget, [&](Entry entry) {
    base::FetchLine(EntryItem(entry));
    return ++fetched_count < wanted_count;
  });
  // Asked per bucket: a bucket is visited whole.
  return impl_->index.Walk(cursor, bucket_budget, [&](Entry entry) {
    visit(context, *EntryItem(entry));
    return ++seen_count < wanted_count;
  });
}

const Item* Store::Random(uint64_t random) const {
  const Entry entry = impl_->index.Random(random);
  return entry == 0 ? nullptr : EntryItem(entry);
}

uint32_t Store::CollectExpired(uint64_t now_ms, uint32_t budget,
                               void (*visit)(void* context, const Item& item), void* context) {
  return impl_->CollectExpired(now_ms, budget, visit, context);
}

void Store::SetNow(uint64_t now_us) {
  impl_->access.SetNow(now_us);
}

void Store::NoteUse(const Item& item) {
  // The one word of a linked item that changes; only this thread looks at it.
  auto& layout = const_cast<ItemLayout&>(ItemLayout::Of(item));
  layout.access = impl_->access.Used(layout.access);
}

uint64_t Store::IdleUs(const Item& item) const {
  return impl_->access.IdleUs(ItemLayout::Of(item).access);
}

uint32_t Store::Frequency(const Item& item) const {
  return impl_->access.Frequency(ItemLayout::Of(item).access);
}

void Store::SetEviction(Eviction policy) {
  impl_->SetEviction(policy);
}

Eviction Store::eviction() const {
  return impl_->eviction();
}

bool Store::HasEvictable() const {
  return impl_->HasEvictable();
}

const Item* Store::FindVictim(uint64_t random, uint32_t bucket_budget) {
  return impl_->FindVictim(random, bucket_budget);
}

bool Store::HasReclaimable() const {
  return impl_->HasReclaimable();
}

void Store::SetMustSucceed(bool on) {
  impl_->items.SetMustSucceed(on);
  impl_->slabs.SetMustSucceed(on);
}

void Store::SetBeyondLimit(bool on) {
  impl_->items.SetBeyondLimit(on);
  impl_->slabs.SetBeyondLimit(on);
}

bool Store::Tick(uint64_t random) {
  const bool more = Reclaim();
  return impl_->Compact(random) || more;
}

bool Store::Reclaim() {
  return impl_->Reclaim(kTickReclaimBudget);
}

bool Store::CanCompact() const {
  return impl_->CanCompact();
}

uint64_t Store::used_bytes() const {
  return impl_->items.used_bytes() + impl_->slabs.used_bytes();
}

uint64_t Store::StateHash() const {
  return impl_->state_hash;
}

const StoreCounters& Store::counters() const {
  const memory::SlabAllocator& items = impl_->items;
  const memory::SlabAllocator& slabs = impl_->slabs;
  const IndexCounters& index = impl_->index.counters();
  counters_.index_bytes = index.bytes;
  counters_.item_bytes = used_bytes() - index.bytes;
  counters_.slab_free_bytes = items.held_bytes() + slabs.held_bytes() - used_bytes();
  counters_.slot_waste_bytes = used_bytes() - items.requested_bytes() - slabs.requested_bytes();
  counters_.segment_splits = index.segment_splits;
  counters_.moved_max = index.moved_max;
  return counters_;
}

memory::SlotClassCounters Store::SlotCounters(uint32_t slot_class) const {
  return impl_->items.ClassCounters(slot_class) + impl_->slabs.ClassCounters(slot_class);
}

}  // namespace kvstored::store
