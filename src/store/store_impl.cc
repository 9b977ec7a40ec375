#include "store/store_impl.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace kvstored::store {
namespace {

uint64_t Mix(uint64_t x) {
  // The finaliser of MurmurHash3.
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53u;
  return x ^ x >> 33;
}

// H of invariant (5). Equal on every node: part of what full sync compares.
uint64_t ItemHash(const Digest& digest, Seq seq, uint64_t expiry_ms) {
  return Mix(Mix(Mix(Mix(digest.high) + digest.low) + seq) + expiry_ms);
}

}  // namespace

Store::Impl::Impl(memory::RegionPool* pool, const base::Digester* key_digester,
                  StoreCounters* counters)
    : items(pool),
      slabs(pool),
      chains(&slabs),
      digester(key_digester),
      index(&slabs, key_digester),
      counters_(counters),
      pool_(pool) {
}

// The slabs give all chunks back whole: nothing needs to be walked.
Store::Impl::~Impl() = default;

void Store::Impl::Account(const Digest& digest, const Item& item, bool added) {
  const ItemLayout& layout = ItemLayout::Of(item);
  const uint64_t hash = ItemHash(digest, layout.seq(), layout.expiry_ms());
  const uint64_t expiring = layout.has_expiry() ? 1 : 0;
  if (added) {
    state_hash += hash;
    ++counters_->item_count;
    counters_->expiring_count += expiring;
  } else {
    KVS_CHECK(counters_->item_count != 0 && counters_->expiring_count >= expiring,
              "item_count=%llu expiring_count=%llu",
              static_cast<unsigned long long>(counters_->item_count),
              static_cast<unsigned long long>(counters_->expiring_count));
    state_hash -= hash;
    --counters_->item_count;
    counters_->expiring_count -= expiring;
  }
}

void Store::Impl::FreeItem(const Item* item) {
  const ItemLayout& layout = ItemLayout::Of(*item);
  if (layout.is_chain()) {
    layout.chain()->Release();
  }
  items.Free(const_cast<Item*>(item), layout.item_bytes());
}

OpResult Store::Impl::Link(const Key& key, const EntryPlace& place, const Content& content) {
  KVS_CHECK(key.bytes.size() <= kKeyBytesMax && content.seq >> ItemLayout::kSeqBits == 0,
            "key_bytes=%zu seq=%llu", key.bytes.size(),
            static_cast<unsigned long long>(content.seq));
  const bool has_expiry = content.expiry_ms != 0;
  const bool is_chain = content.chain != nullptr;
  const size_t item_bytes = ItemLayout::InlineItemBytes(
      key.bytes.size(), is_chain ? sizeof(Chain*) : content.value_bytes, has_expiry);
  void* slot = nullptr;
  if (!WithReclaim([&] { return (slot = items.Allocate(item_bytes)) != nullptr; })) {
    return OpResult::kOutOfMemory;
  }
  ItemLayout* const layout = static_cast<ItemLayout*>(slot);
  layout->seq_and_key_bytes = content.seq | uint64_t{key.bytes.size()} << ItemLayout::kSeqBits;
  layout->value_word = static_cast<uint32_t>(content.value_bytes) |
                       (has_expiry ? ItemLayout::kHasExpiry : 0) |
                       (is_chain ? ItemLayout::kIsChain : 0);
  layout->access = place.entry == nullptr
                       ? access.First()
                       : access.Used(ItemLayout::Of(*EntryItem(*place.entry)).access);
  char* out = static_cast<char*>(slot) + ItemLayout::kHeaderBytes;
  const auto write = [&out](const void* bytes, size_t count) {
    if (count != 0) {
      std::memcpy(out, bytes, count);
      out += count;
    }
  };
  write(&content.expiry_ms, has_expiry ? sizeof(content.expiry_ms) : 0);
  write(&content.chain, is_chain ? sizeof(content.chain) : 0);
  write(key.bytes.data(), key.bytes.size());
  write(content.value.data(), content.value.size());
  write(content.appended.data(), content.appended.size());

  const Item* const item = layout->item();
  if (place.entry != nullptr) {
    const Item* const old_item = EntryItem(*place.entry);
    index.Replace(place, item, has_expiry);
    Account(key.digest, *old_item, false);
    FreeItem(old_item);
  } else if (!WithReclaim([&] { return index.Insert(key.digest.high, item, has_expiry); })) {
    items.Free(slot, item_bytes);
    return OpResult::kOutOfMemory;
  }
  Account(key.digest, *item, true);
  return OpResult::kOk;
}

