// The chain of segments: opening, rolling over, spares, retention, cuts.
//
// Order of a roll-over, and what a crash between two steps leaves:
//   1. the current segment is persisted to its end   (crash: it is still the newest)
//   2. the successor's header is written and persisted (crash: header whole or torn; no frame yet)
//   3. frames go to the successor
#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "log/log.h"
#include "log/meta.h"

namespace kvstored::log {
namespace {

// A note takes a few hundred bytes, file systems give blocks.
constexpr uint64_t kNoteRoomBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<Log>> Log::Create(LogOptions options,
                                                 const std::vector<Seq>& start_seqs) {
  KVS_ASSIGN_OR_RETURN(std::unique_ptr<Log> log, Open(std::move(options), {{}, start_seqs, {}}));
  const std::lock_guard<std::mutex> lock(log->writer_mutex_);
  KVS_RETURN_IF_ERROR(log->Roll());
  log->UpdateSpace();
  return log;
}

absl::StatusOr<std::unique_ptr<Log>> Log::Open(LogOptions options, LogTail tail) {
  if (options.segment_bytes < 2 * kSegmentHeaderBytes || options.segment_bytes % kFrameAlign != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "log.segment_size %d is not a multiple of 64 from 8192", options.segment_bytes));
  }
  std::vector<Seq> last_seqs = tail.last_seqs;
  auto log = std::unique_ptr<Log>(new Log(std::move(options), last_seqs, tail.debt));
  KVS_RETURN_IF_ERROR(log->Begin(std::move(tail)));
  return log;
}

