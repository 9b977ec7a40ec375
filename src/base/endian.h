// Big-endian loads and stores at any alignment: the byte order of every format of ours.
#pragma once

#include <cstdint>
#include <cstring>

namespace kvstored::base {

inline uint16_t LoadBe16(const void* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof(v));
  return __builtin_bswap16(v);
}
inline uint32_t LoadBe32(const void* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof(v));
  return __builtin_bswap32(v);
}
inline uint64_t LoadBe64(const void* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof(v));
  return __builtin_bswap64(v);
}
inline void StoreBe16(void* p, uint16_t v) {
  v = __builtin_bswap16(v);
  std::memcpy(p, &v, sizeof(v));
}
inline void StoreBe32(void* p, uint32_t v) {
  v = __builtin_bswap32(v);
  std::memcpy(p, &v, sizeof(v));
}
inline void StoreBe64(void* p, uint64_t v) {
  v = __builtin_bswap64(v);
  std::memcpy(p, &v, sizeof(v));
}

}  // namespace kvstored::base