OpResult Store::Impl::Put(const Key& key, const EntryPlace& place, std::string_view value,
                          uint64_t expiry_ms, Seq seq) {
  if (value.size() > kValueBytesMax) {
    return OpResult::kTooLarge;
  }
  if (value.size() >= kChainBytesMin) {
    return PutAsChain(key, value, expiry_ms, seq);
  }
  return Link(key, place,
              {.value = value, .value_bytes = value.size(), .expiry_ms = expiry_ms, .seq = seq});
}

OpResult Store::Impl::LinkChain(const Key& key, const EntryPlace& place, Chain* chain,
                                uint64_t value_bytes, uint64_t expiry_ms, Seq seq) {
  const OpResult result = Link(
      key, place, {.chain = chain, .value_bytes = value_bytes, .expiry_ms = expiry_ms, .seq = seq});
  if (result != OpResult::kOk) {
    chain->Release();
  }
  return result;
}

OpResult Store::Impl::PutAsChain(const Key& key, std::string_view value, uint64_t expiry_ms,
                                 Seq seq) {
  Chain* chain = nullptr;
  if (!WithReclaim([&] { return (chain = chains.New()) != nullptr; })) {
    return OpResult::kOutOfMemory;
  }
  if (!WithReclaim([&] { return chains.MakeRoom(chain, value.size(), false); })) {
    chain->Release();
    return OpResult::kOutOfMemory;
  }
  ChainSpace::Append(chain, value);
  return LinkChain(key, index.Find(key), chain, value.size(), expiry_ms, seq);
}

bool Store::Impl::Erase(const Key& key) {
  const EntryPlace place = index.Find(key);
  if (place.entry == nullptr) {
    return false;
  }
  const Item* const item = EntryItem(*place.entry);
  Account(key.digest, *item, false);
  index.Erase(key.digest.high, place);
  FreeItem(item);
  return true;
}

void Store::Impl::Clear() {
  if (counters_->item_count == 0) {
    return;
  }
  auto cleared = std::make_unique<Index>(&slabs, digester);
  cleared->Swap(&index);
  cleared_.push_back(std::move(cleared));
  counters_->item_count = 0;
  counters_->expiring_count = 0;
  state_hash = 0;
  expiry_cursor_ = 0;
}

uint32_t Store::Impl::CollectExpired(uint64_t now_ms, uint32_t budget,
                                     void (*visit)(void* context, const Item& item),
                                     void* context) {
  // Collected before the visitor may erase any of them; items do not move.
  std::array<const Item*, 32> expired;
  uint32_t visited_count = 0;
  while (budget != 0 && counters_->expiring_count != 0) {
    uint32_t expired_count = 0;
    const uint32_t buckets = budget / kBucketEntries + 1;
    uint32_t seen_count = 0;
    expiry_cursor_ = index.Walk(expiry_cursor_, buckets, [&](Entry entry) {
      ++seen_count;
      if (EntryHasExpiry(entry) && expired_count < expired.size() &&
          ItemLayout::Of(*EntryItem(entry)).expiry_ms() <= now_ms) {
        expired[expired_count++] = EntryItem(entry);
      }
      // Stop in time for one full bucket more; what overflows even that is found the next time
      // round.
      return expired_count + kBucketEntries <= expired.size();
    });
    for (uint32_t i = 0; i < expired_count; ++i) {
      visit(context, *expired[i]);
    }
    visited_count += expired_count;
    budget -= std::min(budget, std::max(seen_count, buckets));
    if (expiry_cursor_ == 0) {
      break;  // one round a call
    }
  }
  return visited_count;
}

bool Store::Impl::HasReclaimable() const {
  return !cleared_.empty() || chains.HasReleased();
}

bool Store::Impl::Reclaim(uint32_t budget) {
  bool more = chains.Drain(budget);
  if (!cleared_.empty()) {
    if (!cleared_.front()->Dismantle(budget, [this](const Item* item) { FreeItem(item); })) {
      cleared_.erase(cleared_.begin());
    }
    more = true;  // its chains were just released, at least
  }
  return more || HasReclaimable();
}

}  // namespace kvstored::store