absl::Status Log::Begin(LogTail tail) {
  last_persist_us_ = options_.clock->MonotonicUs();
  uint64_t oldest_number = 0;
  if (!tail.segments.empty()) {
    const Segment& newest = tail.segments.back();
    oldest_number = tail.segments.front().header.number;
    // What was recovered may only be in the page cache: a process can die without its machine.
    KVS_RETURN_IF_ERROR(newest.file->Persist());
    current_.header = newest.header;
    begun_number_.store(newest.header.number, std::memory_order_relaxed);
    current_.end = newest.end;
    persisted_position_ = {newest.header.number, newest.end};
  }
  next_spare_number_ = current_.header.number + 1;
  for (Segment& segment : tail.segments) {
    index_.Add(std::move(segment));
  }
  index_.SetLastSeqs(last_seqs_);
  KVS_RETURN_IF_ERROR(CollectLeftovers(oldest_number));
  UpdateSpace();
  while (NeedsSegment()) {
    const absl::Status status = PrepareSegment();
    if (absl::IsResourceExhausted(status)) {
      base::LogWarning(
          absl::StrFormat("no space for the log: writes are refused until there is: %s",
                          std::string(status.message())));
      break;
    }
    KVS_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

// With prepare_mutex_ held. A file is noted only when it is there whole, and before it is used.
absl::Status Log::NoteFiles(uint64_t newest_number) {
  LogFiles files{.newest = newest_number,
                 .segment_bytes = options_.segment_bytes,
                 .begun = begun_number_.load(std::memory_order_acquire),  // partner: StartSegment
                 .persisted = {}};
  for (ShardId shard = 0; shard < options_.shard_count; ++shard) {
    files.persisted.push_back(
        std::min(persisted(shard), cut_seqs_.empty() ? UINT64_MAX : cut_seqs_[shard]));
  }
  return SaveLogFiles(options_.device, options_.directory, files);
}

// A cut takes back what was confirmed: known before the cut is persistent, or a crash between the
// two would look like damage. Empty: the cut is through.
absl::Status Log::NoteCut(const std::vector<Seq>& seqs) {
  const std::lock_guard<std::mutex> lock(prepare_mutex_);
  cut_seqs_ = seqs;
  return seqs.empty() ? absl::OkStatus() : NoteFiles(next_spare_number_ - 1);
}

bool Log::HasRoomForCut() const {
  const absl::StatusOr<uint64_t> free_bytes = options_.device->FreeBytes();
  return space_.spare_count() > 0 && free_bytes.ok() && *free_bytes >= kNoteRoomBytes;
}

// Files outside the chain: spares prepared by an earlier life, segments that were being recycled.
absl::Status Log::CollectLeftovers(uint64_t oldest_number) {
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                       options_.device->List(options_.directory));
  std::map<uint64_t, std::string> useless;
  for (const std::string& base_name : names) {
    const uint64_t number = ParseSegmentName(base_name);
    if (number == 0 || (number >= oldest_number && number <= current_.header.number)) {
      continue;
    }
    const std::string name = options_.directory + "/" + base_name;
    KVS_ASSIGN_OR_RETURN(std::unique_ptr<NvmFile> file, options_.device->Open(name));
    const bool is_whole = file->size_bytes() == options_.segment_bytes;
    if (is_whole && number == next_spare_number_) {
      KVS_RETURN_IF_ERROR(BlankHeader(file.get()));
      space_.AddSpare({name, std::move(file)});
      ++next_spare_number_;
    } else {
      useless[number] = name;
    }
  }
  const absl::StatusOr<LogFiles> noted = LoadLogFiles(options_.device, options_.directory);
  const bool is_new = absl::IsNotFound(noted.status());
  KVS_RETURN_IF_ERROR(is_new ? absl::OkStatus() : noted.status());
  // What is noted goes only after the new note; the rest first, since the device may be full.
  const auto first_noted_after = useless.upper_bound(is_new ? 0 : noted->newest);
  for (auto it = first_noted_after; it != useless.end(); ++it) {
    KVS_RETURN_IF_ERROR(options_.device->Remove(it->second));
  }
  useless.erase(first_noted_after, useless.end());
  const absl::Status status = NoteFiles(next_spare_number_ - 1);
  note_is_due_ = absl::IsResourceExhausted(status);
  if (note_is_due_) {
    return absl::OkStatus();  // reads go on; what useless files there are keep their room
  }
  KVS_RETURN_IF_ERROR(status);
  for (const auto& [number, name] : useless) {
    KVS_RETURN_IF_ERROR(options_.device->Remove(name));
  }
  return absl::OkStatus();
}

absl::Status Log::BlankHeader(NvmFile* file) {
  std::array<uint8_t, kSegmentHeaderBytes> zeros{};
  const iovec piece = {zeros.data(), zeros.size()};
  KVS_RETURN_IF_ERROR(file->Write(0, {&piece, 1}));
  return file->Persist();
}

absl::StatusOr<SpareSegment> Log::CreateSpare(const std::string& name, uint64_t reserve) {
  KVS_ASSIGN_OR_RETURN(const uint64_t free_bytes, options_.device->FreeBytes());
  if (free_bytes < options_.segment_bytes + reserve) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%s has %d bytes free; a log segment needs %d and %d are kept for a checkpoint; free space "
        "or lower log.segment_size",
        options_.device->Describe(), free_bytes, options_.segment_bytes, reserve));
  }
  // A file of that name can only be what an earlier attempt, ended by an error, left behind.
  KVS_RETURN_IF_ERROR(options_.device->Remove(name));
  KVS_ASSIGN_OR_RETURN(std::unique_ptr<NvmFile> file,
                       options_.device->Create(name, options_.segment_bytes));
  counters_.segments_created.fetch_add(1, std::memory_order_relaxed);
  return SpareSegment{name, std::move(file)};
}

