// Loader: brings the data set back at start: newest checkpoint, then the log, all shards in
// parallel.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "log/recovery.h"
#include "server/load_progress.h"
#include "server/node_core.h"

namespace kvstored::server {

struct LoadResult {
  std::vector<log::RecoveredShard> shards;
  uint64_t items_bytes = 0;
  uint64_t log_bytes = 0;
};

class Loader : private log::RecoverySink {
 public:
  explicit Loader(NodeCore* core) : core_(core) {
  }
  // Blocks until everything up to the stored committed watermark is applied and the rest is
  // received (kept unapplied), and the log is open for appending. Any thread but the shards'.
  absl::StatusOr<LoadResult> Load();
  const LoadProgress& progress() const {
    return progress_;
  }

 private:
  absl::Status OnRecords(ShardId shard, std::span<const record::Record> records) override;
  // On the shard's thread, waiting for it.
  absl::Status OnShard(ShardId shard, const std::function<absl::Status(shard::Shard&)>& work);

  NodeCore* const core_;
  bool receiving_ = false;  // records are kept, not applied
  LoadProgress progress_;
};

}  // namespace kvstored::server
