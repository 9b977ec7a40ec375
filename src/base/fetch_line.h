// Brings a line of memory into the cache ahead of its use.
#pragma once

namespace kvstored::base {

// A load whose value nobody waits for, not a prefetch instruction: a processor may drop that one
// when the page is not in its TLB, which is the rule in a large store (seen on an AMD EPYC under
// KVM: prefetching gained nothing, this a fifth of an insertion). Call it for many lines in a tight
// loop: the loads then wait side by side. `line` must be readable.
inline void FetchLine(const void* line) {
  (void)*static_cast<const volatile char*>(line);
}

}  // namespace kvstored::base
