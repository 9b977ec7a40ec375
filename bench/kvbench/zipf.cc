#include "kvbench/zipf.h"

#include <algorithm>
#include <cmath>

namespace kvstored::bench {

// The names of the paper: H is the integral of h(x) = x^-exponent.
Zipf::Zipf(uint64_t n, double exponent)
    : n_(static_cast<double>(n)),
      exponent_(exponent),
      integral_low_(Integral(1.5) - 1),
      integral_high_(Integral(n_ + 0.5)),
      accept_below_(2 - InverseIntegral(Integral(2.5) - std::pow(2, -exponent))) {
}

double Zipf::Integral(double x) const {
  return (std::pow(x, 1 - exponent_) - 1) / (1 - exponent_);
}

double Zipf::InverseIntegral(double y) const {
  return std::pow(1 + y * (1 - exponent_), 1 / (1 - exponent_));
}

uint64_t Zipf::Next(base::Random* random) const {
  while (true) {
    const double fraction = static_cast<double>(random->Next() >> 11) * 0x1p-53;
    const double u = integral_high_ + fraction * (integral_low_ - integral_high_);
    const double x = InverseIntegral(u);
    const double k = std::clamp(std::floor(x + 0.5), 1.0, n_);
    // The first bound accepts nearly always without another power.
    if (k - x <= accept_below_ || u >= Integral(k + 0.5) - std::pow(k, -exponent_)) {
      return static_cast<uint64_t>(k) - 1;
    }
  }
}

}  // namespace kvstored::bench
