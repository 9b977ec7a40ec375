// Reads contiguous records of one shard out of the segments; see Log::Read.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "log/segment_index.h"
#include "record/batch.h"

namespace kvstored::log {

absl::StatusOr<record::BatchRef> ReadRecords(const SegmentIndex& index, ShardId shard, Seq from_seq,
                                             uint64_t max_bytes);

}  // namespace kvstored::log
