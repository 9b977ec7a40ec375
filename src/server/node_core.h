// NodeCore: the parts of a node that its roles, its follower side and its commands share. Built by
// Node in this order, destroyed in the reverse one. Nothing here decides anything.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/event.h"
#include "base/random.h"
#include "kvstored/clock.h"
#include "kvstored/fabric.h"
#include "kvstored/nvm_device.h"
#include "log/log.h"
#include "memory/region_pool.h"
#include "replication/replication.h"
#include "server/config_snapshot.h"
#include "server/identity.h"
#include "server/operation.h"
#include "shard/record_clock.h"
#include "shard/shard_thread.h"

namespace kvstored::server {

// What a node stands on; the daemon gives real ones, the simulator its own.
struct NodeSeams {
  Clock* clock = nullptr;
  NvmDevice* device = nullptr;  // data_dir
  Fabric* fabric = nullptr;
  uint64_t random_seed = 0;
  // Nobody runs the shard threads while Start() works: recovery applies on the caller's thread.
  bool single_threaded = false;
#ifdef KVS_TEST_SWITCHES
  // The simulator's: smaller rings, planted bugs.
  std::function<void(replication::ReplicationOptions*)> tune_replication;
  bool plant_ack_before_persist = false;
  bool plant_half_transaction = false;
#endif
};

class NodeCore {
 public:
  NodeCore(Config config, const NodeSeams& seams, Identity* identity);
  ~NodeCore();

  // The current log; null before recovery. Another one takes its place only while this node is a
  // replica in full sync, when no shard thread writes; old ones live until the node ends, so a
  // pointer read by another thread stays good.
  log::Log* log() const {
    return log_.load(std::memory_order_acquire);
  }
  void SetLog(std::unique_ptr<log::Log> log);
  log::LogOptions LogOptionsFor(const std::string& set_directory);

  // What local persistence means under the current level (P5).
  bool CountsPersisted() const {
    return gate.ack.load(std::memory_order_relaxed) == static_cast<uint8_t>(AckLevel::kPersisted) ||
           log_sync.load(std::memory_order_relaxed) == static_cast<uint8_t>(LogSync::kAlways);
  }
  // The lowest watermark that the acknowledgement level asks for (P6). Any thread.
  Seq SafeSeq(ShardId shard) const;

  // Runs `work(shard)` for every shard on its thread; `*left` counts down to 0. Poll it.
  void ForEachShard(const std::function<void(shard::Shard&)>& work,
                    const std::shared_ptr<std::atomic<uint32_t>>& left);
  Progress Wait(const std::shared_ptr<std::atomic<uint32_t>>& left) const {
    return left->load(std::memory_order_acquire) == 0 ? Progress::Done() : Progress::Again();
  }
  // An operation that is polled by the replication thread until it ends. Thread-safe.
  void Run(std::shared_ptr<Operation> operation);
  bool PollOperations();

  uint32_t shard_count() const {
    return threads->shard_count();
  }
  int64_t now_us() const {
    return seams.clock->MonotonicUs();
  }

  ConfigSnapshot config;
  const NodeSeams seams;
  Identity* const identity;
  base::Random random;  // replication thread
  shard::NodeGate gate;
  std::atomic<uint8_t> log_sync{0};
  std::atomic<bool> restart_wanted{false};  // the node ends and starts again with its new meta
  shard::RecordClock record_clock;
  memory::RegionPool pool;
  base::Digester digester;
  std::unique_ptr<shard::ThreadSet> threads;
  std::unique_ptr<replication::Replication> replication;
  log::LogListener* log_listener = nullptr;
  base::Event log_event;         // a log exists now
  base::Event background_event;  // ends the background thread's sleep
  // Checksum field of each shard's newest record in the log: divergence shows there (P15).
  std::vector<std::atomic<uint32_t>> last_checksum;

 private:
  std::atomic<log::Log*> log_{nullptr};
  std::vector<std::unique_ptr<log::Log>> logs_;
  std::mutex operations_mutex_;
  std::vector<std::shared_ptr<Operation>> incoming_;
  std::vector<std::shared_ptr<Operation>> operations_;
};

}  // namespace kvstored::server
