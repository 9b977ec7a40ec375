#include "replication/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace kvstored::replication {

uint64_t RingWriter::contiguous_bytes() const {
  const uint64_t to_end = size_bytes_ - posted_ % size_bytes_;
  return std::min(free_bytes(), to_end);
}

uint64_t RingWriter::wrapped_bytes() const {
  const uint64_t to_end = size_bytes_ - posted_ % size_bytes_;
  return free_bytes() > to_end ? free_bytes() - to_end : 0;
}

std::optional<RingPlace> RingWriter::Place(uint64_t write_bytes) const {
  RingPlace place;
  place.write_bytes = static_cast<uint32_t>(write_bytes);
  if (write_bytes <= contiguous_bytes()) {
    place.offset = posted_ % size_bytes_;
    place.advance_bytes = place.write_bytes;
    return place;
  }
  // Only if it really crosses the end: the reader takes padding for granted exactly then.
  const uint64_t to_end = size_bytes_ - posted_ % size_bytes_;
  if (write_bytes > to_end && write_bytes <= wrapped_bytes()) {
    place.offset = 0;
    place.advance_bytes = static_cast<uint32_t>(to_end + write_bytes);
    return place;
  }
  return std::nullopt;
}

bool RingWriter::Free(uint64_t position) {
  if (position > posted_) {
    return false;
  }
  freed_ = std::max(freed_, position);
  return true;
}

PageBuffer::PageBuffer(uint64_t size_bytes)
    : size_bytes_(size_bytes),
      memory_(static_cast<uint8_t*>(::operator new[](size_bytes, std::align_val_t{4096}))) {
  std::memset(memory_.get(), 0, size_bytes);  // touched before it is registered
}

uint64_t RingBytesFor(uint64_t bytes) {
  return std::bit_ceil(std::max<uint64_t>(bytes, 4096));
}

RingReader::RingReader(uint64_t size_bytes) : buffer_(size_bytes) {
  KVS_CHECK(size_bytes == RingBytesFor(size_bytes), "size_bytes=%llu",
            static_cast<unsigned long long>(size_bytes));
}

std::optional<std::span<const uint8_t>> RingReader::Arrive(uint32_t advance_bytes, uint64_t freed) {
  const uint64_t size_bytes = buffer_.size_bytes();
  const uint64_t at = arrived_ % size_bytes;
  // Not more than the ring could take without overwriting what was not given back.
  if (advance_bytes == 0 || arrived_ + advance_bytes - freed > size_bytes) {
    return std::nullopt;
  }
  arrived_ += advance_bytes;
  if (at + advance_bytes <= size_bytes) {
    return std::span<const uint8_t>(buffer_.span().data() + at, advance_bytes);
  }
  return std::span<const uint8_t>(buffer_.span().data(), advance_bytes - (size_bytes - at));
}

}  // namespace kvstored::replication
