// Compaction: where frees have left items strewn thinly over many chunks, they move together, chunk
// by chunk, a few items a tick; the chunks go back to the pool, for items of other sizes and for
// other shards. The index finds each item by its key, so nothing else needs to know that it moved.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "store/store_impl.h"

namespace kvstored::store {
namespace {

// Held and unused beyond this part of all that is held is worth moving for.
constexpr uint64_t kThinPart = 10;
constexpr uint64_t kThinBytesMin = 2 * kChunkBytes;
constexpr size_t kMovesATick = 128;        // some tens of microseconds
constexpr size_t kMovesATickUrgent = 512;  // while somebody waits for a chunk
constexpr uint32_t kFutileMax = 8;
// Of chunks, the emptiest of which is taken; any one, after that has gained nothing.
constexpr uint32_t kSampleCount = 16;

}  // namespace

bool Store::Impl::IsWorthCompacting() {
  const uint64_t spare_bytes = items.held_bytes() - items.used_bytes();
  const uint64_t worth_bytes =
      pool_->IsExhausted() ? kChunkBytes : std::max(items.held_bytes() / kThinPart, kThinBytesMin);
  settled_bytes_ = std::min(settled_bytes_, spare_bytes);
  if (spare_bytes <= worth_bytes || spare_bytes < settled_bytes_ + kChunkBytes) {
    return false;
  }
  if (items.ThinBytes() <= worth_bytes) {
    Settle();  // last slabs of many classes: asked again when there is more
    return false;
  }
  return true;
}

void Store::Impl::Settle() {
  futile_count_ = 0;
}

bool Store::Impl::CanCompact() const {
  const uint64_t spare_bytes = items.held_bytes() - items.used_bytes();
  return items.IsEvacuating() || !cleared_.empty() ||
         (spare_bytes >= settled_bytes_ + kChunkBytes && items.ThinBytes() > kChunkBytes);
}

bool Store::Impl::Compact(uint64_t random) {
  // Items of an index that is being taken apart cannot be found by key; a transaction under way
  // must not be the one that fails.
  if (!cleared_.empty() || items.must_succeed()) {
    return false;
  }
  if (!items.IsEvacuating()) {
    if (!IsWorthCompacting() ||
        !items.BeginEvacuation(random, futile_count_ == 0 ? kSampleCount : 1)) {
      return false;
    }
    held_before_bytes_ = items.held_bytes();
  }
  std::array<void*, kMovesATickUrgent> slots;
  const size_t count = items.NextToMove(
      std::span(slots).first(pool_->IsExhausted() ? kMovesATickUrgent : kMovesATick));
  for (size_t i = 0; i < count; ++i) {
    if (!Move(static_cast<ItemLayout*>(slots[i]))) {
      items.EndEvacuation();  // no place for this size: perhaps for what another chunk holds
      break;
    }
  }
  if (count == 0) {
    items.EndEvacuation();
  }
  if (!items.IsEvacuating()) {
    futile_count_ = items.held_bytes() < held_before_bytes_ ? 0 : futile_count_ + 1;
    if (futile_count_ == kFutileMax) {
      Settle();
    }
  }
  return true;
}

// False: no memory, nothing changed.
bool Store::Impl::Move(ItemLayout* from) {
  const size_t bytes = from->item_bytes();
  void* const to = items.Allocate(bytes);
  if (to == nullptr) {
    return false;
  }
  const Key key{.bytes = from->key(), .digest = digester->Of(from->key())};
  const EntryPlace place = index.Find(key);
  KVS_CHECK(place.entry != nullptr && EntryItem(*place.entry) == from->item(),
            "a slot in use that the index does not know: key_bytes=%zu", key.bytes.size());
  std::memcpy(to, from, bytes);
  index.Replace(place, static_cast<ItemLayout*>(to)->item(), from->has_expiry());
  items.Free(from, bytes);
  return true;
}

}  // namespace kvstored::store
