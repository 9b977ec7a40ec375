#include "base/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <cstring>

namespace kvstored::base {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    tables[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (size_t t = 1; t < 8; ++t) {
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t ExtendPortable(uint32_t crc, const uint8_t* p, size_t n) {
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (size_t t = 0; t < 8; ++t) {
      crc ^= kTables[7 - t][(word >> (8 * t)) & 0xff];
    }
  }
  for (; n > 0; --n, ++p) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xff];
  }
  return crc;
}

// Multiplies a CRC state by x^(8 * kBlock): what appending kBlock zero bytes does to it. One table
// look-up per byte of the state (https://www.zlib.net "crc32_combine", tabulated).
constexpr size_t kBlock = 256;

constexpr std::array<std::array<uint32_t, 256>, 4> MakeShift() {
  // The map is linear: what it does to each bit tells the rest (and keeps the compiler's steps
  // few).
  std::array<uint32_t, 32> bit{};
  for (size_t b = 0; b < 32; ++b) {
    uint32_t crc = uint32_t{1} << b;
    for (size_t i = 0; i < kBlock; ++i) {
      crc = (crc >> 8) ^ kTables[0][crc & 0xff];
    }
    bit[b] = crc;
  }
  std::array<std::array<uint32_t, 256>, 4> shift{};
  for (size_t byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      for (size_t b = 0; b < 8; ++b) {
        shift[byte][value] ^= (value >> b & 1) != 0 ? bit[8 * byte + b] : 0;
      }
    }
  }
  return shift;
}

constexpr auto kShift = MakeShift();

uint32_t Shift(uint32_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][(crc >> 8) & 0xff] ^ kShift[2][(crc >> 16) & 0xff] ^
         kShift[3][crc >> 24];
}

__attribute__((target("sse4.2"))) uint32_t ExtendSse42(uint32_t crc, const uint8_t* p, size_t n) {
  uint64_t a = crc;
  // Three independent streams hide the instruction's latency of three cycles.
  for (; n >= 3 * kBlock; n -= 3 * kBlock, p += 3 * kBlock) {
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < kBlock; i += 8) {
      uint64_t x;
      uint64_t y;
      uint64_t z;
      std::memcpy(&x, p + i, 8);
      std::memcpy(&y, p + kBlock + i, 8);
      std::memcpy(&z, p + 2 * kBlock + i, 8);
      a = _mm_crc32_u64(a, x);
      b = _mm_crc32_u64(b, y);
      c = _mm_crc32_u64(c, z);
    }
    a = Shift(Shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ c;
  }
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    a = _mm_crc32_u64(a, word);
  }
  crc = static_cast<uint32_t>(a);
  for (; n > 0; --n, ++p) {
    crc = _mm_crc32_u8(crc, *p);
  }
  return crc;
}

const bool kHasSse42 = __builtin_cpu_supports("sse4.2") != 0;

}  // namespace

uint32_t Crc32c(uint32_t crc, const void* data, size_t size_bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  crc = ~crc;
  return ~(kHasSse42 ? ExtendSse42(crc, p, size_bytes) : ExtendPortable(crc, p, size_bytes));
}

uint32_t Crc32cAround(const void* data, size_t size_bytes, size_t offset) {
  static constexpr uint8_t kZero[4] = {};
  const auto* p = static_cast<const uint8_t*>(data);
  uint32_t crc = Crc32c(0, p, offset);
  crc = Crc32c(crc, kZero, sizeof(kZero));
  return Crc32c(crc, p + offset + sizeof(kZero), size_bytes - offset - sizeof(kZero));
}

}  // namespace kvstored::base
