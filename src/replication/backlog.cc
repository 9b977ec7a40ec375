#include "replication/backlog.h"

#include <algorithm>

#include "base/check.h"

namespace kvstored::replication {

Backlog::Backlog(std::vector<Seq> ends, size_t bytes_max)
    : shards_(ends.size()), shard_bytes_max_(bytes_max / std::max<size_t>(ends.size(), 1)) {
  for (size_t i = 0; i < ends.size(); ++i) {
    shards_[i].end = ends[i];
  }
}

void Backlog::Add(record::BatchRef batch) {
  Shard& shard = shards_[batch->shard];
  KVS_CHECK(batch->last_seq >= batch->first_seq && !batch->is_snapshot,
            "shard=%u first=%llu last=%llu", batch->shard,
            static_cast<unsigned long long>(batch->first_seq),
            static_cast<unsigned long long>(batch->last_seq));
  if (batch->last_seq <= shard.end) {
    return;
  }
  if (batch->first_seq != shard.end + 1) {
    bytes_ -= shard.bytes;
    shard.bytes = 0;
    shard.batches.clear();
  }
  shard.end = batch->last_seq;
  shard.bytes += batch->bytes.size();
  bytes_ += batch->bytes.size();
  shard.batches.push_back(std::move(batch));
  while (shard.bytes > shard_bytes_max_ && shard.batches.size() > 1) {
    shard.bytes -= shard.batches.front()->bytes.size();
    bytes_ -= shard.batches.front()->bytes.size();
    shard.batches.pop_front();
  }
}

record::BatchRef Backlog::Find(ShardId shard_id, Seq seq) const {
  const Shard& shard = shards_[shard_id];
  if (shard.batches.empty() || seq < shard.batches.front()->first_seq || seq > shard.end) {
    return nullptr;
  }
  // Most often the newest: a replica that keeps up.
  if (seq >= shard.batches.back()->first_seq) {
    return shard.batches.back();
  }
  const auto it = std::upper_bound(
      shard.batches.begin(), shard.batches.end(), seq,
      [](Seq value, const record::BatchRef& batch) { return value < batch->first_seq; });
  return *std::prev(it);
}

}  // namespace kvstored::replication
