// Random numbers as a seam: identities come from the system, everything else from a seed that the
// simulator chooses.
#pragma once

#include <cstdint>

#include "kvstored/types.h"

namespace kvstored::base {

// SplitMix64 (https://prng.di.unimi.it/splitmix64.c), enough for jitter and identities of tests.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {
  }
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Uniform in [0, limit); limit > 0.
  uint64_t Below(uint64_t limit) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * limit) >> 64);
  }
  Id128 NextId() {
    Id128 id;
    for (auto& byte : id.bytes) {
      byte = static_cast<uint8_t>(Next());
    }
    return id;
  }

 private:
  uint64_t state_;
};

// 64 bits from getrandom(2).
uint64_t SystemRandom();

}  // namespace kvstored::base
