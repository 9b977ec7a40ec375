// The write-ahead log of the node: one writer, frames of all shards in a chain of segments.
//
// Promise: OnPersisted(shard, seq) means that every record of the shard up to seq survives a power
// cut.
//
// What a crash leaves: the chain of segments named by the newest valid segment header; in the
// newest segment a torn tail above the last confirmed position; a prepared segment that no header
// names, noted as made (LogFiles) or not yet. A segment's header is persisted before its first
// frame is written, and its predecessor is persisted to its end before that header is: so a
// successor proves that its predecessor is whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/event.h"
#include "kvstored/clock.h"
#include "kvstored/nvm_device.h"
#include "kvstored/op_result.h"
#include "kvstored/types.h"
#include "log/frame.h"
#include "log/segment_index.h"
#include "log/space.h"
#include "record/batch.h"

namespace kvstored::log {

// Upcalls on the thread that calls Step.
class LogListener {
 public:
  virtual ~LogListener() = default;
  // All records up to last_seq are written to the file (survive the process, not the machine).
  virtual void OnWritten(ShardId shard, Seq last_seq) = 0;
  // All records up to last_seq are persistent.
  virtual void OnPersisted(ShardId shard, Seq last_seq) = 0;
  // Once. Nothing is written any more: the node gives up its role until restart (P25).
  virtual void OnFailed(const absl::Status& status) = 0;
};

struct LogOptions {
  NvmDevice* device = nullptr;
  std::string directory;  // below the device, must exist: "set-1/log"
  uint32_t shard_count = 1;
  Id128 data_set;
  uint64_t segment_bytes = uint64_t{64} << 20;
  uint64_t retain_bytes = uint64_t{1} << 30;  // kept for catch-up beyond what recovery needs
  // Bytes of the device that new segments leave free: meta and one checkpoint (P25).
  uint64_t reserve_bytes = 0;
  uint32_t spare_segments = 2;  // prepared ahead
  LogSync sync = LogSync::kAlways;
  int64_t sync_interval_us = 1000000;
  Clock* clock = nullptr;
  std::function<uint64_t()> random;  // incarnations
  LogListener* listener = nullptr;
};

// What of a log no checkpoint holds: the next start replays it.
struct ReplayDebt {
  uint64_t bytes = 0;
  uint64_t oldest_us = 0;  // timestamp of the oldest record; 0: there is none
};

// How a log ended: what Log::Open goes on from. Made by Recovery.
struct LogTail {
  std::vector<Segment> segments;  // the chain, oldest first; empty: no segment was ever written
  std::vector<Seq> last_seqs;     // per shard
  ReplayDebt debt;
};

struct LogCounters {
  std::atomic<uint64_t> rounds{0};
  std::atomic<uint64_t> frames{0};
  std::atomic<uint64_t> written_bytes{0};
  std::atomic<uint64_t> persists{0};
  std::atomic<uint64_t> persist_us_total{0};
  std::atomic<uint64_t> persist_us_max{0};
  std::atomic<uint64_t> segments_created{0};
  std::atomic<uint64_t> segments_recycled{0};
};

class Log {
 public:
  // A new log in an empty directory: shard s begins after start_seqs[s] (0 everywhere for a new
  // data set; a full sync's start). Writes and persists the first segment.
  static absl::StatusOr<std::unique_ptr<Log>> Create(LogOptions options,
                                                     const std::vector<Seq>& start_seqs);
  // Goes on where recovery found the end. Appends begin in a new segment, made by the first of
  // them, whose header names the valid end: what lies beyond, a torn tail, never existed. Persists
  // what was recovered before it returns.
  static absl::StatusOr<std::unique_ptr<Log>> Open(LogOptions options, LogTail tail);
  ~Log();

  // --- Producers: any thread; one shard's batches from one thread at a time, in seq order. ---

