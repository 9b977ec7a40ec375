// FrontThread: the sessions of one shard thread: takes accepted connections, hands replies to the
// sockets once a tick, wakes sessions that waited. FrontSet: all of them, and what they share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/digest.h"
#include "command/command.h"
#include "command/command_clock.h"
#include "command/front_settings.h"
#include "command/latency_log.h"
#include "command/node_api.h"
#include "command/op.h"
#include "command/slow_log.h"
#include "command/tracking.h"
#include "kvstored/clock.h"
#include "net/conn_handler.h"
#include "net/socket_connection.h"
#include "shard/shard_thread.h"

namespace kvstored::metrics {
class Collection;
}

namespace kvstored::command {

class FrontSet;
class Session;
class Transaction;

// Commands of one connection that were parsed ahead, so that their keys can be prefetched.
struct CommandSlice {
  const CommandSpec* spec = nullptr;  // null: unknown
  uint32_t first_arg = 0;
  uint32_t arg_count = 0;
  size_t end_bytes = 0;  // of the input, behind this command
  Key key;               // Reach::kKey only
  ShardId shard = 0;
  bool keyed = false;  // key and shard are set
  bool timed = false;  // it ran, and all of it inside the batch
};

// Scratch of a thread: used by one session at a time, inside one call of OnInput.
struct Scratch {
  std::vector<std::string_view> args;
  std::vector<CommandSlice> commands;
  // Local shards that a reply under construction depends on: index as in ShardThread::shards().
  std::vector<Seq> dependency;  // 0 = none
  std::vector<uint32_t> touched;
  std::vector<Key> keys;
  std::vector<std::pair<ShardId, uint32_t>> key_order;  // (shard, key), sorted: keys by shard
  std::vector<std::string_view> part_args;
  std::vector<Key> part_keys;
  std::vector<std::string> parts;
};

// Thread: its ShardThread's, but for what says otherwise.
class FrontThread : public shard::TickHook {
 public:
  FrontThread(FrontSet* set, shard::ShardThread* thread);
  ~FrontThread() override;

  // --- For sessions. ---
  FrontSet& set() {
    return *set_;
  }
  shard::ShardThread& thread() {
    return *thread_;
  }
  uint32_t index() const {
    return thread_->index();
  }
  FrontFigures& figures() {
    return figures_;
  }
  CommandFigures& FiguresOf(const CommandSpec* spec) {
    return figures_.commands[static_cast<size_t>(spec - CommandTable().data())];
  }
  Scratch& scratch() {
    return scratch_;
  }
  Tracking& tracking() {
    return tracking_;
  }
  const Tracking& tracking() const {
    return tracking_;
  }
  bool IsLocal(ShardId shard) const {
    return thread_->OwnerOf(shard) == thread_->index();
  }
  // --- Times and errors (front_watch.cc). ---
  CommandClock& clock() {
    return clock_;
  }
  // A command of the session took so long, without what it waited.
  void NoteTime(const Session& session, const CommandSpec* spec,
                std::span<const std::string_view> args, uint64_t ns);
  // An error reply, with its '-'.
  void NoteError(std::string_view reply) {
    figures_.error_replies.Add(1);
    figures_.errors.Add(reply);
  }
  // When the task that runs now was begun, and its end: tasks follow each other, so that one read
  // of the clock serves both.
  int64_t TaskBeganUs() const {
    return std::max(thread_->phases().last_us(), task_ended_us_);
  }
  int64_t TaskEndedUs();
  // --- MONITOR (front_watch.cc). A line goes to the monitors of every thread at the end of the
  // tick. ---
  void NoteForMonitors(const Session& session, const CommandSpec& spec,
                       std::span<const std::string_view> args);
  void AddMonitor(Session* session);
  void RemoveMonitor(Session* session);
  void FeedMonitors(std::string_view lines);
  // CLOCK_BOOTTIME microseconds, read once a tick.
  int64_t now_us() const {
    return now_us_;
  }
  Op* NewOp(OpKind kind, Session* session);
  void Recycle(Op* op);
  // The session has something to do in OnTick: bytes to send, or it may run commands again.
  void NoteReady(Session* session);
  // It waits for room in a mailbox.
  void NoteNoRoom(Session* session) {
    no_room_.push_back(session);
  }
  // CLIENT PAUSE stops it: asked each tick.
  void NotePaused(Session* session) {
    paused_.push_back(session);
  }
  // WAIT: asked each tick.
  void NoteWaiting(Session* session) {
    waiting_.push_back(session);
  }
  // Closed and nothing of it is out: freed at the end of the tick.
  void NoteDead(Session* session);
  const std::vector<Session*>& sessions() const {
    return sessions_;
  }
  // Null: no client of this thread.
  Session* Find(uint64_t id) const;

  // --- The side of a shard's owner: ops of any session that wait at shards of this thread. A later
  // op of the same session and shard waits behind an earlier one. ---
  bool MayRun(const Op* op) const;
  void NoteParked(Op* op);
  void NoteUnparked(Op* op);

  // --- For FrontSet and tests. ---
  void Accept(int fd);
  // Adds a session on any connection (tests use one without a socket).
  Session* AddSession();
  net::SocketThread& sockets() {
    return sockets_;
  }
  const net::SocketThread& sockets() const {
    return sockets_;
  }
  bool OnTick() override;
  void CloseAll();