// With prepare_mutex_ held. `reserve`: bytes of the device that must stay free.
absl::StatusOr<SpareSegment> Log::MakeSpare(uint64_t reserve) {
  if (note_is_due_) {
    KVS_RETURN_IF_ERROR(NoteFiles(next_spare_number_ - 1));
    note_is_due_ = false;
  }
  const std::string name = SegmentName(options_.directory, next_spare_number_);
  SpareSegment spare;
  bool is_recycled = space_.TakeRetired(&spare);
  if (is_recycled) {
    KVS_ASSIGN_OR_RETURN(const uint64_t free_bytes, options_.device->FreeBytes());
    if (free_bytes < reserve) {
      // Its room is owed to the reserve: given back, and the new file below is refused.
      spare.file.reset();
      KVS_RETURN_IF_ERROR(options_.device->Remove(spare.name));
      is_recycled = false;
    }
  }
  if (is_recycled) {
    KVS_RETURN_IF_ERROR(options_.device->Rename(spare.name, name));
    // Its header still names its old number, so that a crash here leaves no second chain; blank it.
    KVS_RETURN_IF_ERROR(BlankHeader(spare.file.get()));
    spare.name = name;
    counters_.segments_recycled.fetch_add(1, std::memory_order_relaxed);
  } else {
    KVS_ASSIGN_OR_RETURN(spare, CreateSpare(name, reserve));
  }
  KVS_RETURN_IF_ERROR(NoteFiles(next_spare_number_));
  ++next_spare_number_;
  return spare;
}

absl::Status Log::PrepareSegment() {
  const std::lock_guard<std::mutex> lock(prepare_mutex_);
  if (!NeedsSegment()) {
    return absl::OkStatus();
  }
  const uint64_t reserve = reserve_bytes_.load(std::memory_order_relaxed);
  KVS_RETURN_IF_ERROR(CheckRoomForDemand(reserve));
  absl::StatusOr<SpareSegment> spare = MakeSpare(reserve);
  if (absl::IsResourceExhausted(spare.status()) && !needed_.empty()) {
    Retire(index_.Trim(needed_, /*retain_bytes=*/0, /*count_max=*/1));
    spare = MakeSpare(reserve);
  }
  if (absl::IsResourceExhausted(spare.status())) {
    space_.NoteDeviceFull();
  }
  KVS_RETURN_IF_ERROR(spare.status());
  space_.AddSpare(*std::move(spare));
  return absl::OkStatus();
}

// A reservation that the device cannot hold is refused before the disk is filled for it.
absl::Status Log::CheckRoomForDemand(uint64_t reserve) {
  const uint64_t demanded = space_.DemandedSpares();
  if (IsShortOfSegments() || demanded == 0) {
    return absl::OkStatus();
  }
  KVS_ASSIGN_OR_RETURN(const uint64_t free_bytes, options_.device->FreeBytes());
  // As MakeSpare sees it: what is recycled, or removed for the reserve, is room too.
  const uint64_t removable =
      space_.retired_count() + (needed_.empty() ? 0 : index_.TrimmableCount(needed_, 0));
  const uint64_t all_bytes = free_bytes + removable * options_.segment_bytes;
  const uint64_t room = all_bytes > reserve ? (all_bytes - reserve) / options_.segment_bytes : 0;
  if (demanded <= room) {
    return absl::OkStatus();
  }
  space_.NoteDeviceFull();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "a command or transaction needs %d log segments of %d bytes more and there is "
      "room for %d below %s: it is refused; free space or lower log.segment_size",
      demanded, options_.segment_bytes, room, options_.device->Describe()));
}

// Ends the current segment and begins the next.
absl::Status Log::Roll() {
  if (current_.dirty) {
    KVS_RETURN_IF_ERROR(PersistCurrent());
  }
  SpareSegment spare;
  if (!space_.TakeSpare(&spare)) {
    const std::lock_guard<std::mutex> lock(prepare_mutex_);
    if (!space_.TakeSpare(&spare)) {
      KVS_ASSIGN_OR_RETURN(spare, MakeSpare(0));
    }
  }
  return StartSegment(spare);
}

