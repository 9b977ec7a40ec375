// Bytes of an item in its slot (host byte order, aligned to 8):
//
//   offset size field
//        0    8 seq (low 48 bits), key length (high 16)
//        8    4 value length (low 30 bits), bit 30: has an expiry, bit 31: is a chain
//       12    4 access word (store/access.h)
//       16    8 expiry_ms, only if bit 30
//        .    8 Chain*, only if bit 31
//        .    n key
//        .    m value, only if not bit 31
#pragma once

#include <cstring>

#include "store/chain.h"
#include "store/item.h"

namespace kvstored::store {

struct ItemLayout {
  uint64_t seq_and_key_bytes;
  uint32_t value_word;
  uint32_t access;

  static constexpr size_t kHeaderBytes = 16;
  static constexpr uint32_t kSeqBits = 48;
  static constexpr uint32_t kHasExpiry = 1u << 30;
  static constexpr uint32_t kIsChain = 1u << 31;
  static constexpr uint32_t kValueBytesMask = kHasExpiry - 1;
  static_assert(kValueBytesMax <= kValueBytesMask);
  static_assert(kKeyBytesMax <= UINT16_MAX);

  static const ItemLayout& Of(const Item& item) {
    return *reinterpret_cast<const ItemLayout*>(&item);
  }
  Item* item() {
    return reinterpret_cast<Item*>(this);
  }
  const char* bytes() const {
    return reinterpret_cast<const char*>(this);
  }

  uint64_t key_bytes() const {
    return seq_and_key_bytes >> kSeqBits;
  }
  Seq seq() const {
    return seq_and_key_bytes & ((uint64_t{1} << kSeqBits) - 1);
  }
  uint64_t value_bytes() const {
    return value_word & kValueBytesMask;
  }
  bool has_expiry() const {
    return (value_word & kHasExpiry) != 0;
  }
  bool is_chain() const {
    return (value_word & kIsChain) != 0;
  }
  size_t key_offset() const {
    return kHeaderBytes + (has_expiry() ? 8 : 0) + (is_chain() ? 8 : 0);
  }
  std::string_view key() const {
    return {bytes() + key_offset(), key_bytes()};
  }
  uint64_t expiry_ms() const {
    uint64_t expiry_ms = 0;
    if (has_expiry()) {
      std::memcpy(&expiry_ms, bytes() + kHeaderBytes, sizeof(expiry_ms));
    }
    return expiry_ms;
  }
  Chain* chain() const {
    Chain* chain = nullptr;
    std::memcpy(&chain, bytes() + key_offset() - sizeof(chain), sizeof(chain));
    return chain;
  }
  // The slot's request size.
  size_t item_bytes() const {
    return key_offset() + key_bytes() + (is_chain() ? 0 : value_bytes());
  }
  static size_t InlineItemBytes(size_t key_bytes, uint64_t value_bytes, bool has_expiry) {
    return kHeaderBytes + (has_expiry ? 8 : 0) + key_bytes + value_bytes;
  }
};
static_assert(sizeof(ItemLayout) == ItemLayout::kHeaderBytes);

}  // namespace kvstored::store
