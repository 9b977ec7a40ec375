// Bits of a value. As in Redis bit 0 is the most significant bit of the first byte.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "store/item.h"

namespace kvstored::command {

inline constexpr uint64_t kNoBit = std::numeric_limits<uint64_t>::max();

// Calls visit(bytes) for [begin, end) of the value, piece after piece, until it returns false.
template <typename Visit>
void ForEachPiece(const store::Item& item, uint64_t begin, uint64_t end, Visit visit) {
  if (!item.is_chain()) {
    visit(item.value().substr(begin, end - begin));
    return;
  }
  const store::ChainRef chain = item.chain();
  while (begin < end) {
    const std::string_view piece = chain.PieceAt(begin).substr(0, end - begin);
    if (!visit(piece)) {
      return;
    }
    begin += piece.size();
  }
}

// Set bits among the bits [first, last] of the value, which holds them all.
uint64_t CountBits(const store::Item& item, uint64_t first, uint64_t last);
// The first bit of [first, last] that is `bit`, or kNoBit. The value holds them all.
uint64_t FindBit(const store::Item& item, uint64_t first, uint64_t last, bool bit);

}  // namespace kvstored::command
