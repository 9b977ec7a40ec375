// What goes when memory is short (memory.eviction; names and meaning as Redis' maxmemory-policy).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kvstored::store {

enum class Eviction : uint8_t {
  kNone,
  kAllKeysLru,
  kAllKeysLfu,
  kAllKeysRandom,
  kVolatileLru,
  kVolatileLfu,
  kVolatileRandom,
  kVolatileTtl,
};

// By value of the enumeration.
inline constexpr std::array<std::string_view, 8> kEvictionNames = {
    "noeviction",   "allkeys-lru",  "allkeys-lfu",     "allkeys-random",
    "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"};

// The name must be one of them.
inline Eviction EvictionOf(std::string_view name) {
  uint8_t value = 0;
  while (value + 1u < kEvictionNames.size() && kEvictionNames[value] != name) {
    ++value;
  }
  return static_cast<Eviction>(value);
}

// Only items with an expiry may go.
inline constexpr bool IsVolatile(Eviction policy) {
  return policy >= Eviction::kVolatileLru;
}
inline constexpr bool CountsFrequency(Eviction policy) {
  return policy == Eviction::kAllKeysLfu || policy == Eviction::kVolatileLfu;
}
inline constexpr bool IsRandom(Eviction policy) {
  return policy == Eviction::kAllKeysRandom || policy == Eviction::kVolatileRandom;
}

}  // namespace kvstored::store
