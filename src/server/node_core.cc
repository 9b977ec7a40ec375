#include "server/node_core.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "store/eviction.h"

namespace kvstored::server {
namespace {

memory::RegionPool::Options PoolOptions(const Config& config) {
  return {.initial_bytes = InitialPoolBytes(config), .max_bytes = config.memory.max_memory_bytes};
}

}  // namespace

NodeCore::NodeCore(Config node_config, const NodeSeams& node_seams, Identity* node_identity)
    : config(std::move(node_config)),
      seams(node_seams),
      identity(node_identity),
      random(node_seams.random_seed),
      record_clock(node_seams.clock),
      pool(PoolOptions(*config.Get())),
      digester(node_identity->manifest().seed) {
  const std::shared_ptr<const Config> now = config.Get();
  log_sync.store(static_cast<uint8_t>(now->log.sync), std::memory_order_relaxed);
  gate.eviction.store(static_cast<uint8_t>(store::EvictionOf(now->memory.eviction)),
                      std::memory_order_relaxed);
  const uint32_t shards =
      identity->has_data_set() ? identity->manifest().shard_count : now->server.shards;
  if (now->server.threads > shards) {
    base::LogWarning(absl::StrFormat(
        "server.threads: %d, but the data set has %d shards, and a thread without one would be "
        "idle: %d threads run. The shard count is fixed when a data directory is made",
        now->server.threads, shards, shards));
  }
  threads = std::make_unique<shard::ThreadSet>(std::min(now->server.threads, shards), shards,
                                               &record_clock);
  last_checksum = std::vector<std::atomic<uint32_t>>(shards);
}

NodeCore::~NodeCore() {
  // Shards give their chunks back to the pool, so they go first; logs have no more producers then.
  replication.reset();
  threads.reset();
}

void NodeCore::SetLog(std::unique_ptr<log::Log> log) {
  log_.store(log.get(), std::memory_order_release);
  logs_.push_back(std::move(log));
}

log::LogOptions NodeCore::LogOptionsFor(const std::string& set_directory) {
  const std::shared_ptr<const Config> now = config.Get();
  const auto rng = std::make_shared<base::Random>(random.Next());
  return {.device = seams.device,
          .directory = Identity::LogDirectory(set_directory),
          .shard_count = shard_count(),
          .data_set = identity->manifest().data_set,
          .segment_bytes = now->log.segment_size_bytes,
          .retain_bytes = now->log.retain_bytes,
          .sync = static_cast<LogSync>(log_sync.load(std::memory_order_relaxed)),
          .sync_interval_us = static_cast<int64_t>(now->log.interval_us),
          .clock = seams.clock,
          .random = [rng] { return rng->Next(); },
          .listener = log_listener};
}

Seq NodeCore::SafeSeq(ShardId shard) const {
  const log::Log* current = log();
  if (current == nullptr) {
    return 0;
  }
  Seq local = CountsPersisted() ? current->persisted(shard) : current->written(shard);
#ifdef KVS_TEST_SWITCHES
  local = seams.plant_ack_before_persist ? current->appended(shard) : local;
#endif
  return std::min(local, replication->progress().MemberFloor(shard));
}

void NodeCore::ForEachShard(const std::function<void(shard::Shard&)>& work,
                            const std::shared_ptr<std::atomic<uint32_t>>& left) {
  left->store(threads->thread_count(), std::memory_order_release);
  for (uint32_t i = 0; i < threads->thread_count(); ++i) {
    shard::ShardThread* thread = threads->thread(i);
    threads->RunOn(i, [thread, work, left, this] {
      for (const auto& shard : thread->shards()) {
        work(*shard);
      }
      left->fetch_sub(1, std::memory_order_acq_rel);  // partner: Wait
      replication->Wake();
    });
  }
}

void NodeCore::Run(std::shared_ptr<Operation> operation) {
  {
    const std::lock_guard lock(operations_mutex_);
    incoming_.push_back(std::move(operation));
  }
  if (replication) {
    replication->Wake();
  }
}

bool NodeCore::PollOperations() {
  {
    const std::lock_guard lock(operations_mutex_);
    operations_.insert(operations_.end(), incoming_.begin(), incoming_.end());
    incoming_.clear();
  }
  return std::erase_if(operations_, [](const std::shared_ptr<Operation>& operation) {
           return operation->Poll();
         }) > 0;
}

}  // namespace kvstored::server
