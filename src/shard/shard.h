// A shard: the owner of one part of the key space: its store, its sequence of records, its gate.
// This file is what commands see. One record format, one Apply: commands encode a record and apply
// it; recovery, replication and checkpoints hand records to the same Apply.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/random.h"
#include "base/task.h"
#include "kvstored/op_result.h"
#include "kvstored/types.h"
#include "record/batch.h"
#include "record/cursor.h"
#include "record/record.h"
#include "shard/absent_watches.h"
#include "shard/change_listener.h"
#include "shard/gated.h"
#include "shard/node_gate.h"
#include "shard/run.h"
#include "shard/shard_figures.h"
#include "shard/snapshot_cursor.h"
#include "shard/tick_phases.h"
#include "store/store.h"

namespace kvstored::shard {

// What WATCH saw.
struct KeyWatch {
  Seq seq = 0;                          // of the live item
  std::shared_ptr<AbsentWatch> absent;  // there was none
};

struct ShardCounters {
  uint64_t keyspace_hits = 0;
  uint64_t keyspace_misses = 0;
  uint64_t expired_keys = 0;
  uint64_t evicted_keys = 0;
  uint64_t records = 0;
  uint64_t record_bytes = 0;
  uint64_t gate_waits = 0;  // replies that had to wait for the commit watermark
  uint64_t parked = 0;      // commands that had to wait for space or for a transaction's end
};

class ShardThread;

// Shard-local: everything on the owner's thread, but for what says otherwise.
class Shard {
 public:
  // Log space is asked for in steps of at least so much; no more stays here unused.
  static constexpr uint64_t kLogQuotaStepBytes = 256 << 10;

  struct Options {
    ShardId id = 0;
    uint32_t shard_count = 1;
    memory::RegionPool* pool = nullptr;
    const base::Digester* digester = nullptr;
    const NodeGate* gate = nullptr;
    // Where sealed batches go (log first, then replication); called in the tick.
    std::function<void(record::BatchRef)> submit;
    // The commit watermark moved (on the shard's thread): told to replicas with the next batch.
    std::function<void(Seq committed)> committed_moved;
    // Reserves bytes of log space before a command runs (P25): kOk, kWait or kDiskFull.
    std::function<OpResult(uint64_t bytes)> reserve_log;
    // Takes back what was reserved and stays unused: other shards may need it.
    std::function<void(uint64_t bytes)> return_log;
  };
  explicit Shard(Options options);
  ~Shard();

  ShardId id() const {
    return options_.id;
  }
  uint32_t shard_count() const {
    return options_.shard_count;
  }

  // --- Reading. Each call notes what the reply depends on; dependency() tells it. ---

  // Begins a command: forgets noted dependencies. Not `uses`: what it finds is not used by that
  // (CLIENT NO-TOUCH).
  void BeginCommand(bool uses = true) {
    dependency_ = 0;
    uses_ = uses;
  }
  // The live item or null; an expired one is hidden (but noted: what is hidden was seen, P9).
  // Counted as a hit or a miss, and the hit as a use of the item.
  const store::Item* Find(const Key& key) {
    const store::Item* item = Look(key);
    if (item != nullptr && uses_) {
      store_.NoteUse(*item);
    }
    return item;
  }
  // The same for commands that ask about the item and do not use it (TTL, TYPE, OBJECT).
  const store::Item* Look(const Key& key) {
    const store::Item* item = Peek(key);
    ++(item != nullptr ? counters_.keyspace_hits : counters_.keyspace_misses);
    return item;
  }
  // The same, not counted: for commands that look in order to write, as in Redis.
  const store::Item* Peek(const Key& key);
  // SCAN, KEYS, DBSIZE, RANDOMKEY: the reply depends on everything applied so far. That an epoch
  // began changes no reply: a new primary that nobody has joined yet can be looked at.
  void NoteApplied() {
    const bool is_begin = epoch_begin_ != 0 && applied_ == epoch_begin_;
    dependency_ = std::max(dependency_, is_begin ? applied_ - 1 : applied_);
  }
  // WATCH: what is seen of the key now, and whether it has been touched since (as in Redis, coming
  // into being and going again counts, and so does expiring; the removal of what had expired before
  // does not).
  KeyWatch Watch(const Key& key);
  bool IsTouched(const Key& key, const KeyWatch& watch) const;
  // Null: nobody wants to know.
  void SetChangeListener(ChangeListener* listener) {
    change_listener_ = listener;
  }
  // The seq that the reply of the command since BeginCommand() depends on.
  Seq dependency() const {
    return dependency_;
  }
  bool IsCommitted(Seq seq) const {
    return seq <= committed_.load(std::memory_order_relaxed);
  }
  // Holds it until dependency is committed. Only if !IsCommitted(gated->dependency).
  void Gate(Gated* gated);

