// Where a scan of a shard's store stands: see Shard::SnapshotSlice (shard/snapshot.cc).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kvstored/types.h"
#include "store/item.h"

namespace kvstored::shard {

// Is the log replayed from before the scan's begin once the snapshot is whole (a checkpoint), or
// do live records pass between the slices (a full sync)?
enum class SnapshotFor : uint8_t { kReplay, kStream };
struct SnapshotCursor {
  // The large value that is being read, as it was when its first piece was.
  struct Large {
    std::string key;
    Seq seq = 0;
    uint64_t expiry_ms = 0;
    store::ChainRef chain;
    uint64_t offset = 0;
    bool linked = false;
    // What changed parts of it since, as records in order; newest_seq: the item's seq by now.
    // kStream only.
    std::deque<std::vector<uint8_t>> deltas;
    uint64_t deltas_bytes = 0;
    Seq newest_seq = 0;
  };
  SnapshotFor purpose = SnapshotFor::kStream;
  uint64_t scan = 0;  // digest where it goes on
  bool scanned = false;
  std::deque<std::string> large_keys;  // read after what was scanned with them
  std::shared_ptr<Large> reading;      // null: none
  bool done() const {
    return scanned && large_keys.empty() && reading == nullptr;
  }
};

}  // namespace kvstored::shard
