// Item and chain: what a key's value is made of.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "kvstored/op_result.h"
#include "kvstored/types.h"

namespace kvstored::store {

class Chain;

// Shared ownership of a chain's slots. Copy and drop on ANY thread (the count is atomic); the slots go
// back to their store through a lock-free list that Store::Tick drains, so the store must outlive every
// reference (its owner waits for that at shutdown).
class ChainRef {
 public:
  ChainRef() = default;
  explicit ChainRef(Chain* adopted) : chain_(adopted) {
  }
  ChainRef(const ChainRef& other);
  ChainRef(ChainRef&& other) noexcept : chain_(other.chain_) {
    other.chain_ = nullptr;
  }
  ChainRef& operator=(ChainRef other) noexcept {
    std::swap(chain_, other.chain_);
    return *this;
  }
  ~ChainRef();

  explicit operator bool() const {
    return chain_ != nullptr;
  }
  uint64_t size_bytes() const;
  // The contiguous bytes from `offset` to the end of their slot (empty at the end of the value).
  std::string_view PieceAt(uint64_t offset) const;
  // Copies [offset, offset + out_bytes) which must lie inside.
  void CopyTo(uint64_t offset, char* out, uint64_t out_bytes) const;

 private:
  Chain* chain_ = nullptr;
};

// Fills a new chain in order. Dropping it unfinished gives the slots back. Owner thread only.
class ChainBuilder {
 public:
  explicit ChainBuilder(Chain* adopted) : chain_(adopted) {
  }
  ChainBuilder(ChainBuilder&&) = default;
  ChainBuilder& operator=(ChainBuilder&&) = default;
  OpResult Write(std::string_view bytes);
  uint64_t written_bytes() const;
  // All total_bytes must have been written.
  ChainRef Finish();

 private:
  ChainRef chain_;
};

// Immutable once linked. Layout (16-byte header, then expiry if any, key, value or chain) is private
// to store/item.cc.
class Item {
 public:
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;

  Seq seq() const;
  uint64_t expiry_ms() const;  // 0 = none
  std::string_view key() const;
  uint64_t value_bytes() const;
  bool is_chain() const;
  // The value; only if !is_chain().
  std::string_view value() const;
  // The value; only if is_chain().
  ChainRef chain() const;
  // Copies [offset, offset + out_bytes) of the value, whichever its shape.
  void CopyTo(uint64_t offset, char* out, uint64_t out_bytes) const;

 private:
  Item() = default;
  friend struct ItemLayout;
};

}  // namespace kvstored::store
