// How many different keys are in a stream, from little memory.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>

namespace kvstored::base {

// Keeps the smallest hashes: the part of the hash space that they take tells how many there are (Z.
// Bar-Yossef et al., "Counting Distinct Elements in a Data Stream", RANDOM 2002, algorithm 1). Errs
// by 3 % (one standard deviation). Thread-compatible.
class DistinctEstimate {
 public:
  // `hash` must be spread evenly. Costs one comparison for nearly all of a long stream.
  void Add(uint64_t hash) {
    if (hash < bound_ && smallest_.insert(hash).second && smallest_.size() > kKept) {
      smallest_.erase(std::prev(smallest_.end()));
      bound_ = *smallest_.rbegin();
    }
  }
  uint64_t Count() const {
    if (smallest_.size() < kKept) {
      return smallest_.size();
    }
    const double part = std::ldexp(static_cast<double>(*smallest_.rbegin()) + 1, -64);
    return static_cast<uint64_t>((kKept - 1) / part);
  }

 private:
  static constexpr size_t kKept = 1024;

  std::set<uint64_t> smallest_;
  uint64_t bound_ = UINT64_MAX;  // nothing above it counts any more
};

}  // namespace kvstored::base