absl::Status Log::StartSegment(const SpareSegment& spare) {
  SegmentHeader header;
  header.incarnation = options_.random();
  header.number = current_.header.number + 1;
  header.predecessor_incarnation = current_.header.incarnation;
  header.predecessor_end = current_.header.incarnation == 0 ? 0 : current_.end;
  header.segment_bytes = options_.segment_bytes;
  header.data_set = options_.data_set;
  header.start_seqs = last_seqs_;
  KVS_CHECK(spare.name == SegmentName(options_.directory, header.number),
            "spare %s for number %llu", spare.name.c_str(),
            static_cast<unsigned long long>(header.number));
  std::array<uint8_t, kSegmentHeaderBytes> bytes;
  EncodeSegmentHeader(header, bytes);
  const iovec piece = {bytes.data(), bytes.size()};
  KVS_RETURN_IF_ERROR(spare.file->Write(0, {&piece, 1}));
  // Orders the header before the segment's first frame.
  KVS_RETURN_IF_ERROR(spare.file->Persist());
  current_ = Current{header, spare.name, spare.file, kSegmentHeaderBytes, false};
  begun_number_.store(header.number, std::memory_order_release);  // partner: NoteFiles
  persisted_position_ = {header.number, kSegmentHeaderBytes};
  Segment segment;
  segment.header = header;
  segment.name = spare.name;
  segment.file = spare.file;
  index_.Add(std::move(segment));
  return absl::OkStatus();
}

uint64_t Log::RestBytes() const {
  return current_.file == nullptr ? 0 : options_.segment_bytes - current_.end;
}

void Log::UpdateSpace() {
  space_.SetUsable(RestBytes(), options_.segment_bytes - kSegmentHeaderBytes);
}

void Log::Retain(const std::vector<Seq>& needed) {
  const std::lock_guard<std::mutex> lock(prepare_mutex_);
  needed_ = needed;
  Retire(index_.Trim(needed, retain_bytes_.load(std::memory_order_relaxed)));
}

// Segments that left the chain, oldest first: a few are recycled, the others removed.
void Log::Retire(std::vector<Segment> removed) {
  for (Segment& segment : removed) {
    if (segment.file->size_bytes() == options_.segment_bytes &&
        space_.retired_count() < options_.spare_segments) {
      space_.AddRetired({segment.name, std::move(segment.file)});
      continue;
    }
    segment.file.reset();
    const absl::Status status = options_.device->Remove(segment.name);
    if (!status.ok()) {
      base::LogWarning(
          absl::StrFormat("an old log segment stays: %s", std::string(status.message())));
    }
  }
}

absl::Status Log::CutAbove(const std::vector<Seq>& seqs) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  KVS_CHECK(seqs.size() == last_seqs_.size(), "seqs=%zu shards=%zu", seqs.size(),
            last_seqs_.size());
  if (failed()) {
    return absl::FailedPreconditionError("the log has failed");
  }
  bool did_anything = false;
  absl::Status status = StepLocked(true, &did_anything);
  bool cuts = false;
  for (size_t s = 0; status.ok() && s < seqs.size(); ++s) {
    cuts = cuts || last_seqs_[s] > seqs[s];
    last_seqs_[s] = std::min(last_seqs_[s], seqs[s]);
    committed_seqs_[s] = std::min(committed_seqs_[s], last_seqs_[s]);
  }
  if (status.ok() && cuts) {
    status = NoteCut(last_seqs_);
  }
  if (status.ok() && cuts) {
    // The new segment's header names the cut: persistent before Roll returns.
    status = Roll();
    UpdateSpace();
  }
  if (!status.ok()) {
    Fail(status);
    return status;
  }
  persisted_seqs_ = last_seqs_;
  index_.SetLastSeqs(last_seqs_);
  for (size_t s = 0; s < last_seqs_.size(); ++s) {
    marks_[s].appended.store(last_seqs_[s], std::memory_order_release);
    marks_[s].written.store(last_seqs_[s], std::memory_order_release);
    marks_[s].persisted.store(last_seqs_[s], std::memory_order_release);
  }
  return NoteCut({});
}

}  // namespace kvstored::log