 private:
  void CheckTimeouts();
  void CheckClientMemory();
  void SendMonitorLines();
  void NoteSlow(const Session& session, const CommandSpec& spec,
                std::span<const std::string_view> args, int64_t us);
  void NoteStall(shard::TickPhase cause, int64_t us);

  FrontSet* const set_;
  shard::ShardThread* const thread_;
  net::SocketThread sockets_;
  FrontFigures figures_;
  RateWindow command_rate_;
  RateWindow received_rate_;
  RateWindow sent_rate_;
  Scratch scratch_;
  CommandClock clock_;
  int64_t task_ended_us_ = 0;
  std::string monitor_lines_;  // of this tick
  std::vector<Session*> monitors_;
  Tracking tracking_;
  std::vector<std::unique_ptr<Op>> ops_;  // all, in the pool or out
  std::vector<Op*> pool_;
  std::vector<Session*> sessions_;
  absl::flat_hash_map<uint64_t, Session*> sessions_by_id_;
  std::vector<Session*> ready_;
  std::vector<Session*> ready_now_;  // those of the running OnTick
  std::vector<Session*> no_room_;
  std::vector<Session*> waiting_;
  std::vector<Session*> paused_;
  std::vector<Session*> dead_;
  absl::flat_hash_map<std::pair<const Session*, ShardId>, std::deque<Op*>> parked_;
  int64_t now_us_ = 0;
  int64_t next_check_us_ = 0;
  int64_t next_memory_check_us_ = 0;
  uint64_t memory_checked_bytes_ = 0;  // received up to the last check
};

// Immutable after construction but for its atomics; thread-safe as far as stated.
class FrontSet : public net::ConnAcceptor {
 public:
  struct Options {
    shard::ThreadSet* threads = nullptr;
    memory::RegionPool* pool = nullptr;  // the memory budget
    const base::Digester* digester = nullptr;
    shard::NodeGate* gate = nullptr;
    NodeApi* node = nullptr;
    Clock* clock = nullptr;
  };
  // Adds a FrontThread as tick hook to each shard thread: before they run.
  explicit FrontSet(Options options);
  // After the shard threads have stopped.
  ~FrontSet() override;

  // On thread 0 (where the listener is polled): gives connections to the threads in turn.
  void OnAccept(int fd) override;
  // Closes every connection, each on its thread's next tick. Thread-safe.
  void CloseAll();

  const Options& options() const {
    return options_;
  }
  FrontSettings& settings() {
    return settings_;
  }
  TrackingShared& tracking() {
    return tracking_;
  }
  // CLIENT PAUSE: until the later end and of the stricter kind of this and what is in force.
  // Thread-safe.
  void Pause(uint64_t now_us, int64_t timeout_ms, bool all);
  void Unpause();
  FrontThread& thread(uint32_t index) {
    return *threads_[index];
  }
  uint32_t thread_count() const {
    return static_cast<uint32_t>(threads_.size());
  }
  uint64_t NextClientId() {
    return next_client_id_.fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t NextTransactionId() {
    return next_transaction_id_.fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t connection_count() const;
  // Figures for Prometheus.
  void Collect(metrics::Collection* out) const;
  // Memory of all clients' buffers, up to a tenth of a second old.
  uint64_t client_bytes() const;
  SlowLog& slow_log() {
    return slow_log_;
  }
  LatencyLog& latency_log() {
    return latency_log_;
  }
  // Calls of the command by their time, since CONFIG RESETSTAT. Thread-safe.
  LatencyCounts LatencyOf(const CommandSpec& spec) const;
  // Is anybody in MONITOR?
  bool is_monitored() const {
    return monitor_count_.load(std::memory_order_relaxed) != 0;
  }
  void AddMonitors(int32_t difference) {
    monitor_count_.fetch_add(difference, std::memory_order_relaxed);
  }

  // Lines "name:value\r\n" that the sessions know of INFO's sections clients, stats, commandstats,
  // errorstats and latencystats; empty for others. Thread-safe.
  std::string InfoSection(std::string_view section) const;
  // CONFIG RESETSTAT. Thread-safe.
  void ResetFigures();

 private:
  struct Totals;
  Totals Sum() const;
  LatencyCounts SumLatency(size_t command) const;
  std::string ErrorStats() const;
  std::string LatencyStats() const;

  const Options options_;
  FrontSettings settings_;
  TrackingShared tracking_;
  std::mutex pause_mutex_;
  std::atomic<uint64_t> next_client_id_{1};
  std::atomic<uint64_t> next_transaction_id_;
  uint32_t next_thread_ = 0;  // for the next connection; thread 0 only
  std::vector<std::unique_ptr<FrontThread>> threads_;
  std::atomic<int32_t> monitor_count_{0};
  SlowLog slow_log_;
  LatencyLog latency_log_;
  // What the totals were at the last CONFIG RESETSTAT.
  mutable std::mutex reset_mutex_;
  std::unique_ptr<Totals> reset_;
  std::vector<LatencyCounts> reset_latency_;  // empty: there was none
};

}  // namespace kvstored::command
