// Session: one client's connection: parses, dispatches, keeps replies in the order of requests.
// This is also what a command of Reach::kSession sees.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "command/command.h"
#include "command/node_api.h"
#include "command/op.h"
#include "command/reply_queue.h"
#include "command/tracking.h"
#include "net/conn_handler.h"
#include "resp/parser.h"
#include "resp/writer.h"

namespace kvstored::command {

class FrontThread;
class Transaction;
struct CommandSlice;

// Why no further command of the connection runs now. Bits: several may hold at once.
inline constexpr uint32_t kBlockedParked = 1u << 0;       // a local command waits at its shard
inline constexpr uint32_t kBlockedTransaction = 1u << 1;  // a transaction over threads is under way
inline constexpr uint32_t kBlockedControl = 1u << 2;      // an operation of the node is under way
inline constexpr uint32_t kBlockedWait = 1u << 3;         // WAIT or WAITAOF
inline constexpr uint32_t kBlockedDrain = 1u << 4;    // earlier commands must have returned first
inline constexpr uint32_t kBlockedRoom = 1u << 5;     // a mailbox is full
inline constexpr uint32_t kBlockedOutput = 1u << 6;   // the client does not read its replies
inline constexpr uint32_t kBlockedClosing = 1u << 7;  // closes once its replies have left
inline constexpr uint32_t kBlockedPause = 1u << 8;    // CLIENT PAUSE

// What WATCH saw.
struct WatchedKey {
  std::string bytes;
  Digest digest;
  ShardId shard = 0;
  shard::KeyWatch watch;
};

// The commands queued since MULTI.
struct MultiState {
  struct Queued {
    const CommandSpec* spec;
    ArgPack pack;
  };
  std::vector<Queued> commands;
  uint64_t bytes = 0;
  uint32_t flags = 0;    // kFlag* of all of them together
  bool aborted = false;  // a command was refused: EXEC answers EXECABORT
};

enum class ReplyMode : uint8_t { kOn, kOff, kSkipNext, kSkip };

// Thread: everything on the connection's thread. Lives until it is closed AND every op that carries
// a pointer to it has come back. Invariants: (1) replies leave in the order of requests; (2) a
// later command to the same shard never overtakes an earlier one; (3) a reply leaves only when all
// it depends on is committed.
class Session : public net::ConnHandler {
 public:
  Session(FrontThread* front, uint64_t id, int64_t now_us);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  void Attach(net::Connection* connection);
  // The threads have stopped: forgets what is out.
  void Abandon();

  // --- For commands. ---

  // Writer of the running command's reply.
  resp::Writer& out() {
    return out_;
  }
  NodeApi& node();
  FrontThread& front() {
    return *front_;
  }
  // Starts an operation of the node (NodeApi::Control) and holds later commands back until it
  // ended. An error is answered as "-ERR message"; otherwise `finish` writes the reply to
  // session.out() (null: +text).
  using ControlFinish = void (*)(Session& session, const std::string& text);
  void Control(std::vector<std::string> words, ControlFinish finish = nullptr);
  // The same for another operation of the node, which calls `done` once, on any thread.
  using ControlDone = std::function<void(absl::StatusOr<std::string>)>;
  void Control(const std::function<void(ControlDone done)>& start, ControlFinish finish = nullptr);
  // Runs `ask` on every front thread (it appends to *part), then `merge` here. Later commands wait.
  using GatherAsk = void (*)(FrontThread& front, std::span<const std::string_view> args,
                             const Session* asker, std::string* part);
  void Gather(std::span<const std::string_view> args, GatherAsk ask, MergeHandler merge);
  // WAIT (local_count < 0) and WAITAOF.
  void WaitForReplicas(int64_t local_count, int64_t replica_count, int64_t timeout_ms);
  // CLIENT UNBLOCK: ends a WAIT as its timeout would, or with an error. False: there is none.
  bool EndWait(bool with_error);
  // Closes the connection once the replies so far have left.
  void CloseAfterReplies() {
    blocked_ |= kBlockedClosing;
  }
  // Closes it in this tick whatever is pending.
  void CloseNow();