  // Reserves space for records of that many encoded bytes. kWait: not ready yet, ask again;
  // kDiskFull: not to be had now. Then nothing changed. Submit spends what was reserved; what stays
  // unspent is kept by its owner for its next records or given back with Return.
  OpResult Reserve(uint64_t bytes) {
    return space_.Reserve(bytes);
  }
  // What Reserve would answer now; changes nothing. Any thread.
  OpResult JudgeReserve(uint64_t bytes) const {
    return space_.Judge(bytes);
  }
  void Return(uint64_t bytes) {
    space_.Return(bytes);
  }
  // For what is submitted without a reservation, an epoch's first records (P25): is there room for
  // frames of so many bytes, promised or not?
  bool HasRoomFor(uint64_t frame_bytes) const {
    return space_.free_bytes() >= frame_bytes;
  }
  // A cut takes a new segment and a note.
  bool HasRoomForCut() const;
  // Hands a live batch (never a snapshot batch) to the log. Its bytes must be reserved, but for
  // epoch_begin, which has a reserve of its own. After a failure batches are dropped. Wakes nobody:
  // Wake or WriteHere follows.
  void Submit(record::BatchRef batch);
  // The shard's commit watermark (P10). Frames carry it; when nothing is written for a while, a
  // mark of its own does, so that a restart need not ask anybody what was committed. Any thread.
  void NoteCommitted(ShardId shard, Seq seq) {
    marks_[shard].committed.store(seq, std::memory_order_relaxed);
    committed_moved_.store(true, std::memory_order_release);  // partner: MarkCommitted
  }
  // Runs the round on the calling thread if that is free and small: on return it is persistent as
  // the policy says, and the listener was told. Otherwise wakes the log thread. For a producer that
  // has nothing else to do: two hand-overs cost more than a small write.
  void WriteHere();

  // --- The log thread (or the simulator). ---

  // One round: writes all that was submitted with as few calls as possible, persists if the policy
  // says so, tells the listener. Returns whether anything was done.
  bool Step();
  // Sleeps until there is work, at most timeout_us.
  void WaitForWork(int64_t timeout_us) {
    event_.Wait(timeout_us);
  }
  void Wake() {
    event_.Set();
  }
  // Makes or recycles one spare segment if one is missing: slow, so on a helper thread (or the
  // simulator between steps). kResourceExhausted: the disk is full, or has no room for all that a
  // reservation asked for; call again while NeedsSegment.
  // A full disk takes back, segment by segment, what is kept for catch-up only (log.retain).
  absl::Status PrepareSegment();
  void ForgetDeviceFull() {
    space_.ForgetDeviceFull();
  }
  // Fewer spares than there should be, whatever was asked for.
  bool IsShortOfSegments() const {
    return space_.spare_count() < options_.spare_segments;
  }
  bool NeedsSegment() const {
    return space_.WantsSpare(options_.spare_segments);
  }

  // --- Control thread. ---

  // Each round persists, whatever the sync policy says (ack = persisted, here or at the primary).
  void SetPersistEachRound(bool on) {
    persist_each_round_.store(on, std::memory_order_relaxed);
  }
  void SetSync(LogSync sync, int64_t interval_us);
  void SetRetainBytes(uint64_t bytes) {
    retain_bytes_.store(bytes, std::memory_order_relaxed);
  }
  void SetReserveBytes(uint64_t bytes) {
    reserve_bytes_.store(bytes, std::memory_order_relaxed);
  }
  // The next round persists everything written, whatever the policy says.
  void RequestPersist();
  // Recovery needs only records above needed[s] (a published checkpoint's start): frees older whole
  // segments beyond retain_bytes for recycling.
  void Retain(const std::vector<Seq>& needed);
  // Where the log is now, in bytes that grow with every write; what it had to replay when it was
  // opened counts too.
  uint64_t AppendedBytes() const {
    return opened_with_.bytes + counters_.written_bytes.load(std::memory_order_relaxed);
  }
  // A checkpoint holds all that was there at `appended_bytes`.
  void SetCheckpointed(uint64_t appended_bytes) {
    checkpointed_bytes_.store(appended_bytes, std::memory_order_relaxed);
  }
  // What the next start replays, to a frame or two.
  uint64_t ReplayBytes() const {
    return AppendedBytes() - checkpointed_bytes_.load(std::memory_order_relaxed);
  }
  const ReplayDebt& opened_with() const {
    return opened_with_;
  }
  // Records above seqs[s] never existed: published and persistent on return. All producers are
  // quiet.
  absl::Status CutAbove(const std::vector<Seq>& seqs);
  // Writes what was submitted, persists, and closes with marks that prove the end.
  absl::Status Close();

  // Contiguous records of one shard from from_seq, at least one, at most max_bytes if more than
  // one. Null: from_seq is not written yet. kNotFound: no longer kept. Thread-safe, beside the
  // writer.
  absl::StatusOr<record::BatchRef> Read(ShardId shard, Seq from_seq, uint64_t max_bytes) const;

