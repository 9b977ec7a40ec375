// Decodes a run of encoded records of one shard and hands those in (above, up_to] to the sink.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kvstored/types.h"
#include "log/recovery.h"

namespace kvstored::log {

// Records a sink gets at once: enough to hide cache misses behind one another.
inline constexpr size_t kReplayRecordsMax = 64;

absl::Status ReplayRecords(ShardId shard, std::span<const uint8_t> bytes, Seq above, Seq up_to,
                           RecoverySink* sink);

}  // namespace kvstored::log
