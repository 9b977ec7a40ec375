// What waits for a shard's commit watermark, and what holds the watermark back.
#pragma once

#include <atomic>
#include <cstddef>
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
  explicit TxnCommit(size_t part_count) : parts_left(static_cast<uint32_t>(part_count)) {
  }
  std::atomic<uint32_t> parts_left;
};

}  // namespace kvstored::shard