  // Watermarks, any thread. appended: handed to Submit.
  Seq appended(ShardId shard) const {
    return marks_[shard].appended.load(std::memory_order_acquire);
  }
  Seq written(ShardId shard) const {
    return marks_[shard].written.load(std::memory_order_acquire);
  }
  Seq persisted(ShardId shard) const {
    return marks_[shard].persisted.load(std::memory_order_acquire);
  }
  bool failed() const {
    return failed_.load(std::memory_order_acquire);
  }
  const LogCounters& counters() const {
    return counters_;
  }
  const SegmentIndex& segments() const {
    return index_;
  }
  // Bytes that Reserve could grant now, without the slack.
  uint64_t ReservableBytes() const {
    return space_.ReservableBytes();
  }

 private:
  struct Marks {
    std::atomic<Seq> appended{0};
    std::atomic<Seq> written{0};
    std::atomic<Seq> persisted{0};
    std::atomic<Seq> committed{0};
  };
  // The segment that is being written.
  struct Current {
    SegmentHeader header;
    std::string name;
    std::shared_ptr<NvmFile> file;  // null: the first append makes it
    uint64_t end = 0;
    bool dirty = false;  // written since the last Persist
  };
  class Round;

  Log(LogOptions options, const std::vector<Seq>& start_seqs, const ReplayDebt& debt);

  absl::Status Begin(LogTail tail);
  absl::Status CollectLeftovers(uint64_t oldest_number);
  absl::Status NoteFiles(uint64_t newest_number);
  absl::Status NoteCut(const std::vector<Seq>& seqs);
  absl::Status AddBatch(Round* round, const record::Batch& batch);
  absl::Status WriteRound(Round* round);
  absl::Status Roll();
  absl::Status PersistCurrent();
  absl::Status StartSegment(const SpareSegment& spare);
  absl::StatusOr<SpareSegment> MakeSpare(uint64_t reserve);
  absl::Status CheckRoomForDemand(uint64_t reserve);
  absl::StatusOr<SpareSegment> CreateSpare(const std::string& name, uint64_t reserve);
  absl::Status BlankHeader(NvmFile* file);
  void Retire(std::vector<Segment> removed);
  uint64_t RestBytes() const;
  bool ShouldPersist() const;
  void PublishWritten();
  void PublishPersisted();
  void Fail(const absl::Status& status);
  void UpdateSpace();
  bool StepAndNote();
  absl::Status StepLocked(bool force_persist, bool* did_anything);
  absl::Status MarkCommitted();
  absl::Status WriteMarks(bool all_shards);

  const LogOptions options_;
  const ReplayDebt opened_with_;
  std::atomic<uint64_t> checkpointed_bytes_{0};
  std::atomic<LogSync> sync_;
  std::atomic<int64_t> sync_interval_us_;
  std::atomic<uint64_t> retain_bytes_;
  std::atomic<uint64_t> reserve_bytes_;
  std::atomic<bool> persist_each_round_{false};
  std::atomic<bool> persist_requested_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> committed_moved_{false};

  std::mutex queue_mutex_;
  std::vector<record::BatchRef> queue_;  // guarded by queue_mutex_
  uint64_t queue_bytes_ = 0;             // guarded by queue_mutex_

  std::mutex writer_mutex_;  // Step, CutAbove, Close: one at a time
  std::vector<record::BatchRef> taken_;
  Current current_;
  LogPosition persisted_position_;
  std::vector<Seq> last_seqs_;       // written, per shard
  std::vector<Seq> committed_seqs_;  // as frames tell it, per shard
  int64_t last_write_us_ = 0;
  int64_t last_persist_us_ = 0;
  std::vector<Seq> persisted_seqs_;  // confirmed by the device

  std::mutex prepare_mutex_;        // one maker of spares at a time
  std::vector<Seq> needed_;         // of the last Retain; empty: everything is needed
  std::vector<Seq> cut_seqs_;       // of a cut that is not through; else empty
  bool note_is_due_ = false;        // the device was full: noted before the next segment is made
  uint64_t next_spare_number_ = 1;  // spares are used in the order of their numbers

  std::atomic<uint64_t> begun_number_{0};
  std::unique_ptr<Marks[]> marks_;
  SegmentIndex index_;
  Space space_;
  LogCounters counters_;
  base::Event event_;
};

}  // namespace kvstored::log
