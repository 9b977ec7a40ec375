// Key number n as bytes on the wire: "key:" and n in decimal digits, padded with zeroes.
#pragma once

#include <cstdint>
#include <cstring>

namespace kvstored::bench {

class KeyText {
 public:
  static constexpr uint32_t kBytesMin = 5;
  static constexpr uint32_t kBytesMax = 250;  // memcached's bound

  explicit KeyText(uint32_t bytes) : bytes_(bytes) {
  }
  uint32_t bytes() const {
    return bytes_;
  }
  // How many keys have different texts.
  static uint64_t LimitOf(uint32_t bytes) {
    uint64_t limit = 1;
    for (uint32_t digit = kPrefixBytes; digit < bytes && limit < kLimitMax; ++digit) {
      limit *= 10;
    }
    return limit;
  }
  // Writes bytes() bytes.
  void Write(uint64_t number, char* to) const {
    std::memcpy(to, "key:", kPrefixBytes);
    char* digit = to + bytes_;
    for (; number > 0 && digit > to + kPrefixBytes; number /= 10) {
      *--digit = static_cast<char>('0' + number % 10);
    }
    std::memset(to + kPrefixBytes, '0', static_cast<size_t>(digit - to) - kPrefixBytes);
  }

 private:
  static constexpr uint32_t kPrefixBytes = 4;
  static constexpr uint64_t kLimitMax = 1'000'000'000'000'000'000;

  uint32_t bytes_;
};

}  // namespace kvstored::bench
