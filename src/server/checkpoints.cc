#include "server/checkpoints.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::server {
namespace {

// After a checkpoint that failed, or did not help a full disk, the next one waits so long.
constexpr int64_t kRetryUs = 10'000'000;

}  // namespace

Checkpoints::Checkpoints(NodeCore* core)
    : core_(core),
      random_(core->seams.random_seed),
      last_save_unix_s_(core->seams.clock->WallUs() / 1'000'000),
      last_begin_us_(core->now_us()) {
}

void Checkpoints::Request(Done done) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(done));
  }
  core_->background_event.Set();
}

bool Checkpoints::IsDue() const {
  const std::shared_ptr<const Config> now = core_->config.Get();
  const Config::Log& config = now->log;
  const log::Log* log = core_->log();
  if (log == nullptr || log->failed() || core_->gate.loading.load(std::memory_order_relaxed)) {
    return false;
  }
  const uint64_t behind_bytes = log->ReplayBytes();
  const bool is_automatic =
      config.checkpoint_interval_us != 0 || config.checkpoint_log_size_bytes != 0;
  if (behind_bytes == 0 || !is_automatic) {
    return false;
  }
  const bool is_disk_full = core_->gate.disk_full.load(std::memory_order_relaxed);
  if ((is_disk_full || last_failed_.load(std::memory_order_relaxed)) &&
      core_->now_us() - last_begin_us_ < kRetryUs) {
    return false;
  }
  // Nothing else frees the log. The room that a checkpoint needs was kept.
  return is_disk_full ||
         (config.checkpoint_log_size_bytes != 0 &&
          behind_bytes >= config.checkpoint_log_size_bytes) ||
         (config.checkpoint_interval_us != 0 &&
          IsDueByTime(*log, static_cast<int64_t>(config.checkpoint_interval_us)));
}

// A node that is restarted more often than that must make checkpoints all the same: until the first
// one of this life the age of what was replayed counts.
bool Checkpoints::IsDueByTime(const log::Log& log, int64_t interval_us) const {
  const uint64_t oldest_us = log.opened_with().oldest_us;
  const bool is_first = count_.load(std::memory_order_relaxed) == 0;
  return core_->now_us() - last_begin_us_ >= interval_us ||
         (is_first && oldest_us != 0 &&
          core_->record_clock.NowUs() >= oldest_us + static_cast<uint64_t>(interval_us));
}

bool Checkpoints::Step() {
  if (operation_) {
    if (!operation_->Poll()) {
      return false;
    }
    operation_.reset();
    running_.store(false, std::memory_order_relaxed);
    return true;
  }
  std::vector<Done> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(requests_);
  }
  if (waiting.empty() && !IsDue()) {
    return false;
  }
  Begin(std::move(waiting));
  return true;
}

