// Choice of the item that goes first: the worst of a few that follow each other in the index.
// Digests are random, so neighbours there are a random sample; and as the samples are taken one
// behind the other, every item is judged once in each round through the index.
#include <array>

#include "base/fetch_line.h"
#include "store/store_impl.h"

namespace kvstored::store {
namespace {

constexpr uint32_t kVictimSampleCount = 16;

}  // namespace

void Store::Impl::SetEviction(Eviction policy) {
  eviction_ = policy;
  access.CountFrequency(CountsFrequency(policy));
}

bool Store::Impl::HasEvictable() const {
  return eviction_ != Eviction::kNone &&
         (IsVolatile(eviction_) ? counters_->expiring_count : counters_->item_count) != 0;
}

// The higher, the sooner it goes.
uint64_t Store::Impl::EvictionRank(const ItemLayout& layout) const {
  switch (eviction_) {
    case Eviction::kAllKeysLru:
    case Eviction::kVolatileLru:
      return access.IdleUs(layout.access);
    case Eviction::kAllKeysLfu:
    case Eviction::kVolatileLfu:
      // Among equals the one that was not used for longest; idle times are below 2^44 us.
      return uint64_t{255 - access.Frequency(layout.access)} << 44 | access.IdleUs(layout.access);
    case Eviction::kVolatileTtl:
      return UINT64_MAX - layout.expiry_ms();
    case Eviction::kNone:
    case Eviction::kAllKeysRandom:
    case Eviction::kVolatileRandom:
      break;
  }
  return 0;
}

const Item* Store::Impl::FindVictim(uint64_t random, uint32_t bucket_budget) {
  if (!HasEvictable()) {
    return nullptr;
  }
  if (IsRandom(eviction_)) {
    eviction_cursor_ = random;
  }
  const uint32_t wanted = IsRandom(eviction_) ? 1 : kVictimSampleCount;
  std::array<const Item*, kVictimSampleCount> sample;
  uint32_t count = 0;
  eviction_cursor_ = index.Walk(eviction_cursor_, bucket_budget, [&](Entry entry) {
    if (count < wanted && (!IsVolatile(eviction_) || EntryHasExpiry(entry))) {
      sample[count++] = EntryItem(entry);
      base::FetchLine(EntryItem(entry));
    }
    return count < wanted;
  });
  const Item* victim = nullptr;
  uint64_t victim_rank = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t rank = EvictionRank(ItemLayout::Of(*sample[i]));
    if (victim == nullptr || rank > victim_rank) {
      victim = sample[i];
      victim_rank = rank;
    }
  }
  return victim;
}

}  // namespace kvstored::store
