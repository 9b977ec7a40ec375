// Changes of a part of a value: each makes a new item; only the bytes of a chain that nobody else
// can see are written in place.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "store/store_impl.h"

namespace kvstored::store {

OpResult Store::Impl::SetExpiry(const Key& key, uint64_t expiry_ms, Seq seq) {
  const EntryPlace place = index.Find(key);
  if (place.entry == nullptr) {
    return OpResult::kMiss;
  }
  const Item& item = *EntryItem(*place.entry);
  if (item.is_chain()) {
    Chain* const chain = ItemLayout::Of(item).chain();
    chain->Retain();
    return LinkChain(key, place, chain, item.value_bytes(), expiry_ms, seq);
  }
  return Link(key, place,
              {.value = item.value(),
               .value_bytes = item.value_bytes(),
               .expiry_ms = expiry_ms,
               .seq = seq});
}

OpResult Store::Impl::Append(const Key& key, std::string_view bytes, Seq seq) {
  const EntryPlace place = index.Find(key);
  if (place.entry == nullptr) {
    return OpResult::kMiss;
  }
  const Item& item = *EntryItem(*place.entry);
  const uint64_t old_bytes = item.value_bytes();
  if (bytes.size() > kValueBytesMax - old_bytes) {
    return OpResult::kTooLarge;
  }
  const uint64_t new_bytes = old_bytes + bytes.size();
  if (!item.is_chain() && new_bytes < kChainBytesMin) {
    return Link(key, place,
                {.value = item.value(),
                 .appended = bytes,
                 .value_bytes = new_bytes,
                 .expiry_ms = item.expiry_ms(),
                 .seq = seq});
  }
  return RewriteChain(key, place, old_bytes, bytes, new_bytes, seq);
}

OpResult Store::Impl::SetRange(const Key& key, uint64_t offset, std::string_view bytes, Seq seq) {
  const EntryPlace place = index.Find(key);
  if (place.entry == nullptr) {
    return OpResult::kMiss;
  }
  const Item& item = *EntryItem(*place.entry);
  if (offset > kValueBytesMax || bytes.size() > kValueBytesMax - offset) {
    return OpResult::kTooLarge;
  }
  const uint64_t new_bytes = std::max(item.value_bytes(), offset + bytes.size());
  if (!item.is_chain() && new_bytes < kChainBytesMin) {
    return RewriteInline(key, place, offset, bytes, new_bytes, seq);
  }
  return RewriteChain(key, place, offset, bytes, new_bytes, seq);
}

OpResult Store::Impl::RewriteInline(const Key& key, const EntryPlace& place, uint64_t offset,
                                    std::string_view bytes, uint64_t new_bytes, Seq seq) {
  const std::string_view old_value = EntryItem(*place.entry)->value();
  char value[kChainBytesMin];
  std::memcpy(value, old_value.data(), old_value.size());
  if (new_bytes > old_value.size()) {
    std::memset(value + old_value.size(), 0, new_bytes - old_value.size());
  }
  if (!bytes.empty()) {
    std::memcpy(value + offset, bytes.data(), bytes.size());
  }
  return Link(key, place,
              {.value = {value, new_bytes},
               .value_bytes = new_bytes,
               .expiry_ms = EntryItem(*place.entry)->expiry_ms(),
               .seq = seq});
}

// A chain that holds the item's value, has room for `new_bytes` and may be written from `offset`
// on. Its end is at or after the value's end. The caller gets one count; null: no memory, nothing
// changed.
Chain* Store::Impl::WritableChain(const Item& item, uint64_t offset, uint64_t new_bytes) {
  const uint64_t old_bytes = item.value_bytes();
  Chain* chain = nullptr;
  if (item.is_chain()) {
    Chain* const present = ItemLayout::Of(item).chain();
    const bool sole = present->IsSole();
    if (sole && present->end_bytes() > old_bytes) {
      ChainSpace::Truncate(present, old_bytes);  // what an earlier item had beyond
    }
    const uint64_t extra_bytes = new_bytes - old_bytes;
    if ((sole || offset >= old_bytes) && present->end_bytes() == old_bytes &&
        (ChainSpace::RoomBytes(*present) >= extra_bytes || ChainSpace::CanGrow(*present))) {
      if (!WithReclaim([&] { return chains.MakeRoom(present, extra_bytes, true); })) {
        return nullptr;
      }
      present->Retain();
      return present;
    }
    WithReclaim([&] { return (chain = chains.Copy(*present, old_bytes, new_bytes)) != nullptr; });
    return chain;
  }
  if (!WithReclaim([&] { return (chain = chains.New()) != nullptr; })) {
    return nullptr;
  }
  if (!WithReclaim([&] { return chains.MakeRoom(chain, new_bytes, false); })) {
    chain->Release();
    return nullptr;
  }
  ChainSpace::Append(chain, item.value());
  return chain;
}

OpResult Store::Impl::RewriteChain(const Key& key, const EntryPlace& place, uint64_t offset,
                                   std::string_view bytes, uint64_t new_bytes, Seq seq) {
  const Item& item = *EntryItem(*place.entry);
  const uint64_t old_bytes = item.value_bytes();
  const uint64_t expiry_ms = item.expiry_ms();
  Chain* const chain = WritableChain(item, offset, new_bytes);
  if (chain == nullptr) {
    return OpResult::kOutOfMemory;
  }
  // The new item first: it is the last step that can fail, and no byte was changed yet.
  const OpResult result = LinkChain(key, place, chain, new_bytes, expiry_ms, seq);
  if (result != OpResult::kOk) {
    return result;
  }
  if (offset > old_bytes) {
    ChainSpace::AppendZeros(chain, offset - old_bytes);
  }
  const uint64_t inside =
      offset < old_bytes ? std::min<uint64_t>(bytes.size(), old_bytes - offset) : 0;
  ChainSpace::Overwrite(chain, offset, bytes.substr(0, inside));
  ChainSpace::Append(chain, bytes.substr(inside));
  KVS_CHECK(chain->end_bytes() == new_bytes, "end_bytes=%llu new_bytes=%llu",
            static_cast<unsigned long long>(chain->end_bytes()),
            static_cast<unsigned long long>(new_bytes));
  return OpResult::kOk;
}

}  // namespace kvstored::store
