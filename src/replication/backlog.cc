#include "replication/backlog.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvstored::replication {

Backlog::Backlog(std::vector<Seq> ends, size_t bytes_max, std::function<void(int64_t)> charge)
    : shards_(ends.size()),
      shard_bytes_max_(bytes_max / std::max<size_t>(ends.size(), 1)),
      charge_(std::move(charge)) {
  for (size_t i = 0; i < ends.size(); ++i) {
    shards_[i].end = ends[i];
  }
}

Backlog::~Backlog() {
  Count(-static_cast<int64_t>(bytes_));
}

void Backlog::Count(int64_t bytes) {
  bytes_ = static_cast<size_t>(static_cast<int64_t>(bytes_) + bytes);
  if (charge_) {
    charge_(bytes);
  }
}

void Backlog::Add(record::BatchRef batch, bool keep) {
  Shard& shard = shards_[batch->shard];
  KVS_CHECK(batch->last_seq >= batch->first_seq && !batch->is_snapshot,
            "shard=%u first=%llu last=%llu", batch->shard,
            static_cast<unsigned long long>(batch->first_seq),
            static_cast<unsigned long long>(batch->last_seq));
  if (batch->last_seq <= shard.end) {
    return;
  }
  const size_t before = shard.bytes;
  if (batch->first_seq != shard.end + 1) {
    shard.bytes = 0;
    shard.batches.clear();
  }
  shard.end = batch->last_seq;
  shard.bytes += batch->bytes.capacity();
  shard.batches.push_back(std::move(batch));
  while (shard.bytes > (keep ? shard_bytes_max_ : 0) && shard.batches.size() > 1) {
    shard.bytes -= shard.batches.front()->bytes.capacity();
    shard.batches.pop_front();
  }
  Count(static_cast<int64_t>(shard.bytes) - static_cast<int64_t>(before));
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