void Checkpoints::Begin(std::vector<Done> waiting) {
  running_.store(true, std::memory_order_relaxed);
  last_begin_us_ = core_->now_us();
  auto job = std::make_shared<Job>();
  job->incarnation = random_.Next();
  job->log = core_->log();
  operation_ = std::make_shared<Operation>("checkpoint", [this, waiting = std::move(waiting)](
                                                             const absl::Status& status) {
    last_failed_.store(!status.ok(), std::memory_order_relaxed);
    if (status.ok()) {
      count_.fetch_add(1, std::memory_order_relaxed);
      last_save_unix_s_.store(core_->seams.clock->WallUs() / 1'000'000, std::memory_order_relaxed);
    } else {
      base::LogWarning(absl::StrFormat("checkpoint: given up: %s", std::string(status.message())));
    }
    for (const Done& done : waiting) {
      done(status);
    }
  });
  if (job->log == nullptr || core_->gate.loading.load(std::memory_order_relaxed)) {
    operation_->Then(
        [] { return Progress::Failed(absl::UnavailableError("the data set is not loaded")); });
    return;
  }
  job->log_bytes = job->log->AppendedBytes();
  const uint32_t shards = core_->shard_count();
  job->start.assign(shards, 0);
  job->end.assign(shards, 0);
  for (uint32_t i = 0; i < shards; ++i) {
    job->cursors.push_back(std::make_unique<shard::SnapshotCursor>());
    job->cursors.back()->purpose = shard::SnapshotFor::kReplay;
  }
  auto left = std::make_shared<std::atomic<uint32_t>>(0);
  operation_->Then([this, job, left] {
    core_->ForEachShard(
        [job](shard::Shard& shard) { job->start[shard.id()] = shard.OldestOpen() - 1; }, left);
    return Progress::Done();
  });
  operation_->Then([this, left] { return core_->Wait(left); });
  operation_->Then([this, job] {
    auto writer = log::CheckpointWriter::Begin(
        core_->seams.device, core_->identity->meta().data_set_directory,
        core_->identity->manifest().data_set, job->incarnation, job->start);
    if (!writer.ok()) {
      return Progress::Failed(writer.status());
    }
    job->writer = *std::move(writer);
    return Progress::Done();
  });
  operation_->Then([this, job] { return CopySlices(job.get()); });
  operation_->Then([this, job] {
    return Progress::From(job->writer->Finish(job->end, core_->record_clock.NowUs()));
  });
  operation_->Then([this, job] { return Publish(job.get()); });
}

Progress Checkpoints::CopySlices(Job* job) {
  while (job->shard < core_->shard_count()) {
    if (core_->log() != job->log) {
      return Progress::Failed(absl::AbortedError("a full sync replaced the data set"));
    }
    if (!job->slice_asked) {
      job->slice_asked = true;
      // The operation keeps the job alive until it has seen slice_ready.
      core_->threads->RunOnShard(
          static_cast<ShardId>(job->shard), [this, job](shard::Shard& shard) {
            job->slice = shard.SnapshotSlice(job->cursors[shard.id()].get(), kSliceBytes);
            job->slice_ready.store(true, std::memory_order_release);  // partner: below
            core_->background_event.Set();
          });
    }
    if (!job->slice_ready.load(std::memory_order_acquire)) {
      return Progress::Again();
    }
    job->slice_ready.store(false, std::memory_order_relaxed);
    job->slice_asked = false;
    const record::BatchRef slice = std::move(job->slice);
    if (absl::Status added = job->writer->Add(*slice); !added.ok()) {
      return Progress::Failed(std::move(added));
    }
    if (job->cursors[job->shard]->done()) {
      job->end[job->shard] = slice->last_seq;
      ++job->shard;
    }
  }
  return Progress::Done();
}

Progress Checkpoints::Publish(Job* job) {
  if (core_->log() != job->log || job->log->failed()) {
    return Progress::Failed(absl::AbortedError("the log it belongs to is gone"));
  }
  std::vector<Seq> committed;
  std::vector<Seq> persisted;
  bool ready = true;
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    committed.push_back(core_->threads->shard(shard)->committed());
    persisted.push_back(job->log->persisted(shard));
    ready = ready && committed.back() >= job->end[shard] && persisted.back() >= job->end[shard];
  }
  if (job->publish_by_us == 0) {
    job->publish_by_us =
        core_->now_us() + static_cast<int64_t>(core_->config.Get()->replication.gate_timeout_us);
  }
  if (!ready && core_->now_us() >= job->publish_by_us) {
    return Progress::Failed(
        absl::UnavailableError("it shows writes that the member set has not acknowledged within "
                               "replication.gate_timeout"));
  }
  if (!ready) {
    job->log->RequestPersist();
    job->log->Wake();
    return Progress::Again();
  }
  if (absl::Status published = job->writer->Publish(committed, persisted); !published.ok()) {
    return Progress::Failed(std::move(published));
  }
  job->log->Retain(job->start);
  job->log->SetCheckpointed(job->log_bytes);
  return Progress::Done();
}

}  // namespace kvstored::server