  uint64_t id() const {
    return id_;
  }
  // Null once it is closed.
  net::Connection* connection() {
    return connection_;
  }
  const std::string& name() const {
    return name_;
  }
  void SetName(std::string_view name) {
    name_ = name;
  }
  int protocol() const {
    return protocol_;
  }
  void SetProtocol(int protocol);
  bool authenticated() const {
    return authenticated_;
  }
  void SetAuthenticated(bool authenticated) {
    authenticated_ = authenticated;
  }
  void SetReplyMode(ReplyMode mode) {
    reply_mode_ = mode;
  }
  // CLIENT REPLY SKIP: drops the next command's reply.
  void SkipNextReply() {
    if (reply_mode_ != ReplyMode::kOff) {
      reply_mode_ = ReplyMode::kSkipNext;
    }
  }
  void SetLibrary(bool version, std::string_view text) {
    (version ? library_version_ : library_name_) = text;
  }
  // Memory of the client's buffers: input that is not consumed, commands since MULTI, replies.
  uint64_t held_bytes() const;
  // CLIENT NO-EVICT: not closed for the memory that it holds.
  bool no_evict() const {
    return no_evict_;
  }
  void SetNoEvict(bool on) {
    no_evict_ = on;
  }
  // False after CLIENT NO-TOUCH ON: its reads leave no trace in how recently keys were used.
  bool uses_keys() const {
    return uses_keys_;
  }
  void SetUsesKeys(bool on) {
    uses_keys_ = on;
  }
  // Closes it because all clients together hold `all_bytes` and this one most of them.
  void CloseForMemory(uint64_t all_bytes, uint64_t bytes_max);
  // CLIENT LIST's line, without the newline.
  std::string Describe();
  // MONITOR, until RESET or the end.
  void BeginMonitoring();
  bool is_monitoring() const {
    return monitoring_;
  }
  // Lines for a monitor; it is closed if it does not read them.
  void Feed(std::string_view lines);
  const std::string& peer() const {
    return peer_;
  }
  const std::string& local() const {
    return local_;
  }
  bool is_closed() const {
    return connection_ == nullptr;
  }

  // MULTI, EXEC, DISCARD, WATCH, UNWATCH, RESET.
  void BeginMulti();
  bool in_multi() const {
    return multi_ != nullptr;
  }
  bool in_exec() const {
    return in_exec_;
  }
  void DiscardMulti();
  void Unwatch() {
    watched_.clear();
  }
  void ResetState();

  // --- Client-side caching (session_tracking.cc). ---
  // Null: it does not track.
  const TrackingState* tracking() const {
    return tracking_.get();
  }
  TrackingState* tracking() {
    return tracking_.get();
  }
  // Counts it as one that tracks before it does, so that the threads go on noting what changes.
  void CountTracking();
  void UncountTracking();  // if it does not track after all
  void StartTracking(const TrackingOptions& options, std::span<const std::string_view> prefixes);
  void StopTracking();
  int64_t TrackingRedirect() const;  // -1: it does not track
  // Keys (an array, or null for all) have changed: told behind the replies that are under way.
  void Invalidate(std::string keys);
  void PushInvalidation(std::string_view keys);
  void OnRedirectBroken(uint64_t target);
  // May be asked on any thread, as id().
  uint32_t home_thread() const;

  // --- For the connection. ---
  size_t OnInput(std::span<const char> input) override;
  bool CanRead() const override {
    return (blocked_ & ~kBlockedClosing) == 0 && !eof_;
  }
  size_t BytesWanted() const override {
    return parser_.bytes_wanted();
  }
  void OnWritable() override;
  void OnEof() override;
  void OnClosed() override;

  // --- For the front thread. ---
  // Runs what may run again and sends what may leave. True: it has more to do in the next tick.
  bool OnTick();
  // Tries again when a mailbox was full. True: it need not ask again.
  bool RetryRoom();
  // True: WAIT is over.
  bool PollWait();
  // True: CLIENT PAUSE is over.
  bool PollPause();
  // Closes it if its oldest reply is gated for too long, or it was idle for too long.
  void CheckTimeouts(int64_t now_us);
  bool ready = false;  // listed in FrontThread::ready_
  size_t index = 0;    // in FrontThread::sessions_
  uint32_t blocked() const {
    return blocked_;
  }

  // --- For ops and transactions (on this thread). ---
  void OnReturned(Op* op);
  void OnLocalParked();
  void OnLocalUnparked();
  void OnGroupReleased(Op* op);
  void OnTransactionClosed();
  void OnTransactionDone(Op* op);
  void OnControlDone(Op* op, const absl::StatusOr<std::string>& result);
  void OnGathered(Op* op);
  // Runs `write` with out() set to the op's reply. HELLO inside EXEC: what the op writes afterwards
  // is of the new protocol.
  template <typename Write>
  void WriteInto(Op* op, Write write) {
    resp::Writer saved = out_;
    out_ = resp::Writer(&op->reply.bytes, op->protocol);
    write();
    op->protocol = static_cast<uint8_t>(out_.protocol());
    out_ = saved;
  }
  void NoteWrite(ShardId shard, Seq seq);
  void SetInExec(bool in_exec) {
    in_exec_ = in_exec;
    if (!in_exec && !in_input_ && reply_mode_ == ReplyMode::kSkipNext) {
      reply_mode_ = ReplyMode::kSkip;  // Run, which does that, has returned long ago
    }
  }

 private:
  friend class Transaction;
  enum class RunResult : uint8_t { kDone, kBlocked };
  struct WaitCounts {
    int64_t local = 0;
    int64_t replicas = 0;
  };
  WaitCounts CountReplicas();
  void WriteWaitReply();
  void EndWaitWith(std::string_view error);
  bool RemembersReads() const {
    return tracking_ != nullptr && tracking_->RemembersReads();
  }
  void Push(std::string bytes, bool redirected);

  // session_input.cc
  resp::ParseResult ParseAhead(std::string_view input, size_t* bytes);
  void Prefetch();
  void ProtocolError();

