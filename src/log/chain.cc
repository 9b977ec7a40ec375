// A file belongs to the chain if its header is whole and names the number of its file, and its
// successor names its incarnation. Everything else in the directory is a spare: prepared ahead, or
// a stale life of a recycled file. A header that is not whole is a torn roll-over, unless frames
// behind it prove that it once was.
#include "log/chain.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "log/damage.h"
#include "log/frame_scan.h"
#include "log/meta.h"

namespace kvstored::log {
namespace {

struct Candidate {
  std::string name;
  std::shared_ptr<NvmFile> file;
  SegmentHeaderResult result = SegmentHeaderResult::kAbsent;
  SegmentHeader header;
  bool is_valid = false;
};

absl::Status CheckOwner(const RecoveryOptions& options, const Candidate& candidate) {
  const std::string path = options.device->Describe() + "/" + candidate.name;
  if (candidate.header.data_set != options.data_set) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s belongs to another data set; move it out of this directory", path));
  }
  if (candidate.header.start_seqs.size() != options.shard_count) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s was written with %d shards, this start has %d; set server.shards to %d",
                        path, candidate.header.start_seqs.size(), options.shard_count,
                        candidate.header.start_seqs.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Candidate> ReadCandidate(const RecoveryOptions& options, const std::string& name,
                                        uint64_t number) {
  Candidate candidate;
  candidate.name = name;
  KVS_ASSIGN_OR_RETURN(candidate.file, options.device->Open(name));
  if (candidate.file->size_bytes() < kSegmentHeaderBytes) {
    return candidate;  // a crash while it was made
  }
  std::array<uint8_t, kSegmentHeaderBytes> bytes;
  KVS_RETURN_IF_ERROR(candidate.file->Read(0, bytes));
  candidate.result = DecodeSegmentHeader(bytes, &candidate.header);
  if (candidate.result == SegmentHeaderResult::kNewer) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s/%s has format version %d, this kvstored reads up to %d; start a newer kvstored on this "
        "directory",
        options.device->Describe(), name, candidate.header.version, kLogVersion));
  }
  if (candidate.result == SegmentHeaderResult::kOk) {
    KVS_RETURN_IF_ERROR(CheckOwner(options, candidate));
    candidate.is_valid = candidate.header.number == number;
  }
  return candidate;
}

// A file that is being recycled names the number of its earlier life, which left the chain long
// ago. A number above the chain's end was lost from it.
absl::Status CheckMisnamed(const RecoveryOptions& options, const Candidate& candidate,
                           uint64_t newest) {
  return candidate.result != SegmentHeaderResult::kOk || candidate.header.number <= newest
             ? absl::OkStatus()
             : DamageError(absl::StrFormat("%s/%s: its header (offset 0) says that it is number "
                                           "%d, and the log ends before "
                                           "that: records of every shard would be missing; give "
                                           "each file its own name, or %s",
                                           options.device->Describe(), candidate.name,
                                           candidate.header.number, DamageRemedy()));
}

// A header is persisted before the first frame. So a frame that names this segment as persisted
// proves that a broken header was whole once.
absl::Status CheckTornHeader(const RecoveryOptions& options, const Candidate& candidate,
                             uint64_t number) {
  const uint64_t size_bytes = candidate.file->size_bytes();
  if (candidate.result == SegmentHeaderResult::kOk || size_bytes < kSegmentHeaderBytes) {
    return absl::OkStatus();
  }
  const uint64_t limit =
      candidate.result == SegmentHeaderResult::kBad
          ? size_bytes
          : std::min<uint64_t>(size_bytes, kSegmentHeaderBytes + kFrameHeaderBytes);
  KVS_ASSIGN_OR_RETURN(const TailClaim claim,
                       SearchTail(candidate.file.get(), std::nullopt, kSegmentHeaderBytes, limit));
  if (claim.persisted.segment >= number) {
    return DamageError(
        absl::StrFormat("%s/%s: the segment header at offset 0 is damaged, and records of every "
                        "shard follow it; %s",
                        options.device->Describe(), candidate.name, DamageRemedy()));
  }
  return absl::OkStatus();
}