  // The record clock, Unix microseconds, as of the tick's begin.
  uint64_t now_us() const {
    return now_us_;
  }
  // The record clock, Unix milliseconds; constant within a tick. Expiry is judged by it.
  uint64_t now_ms() const {
    return now_us_ / 1000;
  }
  bool IsExpired(const store::Item& item) const {
    return item.expiry_ms() != 0 && item.expiry_ms() <= now_ms();
  }
  store::Store* store() {
    return &store_;
  }

  // --- Writing. Reserve first: what it grants cannot fail for log space or window afterwards. ---

  // May the command that runs now make `record_count` records with `bytes` of keys and values in
  // all? kOk, or why not; then nothing was changed. kWait: Park() the command and run it again.
  // With `force` (a transaction that holds its shards, has reserved, and may have written already)
  // only log space is asked for: role, window and memory were judged when it began, and half of a
  // transaction must not be refused.
  OpResult Reserve(uint32_t record_count, uint64_t bytes, bool force = false);
  // The same for what takes no memory, and so must be possible when there is none: removals,
  // changes of expiry, parts of a value that lies in its slabs.
  OpResult ReserveLog(uint32_t record_count, uint64_t bytes, bool force = false);
  // Is there room for so many bytes in the memory budget? kOk; kWait: the next ticks make it, of
  // what was let go or by eviction (shard_room.cc); kOutOfMemory or another error: they cannot.
  // Changes no item.
  OpResult AskRoom(uint64_t bytes);
  // key := value (at most kPartBytesMax bytes). kOk, or kWait or kOutOfMemory (nothing changed): no
  // chunk is left for its size, and one will or will not come free.
  OpResult Set(const Key& key, std::string_view value, uint64_t expiry_ms);
  // Removes; the key must be present in the store (expired or not).
  void Delete(const Key& key, uint8_t reason_flag = 0);
  // Deltas on the present item; bytes at most kPartBytesMax.
  OpResult Append(const Key& key, std::string_view bytes);
  OpResult SetRange(const Key& key, uint64_t offset, std::string_view bytes);
  OpResult SetExpiry(const Key& key, uint64_t expiry_ms);
  // Removes every item.
  void Flush();

  // Large values: copy the bytes into a chain (kOutOfMemory possible), emit its parts as far as the
  // window allows (kWait: Park and call again), then SetRun links it. With `force` no budget or
  // window is asked, but no call does more than a tick may take: kWait then, too.
  // at_once: all of it in this call nevertheless (the value will not be there again).
  OpResult MakeRun(std::string_view value, Run* run, bool force = false, bool at_once = false);
  // The value is a chain of another shard. kWait: call again, as above.
  OpResult CopyRun(const store::ChainRef& value, Run* run, bool force = false);
  OpResult EmitRun(Run* run, const Key& key, bool force = false);
  OpResult SetRun(const Key& key, Run run, uint64_t expiry_ms);

  // --- Transactions (P27). ---

  // Whole-shard hold. While held by another transaction every command parks.
  bool TryHold(uint64_t txn_id);
  void ReleaseHold(uint64_t txn_id);
  bool IsHeldByOther(uint64_t txn_id) const {
    return held_by_ != 0 && held_by_ != txn_id;
  }
  // Records between BeginTxn and EndTxn are one part of the transaction. Until then no write here
  // fails for want of memory: whoever begins it has asked AskRoom() for an upper bound.
  void BeginTxn(uint64_t txn_id);
  // True if the transaction has made records here so far.
  bool TxnHasRecords() const {
    return txn_first_ != 0;
  }
  // The seq that EndTxn will give the closing record.
  Seq TxnEndSeq() const {
    return applied_ + 1;
  }
  // Writes the closing record. `commit` counts the participants (null: this shard alone).
  void EndTxn(std::span<const record::TxnPart> parts, std::shared_ptr<TxnCommit> commit);
  // Nothing was written: leaves the transaction without a trace.
  void AbandonTxn();

  // A command that is long goes on in the next tick: returns kWait, for it to return.
  OpResult Yield();
  // Runs the task (on this thread, in a later tick) when a hold ends or space comes free. FIFO.
  void Park(base::Task* task);
  bool HasParked() const {
    return parked_head_ != nullptr;
  }
  // A parked task may run: the next tick should not wait.
  bool HasRunnable() const {
    return parked_head_ != nullptr && parked_may_run_;
  }

