// Item and chain: what a key's value is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "kvstored/limits.h"
#include "kvstored/op_result.h"
#include "kvstored/types.h"

namespace kvstored::store {

class Chain;
class ChainSpace;

// Shared ownership of the first size_bytes() of a chain, which never change while the reference
// lives (a chain may grow beyond them). Copy and drop on ANY thread (the count is atomic); the
// slots go back to their store through a lock-free list that Store::Tick drains, so the store must
// outlive every reference (its owner waits for that at shutdown).
class ChainRef {
 public:
  ChainRef() = default;
  // Takes over one count of the chain.
  ChainRef(Chain* adopted, uint64_t size_bytes) : chain_(adopted), size_bytes_(size_bytes) {
  }
  ChainRef(const ChainRef& other);
  ChainRef(ChainRef&& other) noexcept
      : chain_(std::exchange(other.chain_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)) {
  }
  ChainRef& operator=(ChainRef other) noexcept {
    std::swap(chain_, other.chain_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~ChainRef();

  explicit operator bool() const {
    return chain_ != nullptr;
  }
  uint64_t size_bytes() const {
    return size_bytes_;
  }
  // The contiguous bytes from `offset` to the end of their slot (empty at the end of the value).
  std::string_view PieceAt(uint64_t offset) const;
  // Copies [offset, offset + out_bytes) which must lie inside.
  void CopyTo(uint64_t offset, char* out, uint64_t out_bytes) const;

 private:
  friend class ChainSpace;
  Chain* chain_ = nullptr;
  uint64_t size_bytes_ = 0;
};

// Fills a new chain in order. Dropping it unfinished gives the slots back. Owner thread only.
class ChainBuilder {
 public:
  // Takes over the one count of a chain without bytes; null = there was no memory for it.
  ChainBuilder(Chain* adopted, uint64_t total_bytes)
      : chain_(adopted, 0), total_bytes_(total_bytes) {
  }
  ChainBuilder(ChainBuilder&&) = default;
  ChainBuilder& operator=(ChainBuilder&&) = default;
  // kOutOfMemory: nothing was written. More than total_bytes in all: kTooLarge, nothing was
  // written.
  OpResult Write(std::string_view bytes);
  uint64_t written_bytes() const {
    return written_bytes_;
  }
  uint64_t total_bytes() const {
    return total_bytes_;
  }
  // All total_bytes must have been written. A null reference if there was no memory at all.
  ChainRef Finish();

 private:
  ChainRef chain_;
  uint64_t total_bytes_;
  uint64_t written_bytes_ = 0;
};

// Immutable once linked, but for the word that remembers its use. Layout (16-byte header, then
// expiry if any, chain if any, key, inline value) is private to store/item_layout.h.
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
