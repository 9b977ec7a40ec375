// LogSource: where replication takes records that left its backlog (the log's files) and the items
// of a full sync (the shards' memory).
#pragma once

#include <map>
#include <memory>

#include "replication/record_source.h"
#include "server/node_core.h"

namespace kvstored::server {

class LogSource : public replication::RecordSource {
 public:
  explicit LogSource(NodeCore* core) : core_(core), scans_(core->shard_count()) {
  }

  // Reads inline: at most max_bytes from the page cache or the device.
  void ReadLog(ShardId shard, Seq from_seq, size_t max_bytes, ReadDone done) override;
  void RequestSlice(ShardId shard, uint64_t cursor, size_t budget_bytes, SliceDone done) override;
  void EndSlices() override;

 private:
  // Scans under way, by the number that the engine calls the cursor. On the shard's thread.
  struct Scans {
    uint64_t next_id = 1;
    std::map<uint64_t, shard::SnapshotCursor> open;
  };
  static replication::Slice NextSlice(shard::Shard& shard, Scans* scans, uint64_t cursor,
                                      size_t budget_bytes);

  NodeCore* const core_;
  std::vector<Scans> scans_;
};

}  // namespace kvstored::server
