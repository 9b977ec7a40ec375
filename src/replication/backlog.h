// Backlog: the newest batches of every shard, kept for replicas that keep up. What falls out is
// read from the log instead: a slow replica costs no memory, and one that is not there none at all.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "kvstored/types.h"
#include "record/batch.h"

namespace kvstored::replication {

// Replication thread. Invariant: each shard's batches are contiguous and end at end(shard); the
// shard's newest batch is always kept.
class Backlog {
 public:
  // `ends`: the last seq of each shard before the first Add. `charge`: told how many bytes more, or
  // fewer, are held.
  Backlog(std::vector<Seq> ends, size_t bytes_max, std::function<void(int64_t bytes)> charge);
  ~Backlog();
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  // A batch that does not continue its shard (role changes cross with ticks) empties the shard's
  // backlog: the log has what is missing, since every batch goes there first (P2). Old news is
  // ignored. `keep`: somebody may want it; else only the newest batch stays.
  void Add(record::BatchRef batch, bool keep);
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
  void Count(int64_t bytes);

  std::vector<Shard> shards_;
  const size_t shard_bytes_max_;
  const std::function<void(int64_t)> charge_;
  size_t bytes_ = 0;
};

}  // namespace kvstored::replication
