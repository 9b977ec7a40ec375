#include "command/bits.h"

#include <bit>
#include <cstring>

namespace kvstored::command {
namespace {

uint64_t LoadWord(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint64_t CountBytes(std::string_view bytes) {
  uint64_t count = 0;
  for (; bytes.size() >= sizeof(uint64_t); bytes.remove_prefix(sizeof(uint64_t))) {
    count += static_cast<uint64_t>(std::popcount(LoadWord(bytes.data())));
  }
  for (const char byte : bytes) {
    count += static_cast<uint64_t>(std::popcount(static_cast<uint8_t>(byte)));
  }
  return count;
}

uint8_t ByteAt(const store::Item& item, uint64_t at) {
  char byte = 0;
  item.CopyTo(at, &byte, 1);
  return static_cast<uint8_t>(byte);
}

// Of a byte, the bits before bit `first` of the value, and those behind bit `last`.
uint8_t Before(uint64_t first) {
  return static_cast<uint8_t>(~(0xff >> (first % 8)));
}
uint8_t Behind(uint64_t last) {
  return static_cast<uint8_t>(0x7f >> (last % 8));
}

}  // namespace

uint64_t CountBits(const store::Item& item, uint64_t first, uint64_t last) {
  uint64_t count = 0;
  ForEachPiece(item, first / 8, last / 8 + 1, [&count](std::string_view piece) {
    count += CountBytes(piece);
    return true;
  });
  const char edges[] = {static_cast<char>(ByteAt(item, first / 8) & Before(first)),
                        static_cast<char>(ByteAt(item, last / 8) & Behind(last))};
  return count - CountBytes({edges, sizeof(edges)});
}

uint64_t FindBit(const store::Item& item, uint64_t first, uint64_t last, bool bit) {
  const uint64_t skipped = bit ? 0 : ~uint64_t{0};
  uint64_t at = first / 8;
  uint64_t found = kNoBit;
  ForEachPiece(item, at, last / 8 + 1, [&](std::string_view piece) {
    while (!piece.empty()) {
      if (piece.size() >= sizeof(uint64_t) && LoadWord(piece.data()) == skipped) {
        piece.remove_prefix(sizeof(uint64_t));
        at += sizeof(uint64_t);
        continue;
      }
      int matches = (piece[0] ^ static_cast<char>(skipped)) & 0xff;
      matches &= at == first / 8 ? ~Before(first) : 0xff;
      matches &= at == last / 8 ? ~Behind(last) : 0xff;
      if (matches != 0) {
        found = at * 8 + static_cast<uint64_t>(std::countl_zero(static_cast<uint8_t>(matches)));
        return false;
      }
      piece.remove_prefix(1);
      ++at;
    }
    return true;
  });
  return found;
}

}  // namespace kvstored::command
