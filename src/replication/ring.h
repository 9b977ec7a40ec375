// Positions in a stream's ring: the byte count ever written, masked to an offset. A write never
// wraps: the rest of the ring before it is skipped and counted in its advance. Both ends compute
// the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>

namespace kvstored::replication {

// Page-aligned zeroed memory that a peer may be allowed to write to.
class PageBuffer {
 public:
  explicit PageBuffer(uint64_t size_bytes);
  std::span<uint8_t> span() {
    return {memory_.get(), size_bytes_};
  }
  uint64_t size_bytes() const {
    return size_bytes_;
  }

 private:
  struct Free {
    void operator()(uint8_t* p) const {
      ::operator delete[](p, std::align_val_t{4096});
    }
  };
  uint64_t size_bytes_;
  std::unique_ptr<uint8_t[], Free> memory_;
};

// The smallest power of two that holds `bytes`, at least one page.
uint64_t RingBytesFor(uint64_t bytes);

// Where one write lies.
struct RingPlace {
  uint64_t offset = 0;         // in the ring
  uint32_t advance_bytes = 0;  // padding and write
  uint32_t write_bytes = 0;
};

// The writer's view. Invariant: freed <= posted <= freed + size_bytes.
class RingWriter {
 public:
  explicit RingWriter(uint64_t size_bytes = 0) : size_bytes_(size_bytes) {
  }
  uint64_t posted() const {
    return posted_;
  }
  uint64_t freed() const {
    return freed_;
  }
  uint64_t free_bytes() const {
    return size_bytes_ - (posted_ - freed_);
  }
  // Bytes that a write may have now without padding before it.
  uint64_t contiguous_bytes() const;
  // The same with padding, if the ring's rest is skipped.
  uint64_t wrapped_bytes() const;
  // Where a write of that many bytes would go; null: no room now.
  std::optional<RingPlace> Place(uint64_t write_bytes) const;
  void Commit(const RingPlace& place) {
    posted_ += place.advance_bytes;
  }
  // False: the peer claims what it cannot have (backwards is old news and ignored).
  bool Free(uint64_t position);

 private:
  uint64_t size_bytes_;
  uint64_t posted_ = 0;
  uint64_t freed_ = 0;
};

// The reader's view: memory, and where the next write must lie.
class RingReader {
 public:
  explicit RingReader(uint64_t size_bytes);
  std::span<uint8_t> memory() {
    return buffer_.span();
  }
  uint64_t arrived() const {
    return arrived_;
  }
  // The bytes of the write that a completion announced; null: the advance is impossible. They stay
  // until the writer is told that the position behind them is free.
  std::optional<std::span<const uint8_t>> Arrive(uint32_t advance_bytes, uint64_t freed);
  // For a new link: the memory is kept.
  void Reset() {
    arrived_ = 0;
  }

 private:
  PageBuffer buffer_;
  uint64_t arrived_ = 0;
};

}  // namespace kvstored::replication
