// Decodes runs of encoded records of one shard and hands them to the sink in large groups.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kvstored/types.h"
#include "log/recovery.h"

namespace kvstored::log {

// Records a sink gets at once: a hand-over to the shard's thread costs as much as applying a
// hundred.
inline constexpr size_t kReplayRecordsMax = 1024;

// One owner at a time. The bytes given to Add stay valid until the next Flush.
class ShardReplay {
 public:
  explicit ShardReplay(ShardId shard) : shard_(shard) {
  }
  // Takes the records in (above, up_to]. IsDamage: a record's own checksum is wrong.
  absl::Status Add(std::span<const uint8_t> bytes, Seq above, Seq up_to);
  // Hands over what was added.
  absl::Status Flush(RecoverySink* sink);

 private:
  ShardId shard_;
  std::vector<record::Record> pending_;
};

}  // namespace kvstored::log
