// The dice of a simulation.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace kvstored::sim {

class SimRandom : public base::Random {
 public:
  using base::Random::Random;

  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  // No die is cast when the rate is 0: switching a fault off does not shift the others.
  bool Chance(double rate) {
    return rate > 0 && static_cast<double>(Next() >> 11) * 0x1.0p-53 < rate;
  }
};

}  // namespace kvstored::sim
