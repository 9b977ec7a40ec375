// Ranks by Zipf's law: rank k of n comes up with probability proportional to 1 / k^exponent.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace kvstored::bench {

// Exact, by rejection-inversion (W. Hörmann, G. Derflinger: Rejection-inversion to generate
// variates from monotone discrete distributions, ACM TOMACS 6(3), 1996). YCSB approximates the same
// law by the method of Gray et al. (SIGMOD 1994), which sums over all ranks first; this one sets up
// in no time, so n may grow with the keys.
class Zipf {
 public:
  static constexpr double kYcsbExponent = 0.99;

  // n >= 1; exponent > 0 and not 1.
  Zipf(uint64_t n, double exponent);
  // In [0, n), the most frequent first.
  uint64_t Next(base::Random* random) const;

 private:
  // The integral of x^-exponent, and its inverse.
  double Integral(double x) const;
  double InverseIntegral(double y) const;

  double n_;
  double exponent_;
  double integral_low_;
  double integral_high_;
  double accept_below_;
};

// The FNV-1a hash of eight bytes, with which YCSB scatters the popular ranks over the keys
// (Utils.hash of YCSB; the sign bit is dropped there).
inline uint64_t ScatterHash(uint64_t value) {
  uint64_t hash = 0xcbf29ce484222325;
  for (int octet = 0; octet < 8; ++octet, value >>= 8) {
    hash = (hash ^ (value & 0xff)) * 0x100000001b3;
  }
  const auto as_signed = static_cast<int64_t>(hash);
  return as_signed < 0 ? 0 - hash : hash;
}

}  // namespace kvstored::bench