  // --- Records from elsewhere: recovery, replication, checkpoints. ---

  // Applies one verified record to memory. Idempotent: what is older than what it meets is skipped.
  // kOutOfMemory is possible, kOk otherwise.
  OpResult Apply(const record::Record& record);
  // The same for many: cheaper than one by one.
  OpResult ApplyAll(std::span<const record::Record> records);

  // --- Watermarks; the atomics may be read by any thread. ---

  Seq applied() const {
    return applied_;
  }
  Seq committed() const {
    return committed_.load(std::memory_order_acquire);  // partner: AdvanceCommitted
  }
  const ShardCounters& counters() const {
    return counters_;
  }
  // Any thread.
  const ShardFigures& figures() const {
    return figures_;
  }
  // CONFIG RESETSTAT.
  void ResetCounters() {
    counters_ = {};
  }

  // --- The tick (called by ShardThread only, in this order). ---

  void BeginTick(uint64_t now_us);
  // Expired items become deletes (primary), freed memory goes back, parked commands run again. True
  // if there is more to do at once. `phases` is told what took the time.
  bool Housekeeping(TickPhases* phases = nullptr);
  // Seals the batch and hands it to the log and to replication.
  void Seal();
  // `safe`: the lowest watermark that the acknowledgement level asks for. Moves `committed` (P6)
  // and releases gates. Returns true if it moved.
  bool AdvanceCommitted(Seq safe);
  // Called when another shard's part of a transaction was the last: `committed` may move on.
  void SetWakeOthers(std::function<void()> wake_others) {
    wake_others_ = std::move(wake_others);
  }

  // --- Replica and recovery. ---

  // A verified batch of live records arrived (and is on its way into the log): kept until it is
  // known to be committed. Batches come in seq order without a gap.
  void Receive(record::BatchRef batch);
  // The primary says so: applies what was received up to there (P11).
  // kOutOfMemory: stopped short, call again when there is memory.
  OpResult ApplyCommitted(Seq told);
  // Applies received records up to `limit` without calling them committed (promotion: the gate
  // opens when the new member set has acknowledged them).
  OpResult ApplyReceived(Seq limit);
  // Forgets received records above `limit`; false if some of them are applied already (nothing
  // changed then).
  [[nodiscard]] bool CutReceived(Seq limit);
  // Visits every received record that is not applied yet.
  void ForEachReceived(const std::function<void(const record::Cursor&)>& visit) const;
  // Full sync: applies the items of a snapshot batch.
  OpResult ApplySnapshot(const record::Batch& batch);
  // Full sync: when `applied` is exactly `end`, is the state's hash `hash`? Calls done(equal) then,
  // at once if it is there already. Only while applied <= end.
  void VerifyAt(Seq end, uint64_t hash, std::function<void(bool equal)> done);
  // After recovery: the position from which the log goes on.
  void SetRecovered(Seq applied, Seq committed);
  // Drops all items and open runs, forgets received batches: before a full sync.
  void Reset(Seq position);
  // Records of unfinished runs and snapshots have no effect any more (recovery's end, promotion,
  // end of a full sync).
  void DropOpenRuns() {
    open_runs_.clear();
  }
  // Newest seq held: applied or received.
  Seq appended() const {
    return received_.empty() ? applied_ : received_.back()->last_seq;
  }

  // --- Snapshots: checkpoints and full sync read the store in slices (shard/snapshot.cc). ---

  // The next items from the cursor, about budget_bytes of them, as a snapshot batch whose position
  // is `applied`. The batch under construction is sealed first, so that the order of submission is
  // the order of state.
  record::BatchRef SnapshotSlice(SnapshotCursor* cursor, uint64_t budget_bytes);

  // First seq that log, checkpoint and catch-up must reach back to: applied + 1, or the first part
  // of the oldest run that is not linked yet (P4), be it this node's own or received.
  Seq OldestOpen();

  // Opens an epoch: its first record. Primary only, before anything else is written. Everything
  // from the committed watermark to this record is committed as one part of `commit`, which all
  // shards share: older transactions among it are whole only if all of it is (P6).
  void BeginEpoch(const Epoch& epoch, std::shared_ptr<TxnCommit> commit);

 private:
  struct CrossTxn {
    Seq first = 0;
    Seq last = 0;  // 0: still open
    std::shared_ptr<TxnCommit> commit;
    bool counted = false;
  };
  struct PendingBytes {
    Seq last = 0;
    uint64_t bytes = 0;
  };

