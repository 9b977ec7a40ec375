// Tells AddressSanitizer which bytes of the pool nobody owns, so that a use after free inside a
// slab is found as surely as one on the heap. Nothing at all in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define KVS_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVS_HAS_ASAN 1
#endif
#endif

#ifdef KVS_HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace kvstored::memory {

inline void Poison([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef KVS_HAS_ASAN
  __asan_poison_memory_region(begin, bytes);
#endif
}
inline void Unpoison([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef KVS_HAS_ASAN
  __asan_unpoison_memory_region(begin, bytes);
#endif
}

}  // namespace kvstored::memory
