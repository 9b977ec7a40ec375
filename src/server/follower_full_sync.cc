// A full sync on the replica's side (P21): items into a checkpoint of a new data set directory,
// records into its log, both into memory; when the states are equal the directory is published.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "server/follower.h"

namespace kvstored::server {

void Follower::BeginFullSync(const replication::JoinPlan& plan,
                             std::function<void(absl::Status)> done) {
  absl::StatusOr<uint64_t> free_bytes = core_->seams.device->FreeBytes();
  if (free_bytes.ok() && *free_bytes < 4 * core_->config.Get()->log.segment_size_bytes) {
    done(absl::ResourceExhaustedError(absl::StrFormat(
        "full sync needs the room of a second data set below %s, only %d bytes are free",
        core_->seams.device->Describe(), *free_bytes)));
    return;
  }
  sync_ = std::make_unique<Sync>();
  sync_->primary = plan.primary;
  const uint32_t shards = core_->shard_count();
  sync_->start_seqs.assign(shards, kUnknown);
  sync_->end_seqs.assign(shards, kUnknown);
  sync_->told.assign(shards, 0);
  sync_->state_hashes.assign(shards, 0);
  sync_->verified.assign(shards, false);
  sync_token_ = std::make_shared<int>(0);
  core_->gate.loading.store(true, std::memory_order_release);
  auto operation = std::make_shared<Operation>("full sync", std::move(done));
  // P19: what this node has until the end of the sync is no base for a promotion.
  operation->Then([this] {
    return Progress::From(
        core_->identity->Update([](log::Meta* meta) { meta->promotable = false; }));
  });
  core_->Run(std::move(operation));
}

OpResult Follower::LearnStart(ShardId shard, Seq start_seq) {
  if (!sync_ || sync_->finishing) {
    return OpResult::kWait;
  }
  if (sync_->start_seqs[shard] == kUnknown) {
    sync_->start_seqs[shard] = start_seq;
    ++sync_->known;
  }
  if (sync_->known < core_->shard_count()) {
    return OpResult::kWait;
  }
  if (!sync_->checkpoint) {
    if (const absl::Status opened = OpenSyncDirectory(); !opened.ok()) {
      base::LogError(absl::StrFormat("full sync: %s", std::string(opened.message())));
      FailSync(opened);
      return OpResult::kWait;
    }
  }
  return OpResult::kOk;
}

absl::Status Follower::OpenSyncDirectory() {
  KVS_ASSIGN_OR_RETURN(sync_->directory,
                       core_->identity->MakeSetDirectory(sync_->primary, sync_->start_seqs));
  KVS_ASSIGN_OR_RETURN(auto log,
                       log::Log::Create(core_->LogOptionsFor(sync_->directory), sync_->start_seqs));
  KVS_ASSIGN_OR_RETURN(sync_->checkpoint,
                       log::CheckpointWriter::Begin(core_->seams.device, sync_->directory,
                                                    sync_->primary.data_set_id,
                                                    core_->random.Next(), sync_->start_seqs));
  log->SetPersistEachRound(core_->CountsPersisted());
  core_->SetLog(std::move(log));
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    const Seq start = sync_->start_seqs[shard];
    core_->last_checksum[shard].store(0, std::memory_order_relaxed);
    core_->threads->RunOnShard(shard, [start](shard::Shard& target) { target.Reset(start); });
    CompareAtEnd(shard);
  }
  return absl::OkStatus();
}

// Before its reset a shard's memory is of the old data set: the end of an empty shard waits for it.
void Follower::CompareAtEnd(ShardId shard) {
  if (!sync_->checkpoint || sync_->end_seqs[shard] == kUnknown) {
    return;
  }
  const Seq end_seq = sync_->end_seqs[shard];
  const uint64_t state_hash = sync_->state_hashes[shard];
  const std::weak_ptr<int> token = sync_token_;
  core_->threads->RunOnShard(
      shard, [this, shard, end_seq, state_hash, token](shard::Shard& target) {
        target.VerifyAt(end_seq, state_hash, [this, shard, token](bool equal) {
          core_->replication->Post([this, shard, token, equal] {
            if (token.expired() || !sync_) {
              return;
            }
            if (!equal) {
              FailSync(absl::DataLossError(absl::StrFormat(
                  "full sync: shard %d differs from the primary at the same position", shard)));
              return;
            }
            sync_->verified[shard] = true;
            FinishIfComplete();
          });
        });
      });
}

