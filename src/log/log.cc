// The writer's rounds: queue -> frames -> one write a segment -> one persist -> watermarks.
#include "log/log.h"

#include <algorithm>
#include <array>
#include <deque>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "kvstored/limits.h"
#include "record/cursor.h"

namespace kvstored::log {
namespace {

constexpr std::array<uint8_t, kFrameAlign> kFramePadding{};
// A log that is written more often tells `committed` by its frames.
constexpr int64_t kCommittedMarkDelayUs = 100'000;
// A larger round overlaps better with the next one's commands on another thread.
constexpr uint64_t kWriteHereBytesMax = uint64_t{256} << 10;

iovec PieceOf(const void* data, size_t size_bytes) {
  return {const_cast<void*>(data), size_bytes};
}

}  // namespace

// Frames gathered for one write. Borrows the batches' bytes: they stay in taken_ until the round
// ends.
class Log::Round {
 public:
  void Add(FrameHeader header, std::span<const uint8_t> payload, uint64_t offset) {
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    header.payload_crc = base::Crc32c(0, payload.data(), payload.size());
    headers_.emplace_back();
    EncodeFrameHeader(header, headers_.back().data());
    pieces_.push_back(PieceOf(headers_.back().data(), kFrameHeaderBytes));
    if (!payload.empty()) {
      pieces_.push_back(PieceOf(payload.data(), payload.size()));
    }
    const uint64_t total = FrameBytes(payload.size());
    const size_t padding = static_cast<size_t>(total - kFrameHeaderBytes - payload.size());
    if (padding != 0) {
      pieces_.push_back(PieceOf(kFramePadding.data(), padding));
    }
    frames_.emplace_back(header, offset);
    bytes_ += total;
  }
  void Clear() {
    headers_.clear();
    pieces_.clear();
    frames_.clear();
    bytes_ = 0;
  }
  uint64_t bytes() const {
    return bytes_;
  }
  const std::vector<iovec>& pieces() const {
    return pieces_;
  }
  const std::vector<std::pair<FrameHeader, uint64_t>>& frames() const {
    return frames_;
  }