// Without it nobody could tell whether the newest segments are gone.
absl::StatusOr<LogFiles> LoadNoted(const RecoveryOptions& options, uint64_t newest) {
  absl::StatusOr<LogFiles> noted = LoadLogFiles(options.device, options.directory);
  if (!absl::IsNotFound(noted.status())) {
    return noted;
  }
  if (newest == 0) {
    return LogFiles();
  }
  return DamageError(absl::StrFormat(
      "%s/%s_files is absent, though %s was begun: it may not have been the newest one; %s",
      options.device->Describe(), options.directory, SegmentName(options.directory, newest),
      DamageRemedy()));
}

// Every file that was made and is not part of what is left of the chain must be there, and none of
// them begun.
absl::Status CheckNotedFiles(const RecoveryOptions& options, const LogFiles& noted,
                             const std::map<uint64_t, Candidate>& candidates, uint64_t newest) {
  for (uint64_t number = newest + 1; number <= noted.newest; ++number) {
    const auto found = candidates.find(number);
    const bool is_absent = found == candidates.end();
    if (is_absent || found->second.file->size_bytes() < noted.segment_bytes) {
      const std::string what =
          is_absent ? "absent"
                    : absl::StrFormat("cut short at offset %d", found->second.file->size_bytes());
      return DamageError(absl::StrFormat(
          "%s/%s is %s, and what is left of the log ends before it: it may have held the newest "
          "records of every shard (files up to number %d were made); %s",
          options.device->Describe(), SegmentName(options.directory, number), what, noted.newest,
          DamageRemedy()));
    }
  }
  if (newest < noted.begun) {
    return DamageError(absl::StrFormat(
        "%s/%s: its header (offset 0) is gone, and it held the newest records of every shard; %s",
        options.device->Describe(), SegmentName(options.directory, noted.begun), DamageRemedy()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string DamageRemedy() {
  return "restore the file from a copy, or give this node's copy up: move its data directory away "
         "and start it with replication.primary = the address of a node that has the data (a "
         "replica does the like by itself with recovery.on_damage = \"rejoin\")";
}

absl::StatusOr<Chain> FindChain(const RecoveryOptions& options) {
  const absl::StatusOr<std::vector<std::string>> names = options.device->List(options.directory);
  if (absl::IsNotFound(names.status())) {
    return DamageError(absl::StrFormat(
        "%s/%s, the directory of the log, is absent: records of every shard would be missing; %s",
        options.device->Describe(), options.directory, DamageRemedy()));
  }
  KVS_RETURN_IF_ERROR(names.status());
  std::map<uint64_t, Candidate> candidates;
  for (const std::string& base_name : *names) {
    const uint64_t number = ParseSegmentName(base_name);
    if (number != 0) {
      KVS_ASSIGN_OR_RETURN(candidates[number],
                           ReadCandidate(options, options.directory + "/" + base_name, number));
    }
  }
  uint64_t newest = 0;
  for (const auto& [number, candidate] : candidates) {
    newest = candidate.is_valid ? number : newest;
  }
  for (const auto& [number, candidate] : candidates) {
    KVS_RETURN_IF_ERROR(CheckMisnamed(options, candidate, newest));
    if (number > newest) {
      KVS_RETURN_IF_ERROR(CheckTornHeader(options, candidate, number));
    }
  }
  Chain chain;
  KVS_ASSIGN_OR_RETURN(chain.noted, LoadNoted(options, newest));
  KVS_RETURN_IF_ERROR(CheckNotedFiles(options, chain.noted, candidates, newest));
  for (uint64_t number = newest; number != 0; --number) {
    Candidate& candidate = candidates[number];
    Segment segment;
    segment.header = candidate.header;
    segment.name = candidate.name;
    segment.file = candidate.file;
    chain.segments.push_back(std::move(segment));
    const uint64_t wanted = candidate.header.predecessor_incarnation;
    const auto predecessor = candidates.find(number - 1);
    if (wanted == 0) {
      break;
    }
    if (predecessor == candidates.end()) {
      chain.break_reason = SegmentName(options.directory, number - 1) + " is absent";
      break;
    }
    if (!predecessor->second.is_valid || predecessor->second.header.incarnation != wanted) {
      chain.break_reason = predecessor->second.name + ": its header (offset 0) is damaged";
      break;
    }
  }
  std::reverse(chain.segments.begin(), chain.segments.end());
  return chain;
}

}  // namespace kvstored::log
