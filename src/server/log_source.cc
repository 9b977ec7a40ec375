#include "server/log_source.h"

#include "absl/strings/str_format.h"

namespace kvstored::server {

void LogSource::ReadLog(ShardId shard, Seq from_seq, size_t max_bytes, ReadDone done) {
  absl::StatusOr<record::BatchRef> batch = core_->log()->Read(shard, from_seq, max_bytes);
  if (absl::IsNotFound(batch.status())) {
    done(absl::OutOfRangeError(std::string(batch.status().message())));
    return;
  }
  if (batch.ok() && *batch == nullptr) {
    done(absl::UnavailableError(
        absl::StrFormat("seq %d of shard %d is not written yet", from_seq, shard)));
    return;
  }
  done(std::move(batch));
}

replication::Slice LogSource::NextSlice(shard::Shard& shard, Scans* scans, uint64_t cursor,
                                        size_t budget_bytes) {
  replication::Slice slice;
  uint64_t id = cursor;
  if (id == 0) {
    id = scans->next_id++;
    slice.live_from = shard.OldestOpen();
  }
  shard::SnapshotCursor& scan = scans->open[id];
  slice.batch = shard.SnapshotSlice(&scan, budget_bytes);
  slice.next_cursor = id;
  slice.is_last = scan.done();
  if (slice.is_last) {
    slice.state_hash = shard.store()->StateHash();
    scans->open.erase(id);
  }
  return slice;
}

void LogSource::RequestSlice(ShardId shard, uint64_t cursor, size_t budget_bytes, SliceDone done) {
  core_->threads->RunOnShard(shard, [this, cursor, budget_bytes, done](shard::Shard& scanned) {
    Scans& scans = scans_[scanned.id()];
    if (cursor != 0 && !scans.open.contains(cursor)) {
      done(absl::AbortedError("the scan was given up"));
      return;
    }
    done(NextSlice(scanned, &scans, cursor, budget_bytes));
  });
}

void LogSource::EndSlices() {
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    core_->threads->RunOnShard(
        shard, [this](shard::Shard& scanned) { scans_[scanned.id()].open.clear(); });
  }
}

}  // namespace kvstored::server
