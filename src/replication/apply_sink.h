// ApplySink: what a replica does with what it receives. Implemented by the server (own log,
// shards), by fakes in tests. All calls on the replication thread; none may block for long.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "kvstored/op_result.h"
#include "kvstored/types.h"
#include "record/batch.h"
#include "replication/join_plan.h"

namespace kvstored::replication {

// Where a replica stands with its primary; at the primary, where a replica stands.
enum class StreamState : uint8_t {
  kConnecting = 0,
  kFullSync = 1,
  kCatchUp = 2,
  kStreaming = 3,
};
std::string_view StreamStateName(StreamState state);

class ApplySink {
 public:
  virtual ~ApplySink() = default;

  // Before any record of a link: cut the log above plan.common, then add the primary's epochs (P16,
  // P20); or, for kFullSync, begin a new data set directory and answer -LOADING (P21). `done` is
  // called once, on any thread, also inline; an error ends the link and is tried again. Before
  // done(OK) SetLocalPersisted must have told, per shard, what of the log *after the cut* is
  // persisted: the engine has forgotten what it was told before.
  virtual void PrepareJoin(const JoinPlan& plan, std::function<void(absl::Status)> done) = 0;

  // Verified, contiguous live records of one shard: the first is the successor of the last one
  // given (or of the common point). kOk: queued for the own log and kept for apply; kWait (log
  // queue full) or kDiskFull: nothing was taken, the same batch is offered again later and the
  // primary is held back meanwhile.
  virtual OpResult OnBatch(record::BatchRef batch) = 0;
  // Full sync: items, verified, to be taken in the order of all On...Batch calls of the shard.
  // In a full sync the live records may begin below the items (open runs), Apply skips what is
  // older.
  virtual OpResult OnSnapshotBatch(record::BatchRef batch) = 0;
  // All items of the shard have been given: with the live records up to end_seq applied, its state
  // hash must be state_hash. When that holds for all shards, committed >= end_seq everywhere and
  // the new directory is published, call Replication::FinishFullSync(OK).
  virtual void OnSnapshotEnd(ShardId shard, Seq end_seq, uint64_t state_hash) = 0;
  // The half-built data set is worthless: drop it (P21). Starts again with the next PrepareJoin.
  // Has no meaning for a set that was published already (its FinishFullSync crossed the end of the
  // link).
  virtual void OnFullSyncAborted(const absl::Status& why) = 0;

  // The primary's watermark as told (never going back within a link, never above what was received)
  // and its record clock.
  virtual void OnCommitted(ShardId shard, Seq committed, uint64_t primary_clock_us) = 0;
  // The primary's record clock, with each heartbeat.
  virtual void OnPrimaryClock(uint64_t primary_clock_us) = 0;

  // A change of state, for INFO, logs and alarms. `text` names cause and remedy, empty when all is
  // well. With kConnecting, `refusal` tells a refused join from a lost link.
  virtual void OnStreamState(StreamState state, Refusal refusal, std::string_view text) = 0;
};

}  // namespace kvstored::replication
