// Keyed digest of keys: XXH3-128 with a secret made from the data set's seed, so that nobody
// outside can aim for collisions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kvstored/types.h"

namespace kvstored::base {

// Immutable after construction, so thread-safe.
class Digester {
 public:
  // `seed`: the 16 random bytes of the data set (data_seed).
  explicit Digester(const Id128& seed);
  Digest Of(std::string_view key) const;

 private:
  std::vector<uint8_t> secret_;
};

// The shard that owns a key: the multiply-shift of the digest's low half, so that the index may use
// the high half. `shard_count` may be any number from 1.
inline ShardId ShardOf(const Digest& digest, uint32_t shard_count) {
  return static_cast<ShardId>((static_cast<unsigned __int128>(digest.low) * shard_count) >> 64);
}

}  // namespace kvstored::base
