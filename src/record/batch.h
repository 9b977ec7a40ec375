// A batch: the records that one shard made in one tick, in seq order, as one run of bytes. Built by
// the shard's thread, then sealed and shared read-only by the log, the backlog and every stream;
// the last reference frees it. "The same bytes everywhere" (record_format.h) starts here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kvstored/types.h"

namespace kvstored::record {

// Invariants: the records are whole, contiguous in seq from first_seq to last_seq, and `bytes`
// holds nothing else. A snapshot batch (is_snapshot) holds items with kRecordSnapshot instead: they
// keep their own older seqs, and first_seq == last_seq == the shard's `applied` when they were
// read; it goes between the live records last_seq and last_seq + 1.
struct Batch {
  ShardId shard = 0;
  bool is_snapshot = false;
  Seq first_seq = 0;
  Seq last_seq = 0;
  Seq committed = 0;      // the shard's committed watermark when the batch was sealed
  uint64_t clock_us = 0;  // the primary's record clock when it was sealed
  std::vector<uint8_t> bytes;
};

using BatchRef = std::shared_ptr<const Batch>;

}  // namespace kvstored::record
