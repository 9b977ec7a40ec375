// Backlog: the newest batches of every shard, kept for replicas that keep up. What falls out is
// read from the log instead: a slow replica costs no memory.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "kvstored/types.h"
#include "record/batch.h"

namespace kvstored::replication {

// Replication thread. Invariant: each shard's batches are contiguous and end at end(shard); the
// shard's newest batch is always kept.
class Backlog {
 public:
  // `ends`: the last seq of each shard before the first Add.
  Backlog(std::vector<Seq> ends, size_t bytes_max);

  // A batch that does not continue its shard (role changes cross with ticks) empties the shard's
  // backlog: the log has what is missing, since every batch goes there first (P2). Old news is
  // ignored.
  void Add(record::BatchRef batch);
  Seq end(ShardId shard) const {
    return shards_[shard].end;
  }
  // The batch that holds `seq`; null: older than the backlog, or not made yet.
  record::BatchRef Find(ShardId shard, Seq seq) const;
  size_t bytes() const {
    return bytes_;
  }

 private:
  struct Shard {
    std::deque<record::BatchRef> batches;
    size_t bytes = 0;
    Seq end = 0;
  };
  std::vector<Shard> shards_;
  const size_t shard_bytes_max_;
  size_t bytes_ = 0;
};

}  // namespace kvstored::replication
