#include "base/crc64.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace kvstored::base {
namespace {

constexpr uint64_t kJonesPolynomial = 0x95ac9329ac4bc9b5;
constexpr size_t kLanes = 8;

using Crc64Tables = std::array<std::array<uint64_t, 256>, kLanes>;

// tables[n][b]: what byte b does to the checksum n bytes later.
constexpr Crc64Tables MakeCrc64Tables() {
  Crc64Tables tables{};
  for (uint64_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kJonesPolynomial : 0);
    }
    tables[0][byte] = crc;
  }
  for (size_t lane = 1; lane < kLanes; ++lane) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint64_t before = tables[lane - 1][byte];
      tables[lane][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Crc64Tables kCrc64Tables = MakeCrc64Tables();

}  // namespace

uint64_t Crc64(uint64_t crc, std::string_view bytes) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "eight bytes are loaded as one number");
  while (bytes.size() >= kLanes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kLanes);
    word ^= crc;
    crc = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      crc ^= kCrc64Tables[kLanes - 1 - lane][(word >> (8 * lane)) & 0xff];
    }
    bytes.remove_prefix(kLanes);
  }
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kCrc64Tables[0][(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return crc;
}

}  // namespace kvstored::base
