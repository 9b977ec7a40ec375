// Transaction: commands over several shards as one (P27): MULTI/EXEC, MSET, RENAME, ... Whole
// shards are held, then the commands run on their shards in phases, then every participant closes
// its part with a record that lists all of them.
//
// What a crash leaves behind: records without their closing record in every participant's log have
// no effect; recovery and promotion cut them all or keep them all (P6).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "command/command.h"
#include "command/op.h"
#include "command/session.h"
#include "command/transaction_bounds.h"
#include "record/record.h"
#include "shard/shard.h"

namespace kvstored::command {

class FrontThread;
class Session;
class Transaction;

// A value taken from one shard for another or for the reply: copied if small, shared if it is a
// chain.
struct CapturedValue {
  bool present = false;
  uint64_t expiry_ms = 0;
  std::string bytes;
  store::ChainRef chain;
};

// One shard's part of one command. Touched by the shard's thread during a phase, by the session's
// thread between phases; the mailbox orders the two.
struct CommandPart {
  ShardId shard = 0;
  uint32_t command = 0;
  std::vector<uint32_t> key_indices;   // ascending, among the command's keys
  std::vector<std::string_view> args;  // kFanSum: its own arguments
  std::vector<Key> keys;               // of this shard
  // Upper bound of what it will write, asked of Reserve before anything runs.
  uint32_t record_count = 0;
  uint64_t record_bytes = 0;
  uint64_t memory_bytes = 0;  // asked of the budget; 0 for what Redis lets run without memory
  uint64_t run_bytes = 0;     // large values of a command that prepares, in records
  // It may write a value that is known only when it runs: whatever its keys hold by then.
  bool moves_value = false;
  OpResult result = OpResult::kOk;
  int64_t elapsed_us = 0;
  bool flag = false;  // for the command's own use
  Reply reply;
  std::string blob;  // Reach::kShards
  std::vector<CapturedValue> values;
  std::vector<shard::Run> runs;  // large values on their way, by position in key_indices
};

struct TransactionCommand {
  const CommandSpec* spec = nullptr;
  ArgPack pack;
  std::vector<Key> keys;
  std::vector<ShardId> key_shards;
  uint32_t first_phase = 0;
  uint32_t phase_count = 1;
  bool prepares = false;           // AtomicSpec::prepare has work
  bool option = false;             // for the command's own use
  std::string error;               // a reply written by the plan; no part runs
  std::vector<CommandPart> parts;  // ascending shard

  CommandPart* PartOf(ShardId shard);
};

// Thread: the session's; what says "there" runs on the thread of its shards. Owned by
// its op, freed when its reply is complete.
class Transaction {
 public:
  enum class Shape : uint8_t { kOneCommand, kExec };
  Transaction(Session* session, Op* op, Shape shape);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void Add(const CommandSpec* spec, std::span<const std::string_view> args);
  void Add(const CommandSpec* spec, ArgPack pack);
  void Watch(std::vector<WatchedKey> watched) {
    watched_ = std::move(watched);
  }
  // Runs it, at once as far as no other thread is needed.
  void Start();
  Op* op() const {
    return op_;
  }

 private:
  enum class Stage : uint8_t {
    kPrepare,  // large values into their logs, inert (no shard is held)
    kHold,     // take the shards in order; WATCH and space are checked
    kReserve,  // all are held: space for values that move between them
    kAwait,    // nothing is held: wait at the shard that had no space
    kRun,      // one phase of the commands
    kClose,    // closing records, release, gate
    kRelease,  // give the shards back, nothing was written
  };
  struct ThreadPart;
  struct ShardPart {
    shard::Gated gated;  // first: the shard hands back its address
    ThreadPart* owner = nullptr;
    ShardId shard = 0;
    ShardBounds bounds;
    std::vector<CommandPart*> steps;  // in the order of commands
    std::vector<const WatchedKey*> watched;
    Seq dependency = 0;
    Seq end_seq = 0;
    bool held = false;
    bool begun = false;
    bool has_records = false;
  };
  // The shards of one thread. The task travels there and back.
  struct ThreadPart : base::Task {
    Transaction* transaction = nullptr;
    FrontThread* front = nullptr;
    std::vector<std::unique_ptr<ShardPart>> shards;  // ascending
    Stage stage = Stage::kHold;
    size_t shard_at = 0;  // where a stage that waits goes on
    size_t step_at = 0;
    size_t wait_at = 0;  // kAwait: index of the shard without space
    bool awaiting = false;
    bool watch_failed = false;
    OpResult outcome = OpResult::kOk;
    uint32_t gates_left = 0;
  };

  void BuildParts();
  void PlanCommand(TransactionCommand* command);
  void SplitKeys(TransactionCommand* command);
  ShardPart* PartOf(ShardId shard);

  // Here.
  void Begin(Stage stage, ThreadPart* part);
  void BeginAll(Stage stage, size_t count);
  void HoldNext();
  void RunPhase();
  void Close();
  void Compute();
  static void ComputeMore(base::Task* task);
  void OnStageDone(ThreadPart* part);
  void LetSessionGoOn();
  void AfterHold(ThreadPart* part);
  void AfterReserve();
  void AfterRelease();
  void Abort(OpResult outcome);
  void Finish();
  void WriteReplies();
  void WriteCommand(TransactionCommand* command);
  void NoteCommand(const TransactionCommand& command, size_t reply_at, int64_t elapsed_us);
  void NoteExec();
  static void StageDone(base::Task* task);

  // There.
  static void RunStage(base::Task* task);
  static void Complete(ThreadPart* part);
  bool PrepareThere(ThreadPart* part);
  bool HoldThere(ThreadPart* part);
  void ReserveThere(ThreadPart* part);
  void SeeValues(shard::Shard* shard, const ShardPart& part);
  bool RunThere(ThreadPart* part);
  void CloseThere(ThreadPart* part);
  void ReleaseThere(ThreadPart* part);
  void GateThere(ThreadPart* part, ShardPart* shard_part, shard::Shard* shard);
  OpResult RunStep(shard::Shard* shard, CommandPart* part);
  static void Released(shard::Gated* gated);

  Session* const session_;
  Op* const op_;
  const Shape shape_;
  const uint64_t id_;
  std::vector<std::unique_ptr<TransactionCommand>> commands_;
  std::vector<WatchedKey> watched_;
  std::vector<std::unique_ptr<ThreadPart>> threads_;  // ascending
  uint32_t phase_ = 0;
  uint32_t phase_count_ = 1;
  uint64_t shard_count_ = 0;  // participants
  size_t hold_at_ = 0;
  size_t parts_out_ = 0;
  bool writes_ = false;
  const bool tracked_;            // the session's reads are remembered
  bool changes_session_ = false;  // a command of EXEC is the session's own
  bool session_goes_on_ = false;
  TransactionBounds bounds_;
  int64_t elapsed_us_ = 0;  // of all commands
  bool watch_failed_ = false;
  OpResult outcome_ = OpResult::kOk;
  // The slices of AtomicSpec::compute.
  struct ComputeTask : base::Task {
    Transaction* transaction = nullptr;
  };
  ComputeTask compute_task_;
  size_t compute_at_ = 0;  // index of the command that computes
  std::vector<record::TxnPart> closing_;
  std::shared_ptr<shard::TxnCommit> commit_;
};

}  // namespace kvstored::command
