#include "server/loader.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/event.h"
#include "log/checkpoint.h"

namespace kvstored::server {

namespace {

using Phase = LoadProgress::Phase;

// Every seq of (from, to] is a record.
uint64_t CountBetween(const std::vector<Seq>& from, const std::vector<Seq>& to) {
  uint64_t count = 0;
  for (size_t shard = 0; shard < from.size(); ++shard) {
    count += to[shard] > from[shard] ? to[shard] - from[shard] : 0;
  }
  return count;
}

uint64_t RecordsIn(const log::CheckpointFacts& facts) {
  uint64_t count = 0;
  for (const log::CheckpointShard& shard : facts.shards) {
    count += shard.record_count;
  }
  return count;
}

// Its data set is known to be the manifest's. A data set that came by a full sync begins above 0,
// and nothing of it is older.
absl::StatusOr<std::vector<Seq>> StartOf(const log::CheckpointReader& checkpoint,
                                         const log::Manifest& manifest) {
  std::vector<Seq> start_seqs = checkpoint.facts().StartSeqs();
  bool fits = start_seqs.size() == manifest.shard_count;
  for (size_t shard = 0; fits && shard < start_seqs.size(); ++shard) {
    fits = start_seqs[shard] >= manifest.start_seqs[shard];
  }
  if (!fits) {
    return absl::FailedPreconditionError(
        absl::StrFormat("checkpoint %s does not belong to this copy of the data set: it has other "
                        "shards, or begins "
                        "before this copy does; move it out of this directory",
                        checkpoint.name()));
  }
  return start_seqs;
}

}  // namespace

absl::Status Loader::OnShard(ShardId shard,
                             const std::function<absl::Status(shard::Shard&)>& work) {
  if (core_->seams.single_threaded) {
    return work(*core_->threads->shard(shard));
  }
  base::Event done;
  absl::Status status;
  core_->threads->RunOnShard(shard, [&](shard::Shard& target) {
    status = work(target);
    done.Set();
  });
  done.Wait(-1);
  return status;
}

absl::Status Loader::OnRecords(ShardId shard, std::span<const record::Record> records) {
  progress_.Add(records.size());
  return OnShard(shard, [&](shard::Shard& target) -> absl::Status {
    if (receiving_) {
      auto batch = std::make_shared<record::Batch>();
      batch->shard = shard;
      batch->first_seq = records.front().seq;
      batch->last_seq = records.back().seq;
      for (const record::Record& record : records) {
        record::Encode(record, &batch->bytes);
      }
      target.Receive(std::move(batch));
      return absl::OkStatus();
    }
    return target.ApplyAll(records) == OpResult::kOk
               ? absl::OkStatus()
               : absl::ResourceExhaustedError(
                     "out of memory while loading the data set; raise memory.max_memory");
  });
}

absl::StatusOr<LoadResult> Loader::Load() {
  const log::Meta meta = core_->identity->meta();
  const log::Manifest manifest = core_->identity->manifest();
  // One more than shard threads: while they apply, this side reads, checks and decodes.
  const uint32_t thread_count =
      core_->seams.single_threaded ? 1 : core_->threads->thread_count() + 1;
  LoadResult result;
  std::vector<Seq> from = manifest.start_seqs;
  std::vector<Seq> checkpoint_end;
  uint64_t newest_us = 0;
  KVS_ASSIGN_OR_RETURN(auto checkpoint,
                       log::CheckpointReader::OpenNewest(
                           core_->seams.device, meta.data_set_directory, manifest.data_set));
  if (checkpoint) {
    KVS_ASSIGN_OR_RETURN(from, StartOf(*checkpoint, manifest));
    checkpoint_end = checkpoint->facts().EndSeqs();
    newest_us = checkpoint->facts().newest_timestamp_us;
    result.items_bytes = checkpoint->facts().file_bytes;
    progress_.Begin(Phase::kCheckpoint, RecordsIn(checkpoint->facts()));
    KVS_RETURN_IF_ERROR(checkpoint->Replay(thread_count, this));
  }
  progress_.Begin(Phase::kScan, 0);
  KVS_ASSIGN_OR_RETURN(
      auto recovery,
      log::Recovery::Scan({.device = core_->seams.device,
                           .directory = Identity::LogDirectory(meta.data_set_directory),
                           .shard_count = core_->shard_count(),
                           .data_set = manifest.data_set,
                           .needed_from = from,
                           .checkpoint_end = checkpoint_end,
                           .thread_count = thread_count}));
  result.shards = recovery->result().shards;
  result.log_bytes = recovery->result().total_bytes;
  std::vector<Seq> committed;
  std::vector<Seq> last;
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    log::RecoveredShard& found = result.shards[shard];
    if (!checkpoint_end.empty()) {
      found.committed = std::max(found.committed, checkpoint_end[shard]);
    }
    // A new data set that begins above 0 has everything below committed.
    found.committed = std::max(found.committed, from[shard]);
    committed.push_back(found.committed);
    last.push_back(std::max(found.last_seq, found.committed));
  }
  progress_.Begin(Phase::kReplay, CountBetween(from, committed));
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    KVS_RETURN_IF_ERROR(OnShard(shard, [&](shard::Shard& target) {
      target.store()->Expect(result.shards[shard].key_count);
      return absl::OkStatus();
    }));
  }
  KVS_RETURN_IF_ERROR(recovery->Replay(from, committed, this));
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    KVS_RETURN_IF_ERROR(OnShard(shard, [&](shard::Shard& target) {
      target.SetRecovered(committed[shard], committed[shard]);
      return absl::OkStatus();
    }));
    core_->last_checksum[shard].store(result.shards[shard].last_checksum,
                                      std::memory_order_relaxed);
  }
  receiving_ = true;
  progress_.Begin(Phase::kTail, CountBetween(committed, last));
  KVS_RETURN_IF_ERROR(recovery->Replay(committed, last, this));
  core_->record_clock.RaiseTo(std::max(newest_us, recovery->result().newest_timestamp_us));
  KVS_ASSIGN_OR_RETURN(auto log, log::Log::Open(core_->LogOptionsFor(meta.data_set_directory),
                                                recovery->TakeTail()));
  core_->SetLog(std::move(log));
  progress_.Begin(Phase::kDone, 0);
  return result;
}

}  // namespace kvstored::server