 private:
  std::deque<std::array<uint8_t, kFrameHeaderBytes>> headers_;  // addresses stay
  std::vector<iovec> pieces_;
  std::vector<std::pair<FrameHeader, uint64_t>> frames_;
  uint64_t bytes_ = 0;
};

Log::Log(LogOptions options, const std::vector<Seq>& start_seqs, const ReplayDebt& debt)
    : options_(std::move(options)),
      opened_with_(debt),
      sync_(options_.sync),
      sync_interval_us_(options_.sync_interval_us),
      retain_bytes_(options_.retain_bytes),
      reserve_bytes_(options_.reserve_bytes),
      last_seqs_(start_seqs),
      committed_seqs_(start_seqs.size(), 0),
      persisted_seqs_(start_seqs),
      marks_(std::make_unique<Marks[]>(options_.shard_count)),
      index_(options_.shard_count) {
  KVS_CHECK(start_seqs.size() == options_.shard_count, "seqs=%zu shards=%u", start_seqs.size(),
            options_.shard_count);
  for (uint32_t s = 0; s < options_.shard_count; ++s) {
    marks_[s].appended.store(start_seqs[s], std::memory_order_relaxed);
    marks_[s].written.store(start_seqs[s], std::memory_order_relaxed);
    marks_[s].persisted.store(start_seqs[s], std::memory_order_relaxed);
  }
  index_.SetLastSeqs(start_seqs);
}

Log::~Log() = default;

void Log::Submit(record::BatchRef batch) {
  KVS_CHECK(!batch->is_snapshot, "shard=%u: snapshot items are not logged", batch->shard);
  KVS_CHECK(batch->shard < options_.shard_count, "shard=%u of %u", batch->shard,
            options_.shard_count);
  // release: partner is the acquire in appended().
  marks_[batch->shard].appended.store(batch->last_seq, std::memory_order_release);
  {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    queue_bytes_ += batch->bytes.size();
    queue_.push_back(std::move(batch));
  }
}

void Log::WriteHere() {
  const std::unique_lock<std::mutex> writer(writer_mutex_, std::try_to_lock);
  bool is_small = false;
  if (writer.owns_lock()) {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    is_small = queue_bytes_ <= kWriteHereBytesMax;
  }
  if (is_small) {
    StepAndNote();
  } else {
    event_.Set();
  }
}

bool Log::Step() {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  return StepAndNote();
}

// With writer_mutex_ held.
bool Log::StepAndNote() {
  bool did_anything = false;
  const absl::Status status = StepLocked(false, &did_anything);
  if (!status.ok()) {
    Fail(status);
  }
  return did_anything;
}

absl::Status Log::StepLocked(bool force_persist, bool* did_anything) {
  taken_.clear();
  {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    taken_.swap(queue_);
    queue_bytes_ = 0;
  }
  if (failed()) {
    taken_.clear();
    return absl::OkStatus();
  }
  if (!taken_.empty()) {
    *did_anything = true;
    Round round;
    uint64_t spent = 0;
    for (const record::BatchRef& batch : taken_) {
      KVS_RETURN_IF_ERROR(AddBatch(&round, *batch));
      spent += batch->bytes.size();
    }
    KVS_RETURN_IF_ERROR(WriteRound(&round));
    taken_.clear();
    // The rest shrinks before the promise does: a reservation in between only sees too little.
    UpdateSpace();
    space_.Spend(spent);
    counters_.rounds.fetch_add(1, std::memory_order_relaxed);
    PublishWritten();
  } else if (committed_moved_.load(std::memory_order_acquire)) {  // partner: NoteCommitted
    KVS_RETURN_IF_ERROR(MarkCommitted());
  }
  if (current_.dirty && (force_persist || ShouldPersist())) {
    *did_anything = true;
    KVS_RETURN_IF_ERROR(PersistCurrent());
  }
  persist_requested_.store(current_.dirty && persist_requested_.load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
  PublishPersisted();
  return absl::OkStatus();
}

bool Log::ShouldPersist() const {
  if (persist_each_round_.load(std::memory_order_relaxed) ||
      persist_requested_.load(std::memory_order_acquire)) {  // partner: RequestPersist
    return true;
  }
  switch (sync_.load(std::memory_order_relaxed)) {
    case LogSync::kAlways:
      return true;
    case LogSync::kInterval:
      return options_.clock->MonotonicUs() - last_persist_us_ >=
             sync_interval_us_.load(std::memory_order_relaxed);
    case LogSync::kOff:
      return false;
  }
  return true;
}

// Puts the batch into frames: one if it fits, otherwise cut at record boundaries.
absl::Status Log::AddBatch(Round* round, const record::Batch& batch) {
  Seq& last_seq = last_seqs_[batch.shard];
  KVS_CHECK(batch.first_seq == last_seq + 1, "shard=%u first_seq=%llu last_seq=%llu", batch.shard,
            static_cast<unsigned long long>(batch.first_seq),
            static_cast<unsigned long long>(last_seq));
  if (current_.file == nullptr) {
    KVS_RETURN_IF_ERROR(Roll());
  }
  std::span<const uint8_t> left = batch.bytes;
  bool segment_is_fresh = false;
  while (!left.empty()) {
    const uint64_t offset = current_.end + round->bytes();
    const uint64_t room = options_.segment_bytes - offset;
    const uint64_t payload_max =
        room <= kFrameHeaderBytes
            ? 0
            : std::min<uint64_t>(kFramePayloadMax,
                                 (room & ~uint64_t{kFrameAlign - 1}) - kFrameHeaderBytes);
    size_t take = 0;
    uint32_t count = 0;
    if (left.size() <= payload_max) {
      take = left.size();
      count = static_cast<uint32_t>(batch.last_seq - last_seq);
    } else {
      record::Cursor cursor(left);
      for (; cursor.at_record() && cursor.offset() + cursor.size_bytes() <= payload_max;
           cursor.Next()) {
        ++count;
      }
      take = cursor.offset();
    }
    if (take == 0) {
      if (segment_is_fresh) {
        return absl::InternalError(
            absl::StrFormat("a record of shard %d (seq %d) does not fit into a segment of %d bytes",
                            batch.shard, last_seq + 1, options_.segment_bytes));
      }
      KVS_RETURN_IF_ERROR(WriteRound(round));
      KVS_RETURN_IF_ERROR(Roll());
      segment_is_fresh = true;
      continue;
    }
    FrameHeader header;
    header.shard = batch.shard;
    header.incarnation = current_.header.incarnation;
    header.first_seq = last_seq + 1;
    header.committed = batch.committed;
    header.persisted = persisted_position_;
    header.record_count = count;
    committed_seqs_[batch.shard] = std::max(committed_seqs_[batch.shard], batch.committed);
    round->Add(header, left.first(take), offset);
    segment_is_fresh = false;
    last_seq += count;
    left = left.subspan(take);
  }
  KVS_CHECK(last_seq == batch.last_seq, "shard=%u last_seq=%llu batch=%llu", batch.shard,
            static_cast<unsigned long long>(last_seq),
            static_cast<unsigned long long>(batch.last_seq));
  return absl::OkStatus();
}

absl::Status Log::WriteRound(Round* round) {
  if (round->bytes() == 0) {
    return absl::OkStatus();
  }
  KVS_RETURN_IF_ERROR(current_.file->Write(current_.end, round->pieces()));
  current_.end += round->bytes();
  current_.dirty = true;
  last_write_us_ = options_.clock->MonotonicUs();
  counters_.frames.fetch_add(round->frames().size(), std::memory_order_relaxed);
  counters_.written_bytes.fetch_add(round->bytes(), std::memory_order_relaxed);
  index_.Extend(round->frames(), current_.end, last_seqs_);
  round->Clear();
  return absl::OkStatus();
}

// Orders: everything written so far, before any frame that names the new position, before any
// watermark that a listener hears.
absl::Status Log::PersistCurrent() {
  const int64_t start_us = options_.clock->MonotonicUs();
  KVS_RETURN_IF_ERROR(current_.file->Persist());
  current_.dirty = false;
  last_persist_us_ = options_.clock->MonotonicUs();
  const uint64_t took_us = static_cast<uint64_t>(std::max<int64_t>(0, last_persist_us_ - start_us));
  counters_.persists.fetch_add(1, std::memory_order_relaxed);
  counters_.persist_us_total.fetch_add(took_us, std::memory_order_relaxed);
  if (took_us > counters_.persist_us_max.load(std::memory_order_relaxed)) {
    counters_.persist_us_max.store(took_us, std::memory_order_relaxed);  // one writer
  }
  persisted_position_ = {current_.header.number, current_.end};
  persisted_seqs_ = last_seqs_;
  return absl::OkStatus();
}

void Log::PublishWritten() {
  for (uint32_t s = 0; s < options_.shard_count; ++s) {
    if (marks_[s].written.load(std::memory_order_relaxed) != last_seqs_[s]) {
      marks_[s].written.store(last_seqs_[s], std::memory_order_release);  // partner: written()
      options_.listener->OnWritten(static_cast<ShardId>(s), last_seqs_[s]);
    }
  }
}

void Log::PublishPersisted() {
  for (uint32_t s = 0; s < options_.shard_count; ++s) {
    if (marks_[s].persisted.load(std::memory_order_relaxed) != persisted_seqs_[s]) {
      marks_[s].persisted.store(persisted_seqs_[s], std::memory_order_release);  // persisted()
      options_.listener->OnPersisted(static_cast<ShardId>(s), persisted_seqs_[s]);
    }
  }
}

void Log::Fail(const absl::Status& status) {
  if (failed_.exchange(true, std::memory_order_acq_rel)) {
    return;
  }
  base::LogError(absl::StrFormat("the log failed and takes no more writes until restart: %s",
                                 std::string(status.message())));
  options_.listener->OnFailed(status);
}

void Log::RequestPersist() {
  persist_requested_.store(true, std::memory_order_release);  // partner: ShouldPersist
  event_.Set();
}

void Log::SetSync(LogSync sync, int64_t interval_us) {
  sync_.store(sync, std::memory_order_relaxed);
  sync_interval_us_.store(interval_us, std::memory_order_relaxed);
  event_.Set();
}

absl::Status Log::MarkCommitted() {
  if (options_.clock->MonotonicUs() - last_write_us_ < kCommittedMarkDelayUs) {
    return absl::OkStatus();
  }
  committed_moved_.store(false, std::memory_order_relaxed);
  return WriteMarks(false);
}

// Frames without records: they tell `committed`, and `persisted` as any frame. Best effort: no
// segment is begun for them, and Space has room for one behind each record.
absl::Status Log::WriteMarks(bool all_shards) {
  Round round;
  for (uint32_t s = 0; s < options_.shard_count; ++s) {
    const Seq committed =
        std::min(marks_[s].committed.load(std::memory_order_relaxed), last_seqs_[s]);
    if (current_.file == nullptr || (!all_shards && committed <= committed_seqs_[s]) ||
        current_.end + round.bytes() + kFrameHeaderBytes > options_.segment_bytes) {
      continue;
    }
    FrameHeader header;
    header.shard = static_cast<ShardId>(s);
    header.incarnation = current_.header.incarnation;
    header.committed = std::max(committed, committed_seqs_[s]);
    header.persisted = persisted_position_;
    committed_seqs_[s] = header.committed;
    round.Add(header, {}, current_.end + round.bytes());
  }
  KVS_RETURN_IF_ERROR(WriteRound(&round));
  UpdateSpace();
  return absl::OkStatus();
}

absl::Status Log::Close() {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  if (failed()) {
    return absl::FailedPreconditionError("the log has failed");
  }
  bool did_anything = false;
  absl::Status status = StepLocked(true, &did_anything);
  if (status.ok()) {
    status = WriteMarks(true);
  }
  if (status.ok() && current_.dirty) {
    status = PersistCurrent();
  }
  if (!status.ok()) {
    Fail(status);
    return status;
  }
  // So that the next start knows where the log ended; without it, only where it was a while ago.
  const std::lock_guard<std::mutex> prepare(prepare_mutex_);
  if (const absl::Status noted = NoteFiles(next_spare_number_ - 1); !noted.ok()) {
    base::LogWarning(
        absl::StrFormat("the end of the log is not noted: %s", std::string(noted.message())));
  }
  return absl::OkStatus();
}

}  // namespace kvstored::log
