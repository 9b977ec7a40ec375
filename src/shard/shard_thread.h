// ShardThread: one thread's worth of the server: its shards, its mailboxes, its poller. Tick() is
// the data path's outer loop (docs/ARCHITECTURE.md "The tick"); a real thread or the simulator
// calls it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/poller.h"
#include "base/spsc_ring.h"
#include "base/task.h"
#include "kvstored/types.h"
#include "shard/record_clock.h"
#include "shard/shard.h"
#include "shard/tick_phases.h"

namespace kvstored::shard {

// Called once a tick, in order of adding, after watermarks advanced and gates were released: the
// place where sessions hand their replies to the sockets. Returns true if there is more to do at
// once.
class TickHook {
 public:
  virtual ~TickHook() = default;
  virtual bool OnTick() = 0;
};

struct ThreadCounters {
  uint64_t ticks = 0;
  uint64_t tasks = 0;         // taken from mailboxes
  uint64_t mailbox_full = 0;  // pushes that met a full mailbox (they wait in the outbox)
};

class ShardThread;

// All threads of a node and the mailboxes between them. Immutable after construction.
class ThreadSet {
 public:
  ThreadSet(uint32_t thread_count, uint32_t shard_count, RecordClock* clock);
  ~ThreadSet();

  ShardThread* thread(uint32_t index) {
    return threads_[index].get();
  }
  uint32_t thread_count() const {
    return static_cast<uint32_t>(threads_.size());
  }
  uint32_t shard_count() const {
    return shard_count_;
  }
  uint32_t OwnerOf(ShardId shard) const {
    return shard % thread_count();
  }
  // For what any thread may read of it, and for tests that run all threads by themselves.
  Shard* shard(ShardId id);
  // Runs `work` on that thread, or on the shard's, in its next tick. Thread-safe; for the control
  // side, the log and the replication thread (shard threads use ShardThread::Post).
  void RunOn(uint32_t thread, std::function<void()> work);
  void RunOnShard(ShardId id, std::function<void(Shard&)> work);
  // Ends the sleep of the shard's thread. Thread-safe.
  void Wake(ShardId id);
  void WakeAll();

 private:
  friend class ShardThread;
  using Mailbox = base::SpscRing<base::Task*>;
  Mailbox& mailbox(uint32_t from, uint32_t to) {
    return *mailboxes_[from * thread_count() + to];
  }

  const uint32_t shard_count_;
  std::vector<std::unique_ptr<ShardThread>> threads_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
};

class ShardThread {
 public:
  ShardThread(ThreadSet* set, uint32_t index, RecordClock* clock);

  uint32_t index() const {
    return index_;
  }
  uint32_t thread_count() const {
    return set_->thread_count();
  }
  uint32_t shard_count() const {
    return set_->shard_count();
  }
  // Which thread owns a shard: shard % thread_count.
  uint32_t OwnerOf(ShardId shard) const {
    return set_->OwnerOf(shard);
  }
  // Only for shards of this thread.
  Shard* shard(ShardId shard) {
    return shards_[shard / thread_count()].get();
  }
  void AddShard(std::unique_ptr<Shard> shard);
  // At start, before the thread runs, or by the thread itself.
  const std::vector<std::unique_ptr<Shard>>& shards() const {
    return shards_;
  }
  base::Poller* poller() {
    return &poller_;
  }

  // May another command be sent to that thread now? False is back-pressure: the connection stops
  // reading and asks again in a later tick (OnTick).
  bool HasRoom(uint32_t thread) const {
    return outbox_[thread].size() < kOutboxMax;
  }
  // Runs the task on the other thread, in order of posting. Replies and control tasks never need
  // HasRoom: each answers a task that had room. Posting to oneself runs it in this tick's next
  // round.
  void Post(uint32_t thread, base::Task* task) {
    outbox_[thread].push_back(task);
  }

  void AddTickHook(TickHook* hook) {
    hooks_.push_back(hook);
  }
  // Where `safe` of a shard comes from: the lowest watermark that the acknowledgement level asks
  // for.
  void SetSafeSource(std::function<Seq(ShardId)> safe) {
    safe_ = std::move(safe);
  }

  // Called by the sink of this thread's shards: this tick handed a batch to the log.
  void NoteSubmitted() {
    submitted_ = true;
  }
  // Once a tick in which batches were handed to the log. `idle`: every connection that spoke waits
  // for them, and so it was for a while; the thread may as well write them itself. Never called if
  // unset: then the log is polled (simulator, tests).
  void SetLogRound(std::function<void(bool idle)> log_round) {
    log_round_ = std::move(log_round);
  }

  // One round of the data path. Sleeps at most max_sleep_us when there is nothing to do. Returns
  // true if it did something.
  bool Tick(int64_t max_sleep_us);
  // The record clock of this tick, Unix microseconds.
  uint64_t now_us() const {
    return now_us_;
  }
  const ThreadCounters& counters() const {
    return counters_;
  }
  TickPhases& phases() {
    return phases_;
  }

 private:
  friend class ThreadSet;
  static constexpr size_t kOutboxMax = 1024;

  uint32_t DrainMailboxes();
  uint32_t DrainOutside();
  bool FlushOutboxes();
  bool AdvanceShards();
  bool AllSpeakersWait(uint32_t told);
  void BeginLogRound(bool idle);

  ThreadSet* const set_;
  const uint32_t index_;
  RecordClock* const clock_;
  base::Poller poller_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<TickHook*> hooks_;
  std::function<Seq(ShardId)> safe_;
  std::function<void(bool)> log_round_;
  bool submitted_ = false;
  uint64_t gate_waits_ = 0;  // of all shards, at the last look
  uint64_t served_us_ = 0;   // when a connection was last served without waiting for the log
  // Tasks for each thread, kept here until its mailbox takes them at the end of the tick.
  std::vector<std::deque<base::Task*>> outbox_;
  uint64_t now_us_ = 0;
  bool busy_ = false;  // the last tick left work: do not sleep
  ThreadCounters counters_;
  TickPhases phases_;

  std::mutex outside_mutex_;
  std::vector<std::function<void()>> outside_;
  std::atomic<bool> has_outside_{false};
};

}  // namespace kvstored::shard
