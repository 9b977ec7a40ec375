// RecordSource: where a primary (or a node asked for its tail) takes records that are no longer in
// the engine's backlog. Implemented by the server (log reader, shards), by fakes in tests. Called
// on the replication thread; `done` may be called once on any thread, also inline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "kvstored/types.h"
#include "record/batch.h"

namespace kvstored::replication {

// One step of a full sync's scan of a shard.
struct Slice {
  record::BatchRef batch;  // is_snapshot; last_seq = the shard's `applied` when it was read; may be
                           // without bytes
  uint64_t next_cursor = 0;
  bool is_last = false;
  // Of the slice with cursor 0: the seq from which live records must follow: applied + 1, or the
  // first part of the oldest open run (P4).
  Seq live_from = 0;
  // Of the last slice: the shard's state hash at batch->last_seq.
  uint64_t state_hash = 0;
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;

  using ReadDone = std::function<void(absl::StatusOr<record::BatchRef>)>;
  // At most about max_bytes (but at least one record) of live records that begin exactly at
  // from_seq. kOutOfRange: no longer in the log (full sync needed) or beyond its end. kUnavailable:
  // not written yet, ask again. One call per stream at a time.
  virtual void ReadLog(ShardId shard, Seq from_seq, size_t max_bytes, ReadDone done) = 0;

  using SliceDone = std::function<void(absl::StatusOr<Slice>)>;
  // Straight from memory, at most about budget_bytes. cursor 0 begins. One call per stream at a
  // time.
  virtual void RequestSlice(ShardId shard, uint64_t cursor, size_t budget_bytes,
                            SliceDone done) = 0;
  // The full sync that asked for slices is over or given up: what the source keeps for it (cursors,
  // pinned values) may go. Also called for shards that were never asked.
  virtual void EndSlices() = 0;
};

}  // namespace kvstored::replication
