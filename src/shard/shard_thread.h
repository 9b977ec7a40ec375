// ShardThread: one thread's worth of the server: its shards, its mailboxes, its poller. Tick() is the
// data path's outer loop (docs/ARCHITECTURE.md "The tick"); a real thread or the simulator calls it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/poller.h"
#include "base/task.h"
#include "kvstored/types.h"
#include "shard/shard.h"

namespace kvstored::shard {

// Called once a tick, in order of adding, after watermarks advanced and gates were released: the place
// where sessions hand their replies to the sockets. Returns true if there is more to do at once.
class TickHook {
 public:
  virtual ~TickHook() = default;
  virtual bool OnTick() = 0;
};

class ShardThread {
 public:
  uint32_t index() const;
  uint32_t thread_count() const;
  uint32_t shard_count() const;
  // Which thread owns a shard: shard % thread_count.
  uint32_t OwnerOf(ShardId shard) const;
  // Only for shards of this thread.
  Shard* shard(ShardId shard);
  base::Poller* poller();

  // May another command be sent to that thread now? False is back-pressure: the connection stops
  // reading and asks again in a later tick (OnTick).
  bool HasRoom(uint32_t thread) const;
  // Runs the task on the other thread, in order of posting. Replies and control tasks never need
  // HasRoom: each answers a task that had room.
  void Post(uint32_t thread, base::Task* task);

  void AddTickHook(TickHook* hook);
};

}  // namespace kvstored::shard