OpResult Follower::OnSnapshotBatch(record::BatchRef batch) {
  if (const OpResult known = LearnStart(batch->shard, batch->last_seq); known != OpResult::kOk) {
    return known;
  }
  if (ApplyQueueFull()) {
    return OpResult::kWait;
  }
  if (const absl::Status added = sync_->checkpoint->Add(*batch); !added.ok()) {
    FailSync(added);
    return OpResult::kWait;
  }
  const auto bytes = static_cast<int64_t>(batch->bytes.size());
  apply_bytes_->fetch_add(bytes, std::memory_order_relaxed);
  core_->threads->RunOnShard(
      batch->shard, [this, batch, bytes, counter = apply_bytes_](shard::Shard& shard) {
        if (shard.ApplySnapshot(*batch) != OpResult::kOk) {
          core_->replication->Post([this] {
            FailSync(absl::ResourceExhaustedError(
                "full sync: out of memory; raise memory.max_memory to the primary's"));
          });
        }
        counter->fetch_sub(bytes, std::memory_order_relaxed);
        core_->replication->Wake();
      });
  return OpResult::kOk;
}

void Follower::OnSnapshotEnd(ShardId shard, Seq end_seq, uint64_t state_hash) {
  if (!sync_) {
    return;
  }
  sync_->end_seqs[shard] = end_seq;
  sync_->state_hashes[shard] = state_hash;
  const bool opened = sync_->checkpoint != nullptr;
  // kWait only says that other shards have not begun yet: opening looks after this end.
  (void)LearnStart(shard, end_seq);
  if (!sync_) {
    return;
  }
  if (opened) {
    CompareAtEnd(shard);
  }
  FinishIfComplete();
}

void Follower::FinishIfComplete() {
  if (!sync_ || sync_->finishing || !sync_->checkpoint) {
    return;
  }
  bool committed = true;
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    if (!sync_->verified[shard]) {
      return;
    }
    committed = committed && sync_->told[shard] >= sync_->end_seqs[shard];
  }
  // What was never committed cannot be cut out of a checkpoint again, so this waits for it; but not
  // for ever: the set that would commit it may wait for this very node to stream.
  const int64_t now_us = core_->now_us();
  if (sync_->publish_at_us == 0) {
    sync_->publish_at_us =
        now_us + static_cast<int64_t>(core_->config.Get()->replication.commit_timeout_us);
  }
  if (!committed && now_us < sync_->publish_at_us) {
    return;
  }
  sync_->finishing = true;
  core_->log()->RequestPersist();
  core_->log()->Wake();
  const std::weak_ptr<int> token = sync_token_;
  auto operation =
      std::make_shared<Operation>("full sync end", [this, token](const absl::Status& status) {
        if (token.expired()) {
          return;
        }
        if (!status.ok()) {
          FailSync(status);
          return;
        }
        sync_.reset();
        sync_token_.reset();
        for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
          core_->replication->SetLocalPersisted(shard, core_->log()->persisted(shard));
        }
        core_->gate.loading.store(false, std::memory_order_release);
        base::LogInfo("full sync: complete, states are equal, the new data set is published");
        core_->replication->FinishFullSync(absl::OkStatus());
      });
  operation->Then([this, token] { return token.expired() ? Progress::Done() : PublishSync(); });
  core_->Run(std::move(operation));
}

Progress Follower::PublishSync() {
  std::vector<Seq> persisted;
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    persisted.push_back(core_->log()->persisted(shard));
    if (persisted.back() < sync_->end_seqs[shard]) {
      core_->log()->RequestPersist();
      return Progress::Again();
    }
  }
  const uint64_t newest_us = core_->record_clock.NowUs();
  if (absl::Status finished = sync_->checkpoint->Finish(sync_->end_seqs, newest_us);
      !finished.ok()) {
    return Progress::Failed(std::move(finished));
  }
  if (absl::Status published = sync_->checkpoint->Publish(sync_->end_seqs, persisted);
      !published.ok()) {
    return Progress::Failed(std::move(published));
  }
  return Progress::From(core_->identity->PublishSetDirectory(sync_->directory));
}

void Follower::FailSync(const absl::Status& why) {
  // The engine tells OnFullSyncAborted, once, when it has stopped feeding us.
  core_->replication->FinishFullSync(why);
}

void Follower::OnFullSyncAborted(const absl::Status& why) {
  if (!sync_) {
    return;
  }
  base::LogWarning(absl::StrFormat("full sync: aborted, the half-built data set is dropped: %s",
                                   std::string(why.message())));
  // Memory holds a mixture now: the old data set comes back through start-up.
  const std::string directory = sync_->directory;
  sync_.reset();
  sync_token_.reset();
  if (directory.empty()) {
    core_->gate.loading.store(false, std::memory_order_release);
  } else {
    core_->restart_wanted.store(true, std::memory_order_release);
  }
}

}  // namespace kvstored::server