  // Encodes the record into the batch as the next seq. Does not apply.
  void Encode(record::Record* record);
  // Applies, then encodes: a store without memory leaves no record.
  OpResult Emit(record::Record* record);
  // Of a record that changed a part of an item: for the snapshots that are reading it.
  void NoteDelta(const record::Record& record);
  void BeginLarge(SnapshotCursor* cursor, std::string key);
  bool ReadLarge(SnapshotCursor* cursor, uint64_t budget_bytes, record::Batch* batch);
  template <typename PieceAt>
  OpResult FillRun(uint64_t total_bytes, PieceAt piece_at, uint64_t bytes_max, Run* run);
  void NoteRemoval(const Digest& digest, Seq seq);
  void TellListener(RecordOp op, std::string_view key);
  void Prefetch(std::span<const record::Record> records) const;
  // `for_each` calls what it is given with op, flags and digest_high of each record of a batch.
  template <typename Records>
  void ExpectItems(const Records& for_each);
  // At most kGroupMax records: the memory that they need is loaded side by side.
  OpResult ApplyGroup(std::span<const record::Record> records);
  OpResult ApplyDelta(const Key& key, const record::Record& record);
  OpResult ApplyFlush(Seq seq);
  OpResult ApplyPart(const record::Record& record);
  OpResult ApplyLink(const record::Record& record);
  uint64_t UncommittedBytesMax() const;
  void CountUncommitted(int64_t bytes);
  void Publish();
  bool ExpireSome();
  OpResult AskPlace();
  bool CanGiveRoom() const;
  void NoteGiving();
  bool MakeRoom();
  uint32_t FreeOne();
  void ReturnQuota();
  void RunParked();
  Seq TxnLimit(Seq safe);
  uint64_t OpenBytes() const {
    return batch_ ? batch_->bytes.size() : 0;
  }

  Options options_;
  store::Store store_;
  Seq applied_ = 0;
  Seq epoch_begin_ = 0;  // of the newest epoch that this shard opened; 0: none
  std::atomic<Seq> committed_{0};
  Seq dependency_ = 0;
  bool uses_ = true;  // the running command
  uint64_t now_us_ = 0;

  std::shared_ptr<record::Batch> batch_;  // under construction
  uint64_t sealed_bytes_ = 0;             // of the last batch: the next is likely as large
  uint64_t log_quota_bytes_ = 0;          // log space reserved and not yet used
  uint64_t uncommitted_bytes_ = 0;        // of sealed batches above `committed`
  std::deque<PendingBytes> uncommitted_;

  Gated* gated_head_ = nullptr;  // FIFO by rising dependency
  Gated* gated_tail_ = nullptr;

  // P9: a miss depends on the removal that made it one, until that is committed.
  absl::flat_hash_map<uint64_t, Seq> removals_;
  std::deque<std::pair<Seq, uint64_t>> removal_order_;
  Seq flush_seq_ = 0;
  AbsentWatches absent_watches_;
  ChangeListener* change_listener_ = nullptr;

  uint64_t held_by_ = 0;
  uint64_t txn_id_ = 0;
  Seq txn_first_ = 0;
  std::deque<CrossTxn> txns_;

  base::Task* parked_head_ = nullptr;
  base::Task* parked_tail_ = nullptr;
  bool parked_may_run_ = false;
  uint64_t parked_retry_us_ = 0;

  std::deque<record::BatchRef> received_;
  struct Verification {
    Seq end = 0;
    uint64_t hash = 0;
    std::function<void(bool)> done;
  };
  void VerifyIfReached();
  Verification verification_;
  size_t received_offset_ = 0;  // bytes of received_.front() applied already
  absl::flat_hash_map<uint64_t, store::ChainBuilder> open_runs_;  // by run id
  std::vector<std::weak_ptr<SnapshotCursor::Large>> being_read_;  // of SnapshotFor::kStream
  std::vector<std::weak_ptr<const Seq>> emitting_;                // runs of commands under way here
  Seq snapshot_seq_max_ = 0;  // newest seq of an item loaded from a snapshot

  base::Random random_;
  bool awaits_room_ = false;   // a parked command asked for it
  bool awaits_place_ = false;  // or for a chunk
  uint64_t giver_weight_ = 0;  // as told to RegionPool::NoteGivers

  std::function<void()> wake_others_;
  ShardCounters counters_;
  ShardFigures figures_;
  uint64_t publish_us_ = 0;  // next time
};

}  // namespace kvstored::shard