  // session_watch.cc, session_return.cc
  void NoteTimes(size_t first, size_t end);
  void NoteTimeOf(const Op& op);
  void EndMonitoring();

  // session.cc
  Reply* Target();
  ReplyMark BeginReply();
  bool EndReply(const ReplyMark& mark);
  void EndGatedReply(const ReplyMark& mark);
  void ForgetDependencies();
  void Error(std::string_view text);
  void OpenGroup();
  void CloseGroup();
  void NoteDependency(shard::Shard* shard);
  void Pump();
  void Enqueue(Op* op);
  void Unblock(uint32_t bits);
  bool MustClose();

  // session_run.cc: one command. kBlocked: it did not run, blocked_ says why; it is offered again.
  RunResult Run(const CommandSlice& slice, std::span<const std::string_view> args);
  RunResult Dispatch(const CommandSlice& slice, std::span<const std::string_view> args);
  // Empty, or why it is refused before it runs.
  std::string Refusal(const CommandSpec* spec, std::span<const std::string_view> args);
  void Refuse(const CommandSpec* spec, std::span<const std::string_view> args,
              const std::string& refusal);
  void Queue(const CommandSpec* spec, std::span<const std::string_view> args);
  RunResult RunSession(const CommandSpec* spec, std::span<const std::string_view> args);
  RunResult RunKey(const CommandSpec* spec, std::span<const std::string_view> args, const Key& key,
                   ShardId shard);
  RunResult NoRoom();
  RunResult Drain();
  bool IsStoppedByPause(const CommandSpec& spec) const;
  RunResult Pause();

  // session_fan.cc: commands of several shards.
  RunResult RunFan(const CommandSpec* spec, std::span<const std::string_view> args);
  RunResult RunShards(const CommandSpec* spec, std::span<const std::string_view> args);
  RunResult RunWatch(const CommandSpec* spec, std::span<const std::string_view> args);
  RunResult RunAtomic(const CommandSpec* spec, std::span<const std::string_view> args);
  RunResult RunTransaction(const CommandSpec* spec, std::span<const std::string_view> args);
  RunResult RunExec();
  // Without a transaction object, if every key lives on this thread and nothing has to wait; false:
  // nothing was done.
  bool TryRunMget(std::span<const std::string_view> args);
  bool TryRunMset(std::span<const std::string_view> args);
  bool AllKeysFree();
  // Digests of the command's keys into the scratch, ordered by shard.
  void OrderKeys(const CommandSpec& spec, std::span<const std::string_view> args);
  bool HasRoomForKeys();
  void SendPart(Op* part);
  Op* NewParent(OpKind kind, const CommandSpec* spec, std::span<const std::string_view> args,
                uint32_t part_count);
  void FinishParent(Op* op);
  RunResult StartTransaction(std::unique_ptr<Transaction> transaction);

  FrontThread* const front_;
  net::Connection* connection_ = nullptr;
  const uint64_t id_;
  uint32_t blocked_ = 0;
  int protocol_ = 2;
  bool authenticated_ = false;
  bool eof_ = false;
  bool close_now_ = false;
  bool in_exec_ = false;
  bool no_evict_ = false;
  bool uses_keys_ = true;
  bool in_input_ = false;  // OnInput is running
  bool deferred_ = false;  // the running command replies later
  bool timed_ = false;     // all of the running command runs in this call
  bool monitoring_ = false;
  ReplyMode reply_mode_ = ReplyMode::kOn;
  uint32_t remote_out_ = 0;  // ops under way on other threads
  uint32_t local_parked_ = 0;

  resp::Parser parser_;
  Output output_;
  ReplyQueue queue_;
  Op* group_ = nullptr;        // the queue's last op while local replies are still added to it
  uint64_t queued_bytes_ = 0;  // of complete or gated replies in the queue
  std::string unused_;
  resp::Writer out_{&unused_, 2};

  std::unique_ptr<MultiState> multi_;
  std::vector<WatchedKey> watched_;
  std::vector<Seq> written_;  // by shard: newest seq this connection wrote; empty: none

  std::unique_ptr<TrackingState> tracking_;
  bool counted_as_tracking_ = false;

  // WAIT, WAITAOF
  Op* wait_op_ = nullptr;
  int64_t wait_local_ = 0;
  int64_t wait_replicas_ = 0;
  int64_t wait_until_us_ = 0;  // 0 = for ever
  bool wait_aof_ = false;
  ControlFinish control_finish_ = nullptr;
  MergeHandler gather_merge_ = nullptr;

  // CLIENT LIST
  std::string name_;
  std::string library_name_;
  std::string library_version_;
  std::string peer_;
  std::string local_;
  const CommandSpec* last_command_ = nullptr;
  int64_t created_us_ = 0;
  int64_t last_input_us_ = 0;
  uint64_t commands_run_ = 0;
};

// The task of an op that runs at a shard: on the shard's thread.
void RunAtShard(base::Task* task);

}  // namespace kvstored::command
