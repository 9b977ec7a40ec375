// What waits for a shard's commit watermark, and what holds the watermark back.
#pragma once

#include <atomic>
#include <cstdint>

#include "kvstored/types.h"

namespace kvstored::shard {

// A reply (or anything else) that waits until the shard has committed `dependency`. Intrusive;
// `release` runs on the shard's thread, in the tick in which the watermark passes.
struct Gated {
  void (*release)(Gated* self) = nullptr;
  Seq dependency = 0;
  Gated* next = nullptr;
};

// The commit of one transaction over several shards (P6): the last part whose shard's watermark
// would pass it lets all of them pass. Shared by the participants, thread-safe.
struct TxnCommit {
  uint64_t id = 0;
  std::atomic<uint32_t> parts_left{0};
};

}  // namespace kvstored::shard
