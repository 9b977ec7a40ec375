#include "server/follower.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "record/cursor.h"

namespace kvstored::server {

using replication::JoinMode;
using replication::JoinPlan;
using replication::Refusal;
using replication::StreamState;

void Follower::PrepareJoin(const JoinPlan& plan, std::function<void(absl::Status)> done) {
  if (core_->restart_wanted.load(std::memory_order_acquire)) {
    // Asked again before the end of this life: what was adopted has no log here.
    done(absl::AbortedError("this node starts again"));
    return;
  }
  if (plan.adopt || !core_->identity->has_data_set() ||
      core_->identity->manifest().data_set != plan.primary.data_set_id) {
    // Another seed and perhaps another shard count: the node starts again on an empty set of that
    // kind.
    base::LogInfo(absl::StrFormat("adopting data set %s with %d shards",
                                  log::ToHex(plan.primary.data_set_id), plan.primary.shard_count));
    const absl::Status adopted = core_->identity->AdoptDataSet(plan.primary);
    if (adopted.ok()) {
      core_->restart_wanted.store(true, std::memory_order_release);
      done(absl::AbortedError("this node starts again with the primary's data set"));
      return;
    }
    done(adopted);
    return;
  }
  if (plan.mode == JoinMode::kFullSync) {
    BeginFullSync(plan, std::move(done));
  } else {
    JoinByCatchUp(plan, std::move(done));
  }
}

void Follower::JoinByCatchUp(const JoinPlan& plan, std::function<void(absl::Status)> done) {
  if (plan.dropped_records > 0) {
    base::LogWarning(absl::StrFormat(
        "%d records of this node's log that the primary does not have are dropped: they were never "
        "committed",
        plan.dropped_records));
  }
  log::Log* log = core_->log();
  bool cut = false;
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    cut = cut || log->appended(shard) > plan.common[shard];
  }
  if (cut && !log->HasRoomForCut()) {
    // P25: before memory is cut, so that both end alike; asked again with the next connection.
    core_->background_event.Set();
    done(absl::ResourceExhaustedError(absl::StrFormat(
        "the log has no room to cut what the primary does not have: free space below %s",
        core_->seams.device->Describe())));
    return;
  }
  auto left = std::make_shared<std::atomic<uint32_t>>(0);
  auto failed = std::make_shared<std::atomic<bool>>(false);
  auto operation = std::make_shared<Operation>("join", std::move(done));
  if (cut) {
    const std::vector<Seq> common = plan.common;
    // Memory first: nothing above the common point was ever applied (P20), so it is only received.
    operation->Then([this, common, left, failed] {
      core_->ForEachShard(
          [common, failed](shard::Shard& shard) {
            if (!shard.CutReceived(common[shard.id()])) {
              failed->store(true, std::memory_order_relaxed);
            }
          },
          left);
      return Progress::Done();
    });
    operation->Then([this, left] { return core_->Wait(left); });
    operation->Then([this, common, failed] {
      if (failed->load(std::memory_order_relaxed)) {
        return Progress::Failed(absl::FailedPreconditionError(
            "applied records lie above the common point; join with --discard-local-data"));
      }
      for (std::atomic<uint32_t>& checksum : core_->last_checksum) {
        checksum.store(0, std::memory_order_relaxed);
      }
      return Progress::From(core_->log()->CutAbove(common));
    });
  }
  const std::vector<replication::EpochEntry> epochs = plan.primary.epochs;
  operation->Then([this, epochs] { return Progress::From(core_->identity->SetEpochs(epochs)); });
  operation->Then([this] {
    for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
      core_->replication->SetLocalPersisted(shard, core_->log()->persisted(shard));
    }
    return Progress::Done();
  });
  core_->Run(std::move(operation));
}

void Follower::BeginFullSync(const JoinPlan& plan, std::function<void(absl::Status)> done) {
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
  auto left = std::make_shared<std::atomic<uint32_t>>(0);
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
    RunOnShard(shard, [start](shard::Shard& target) { target.Reset(start); });
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
  RunOnShard(shard, [this, shard, end_seq, state_hash, token](shard::Shard& target) {
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

void Follower::RunOnShard(ShardId shard, std::function<void(shard::Shard&)> work) {
  const uint32_t owner = core_->threads->OwnerOf(shard);
  shard::ShardThread* thread = core_->threads->thread(owner);
  core_->threads->RunOn(owner,
                        [thread, shard, work = std::move(work)] { work(*thread->shard(shard)); });
}

bool Follower::ApplyQueueFull() const {
  return apply_bytes_->load(std::memory_order_relaxed) > kApplyBytesMax;
}

OpResult Follower::OnBatch(record::BatchRef batch) {
  if (sync_) {
    if (const OpResult known = LearnStart(batch->shard, batch->first_seq - 1);
        known != OpResult::kOk) {
      return known;
    }
  }
  if (ApplyQueueFull()) {
    return OpResult::kWait;
  }
  log::Log* log = core_->log();
  if (log->failed()) {
    return OpResult::kWait;
  }
  if (const OpResult reserved = log->Reserve(batch->bytes.size()); reserved != OpResult::kOk) {
    // A burst is faster than new segments are made, or there is no room for them.
    core_->background_event.Set();
    return reserved;
  }
  log->Submit(batch);
  log->Wake();
  uint32_t checksum = 0;
  for (record::Cursor cursor(batch->bytes); cursor.at_record(); cursor.Next()) {
    checksum = cursor.checksum();
  }
  core_->last_checksum[batch->shard].store(checksum, std::memory_order_relaxed);
  const auto bytes = static_cast<int64_t>(batch->bytes.size());
  apply_bytes_->fetch_add(bytes, std::memory_order_relaxed);
  RunOnShard(batch->shard, [batch, bytes, counter = apply_bytes_](shard::Shard& shard) {
    shard.Receive(batch);
    counter->fetch_sub(bytes, std::memory_order_relaxed);
  });
  return OpResult::kOk;
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
  RunOnShard(batch->shard, [this, batch, bytes, counter = apply_bytes_](shard::Shard& shard) {
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

void Follower::OnCommitted(ShardId shard, Seq committed, uint64_t primary_clock_us) {
  core_->record_clock.Follow(primary_clock_us);
  if (sync_) {
    sync_->told[shard] = std::max(sync_->told[shard], committed);
    FinishIfComplete();
  }
  RunOnShard(shard, [committed](shard::Shard& target) {
    if (target.ApplyCommitted(committed) != OpResult::kOk) {
      static base::LogLimiter limiter(10'000'000);
      limiter.Warning("replica: out of memory while applying; raise memory.max_memory");
    }
  });
}

void Follower::OnPrimaryClock(uint64_t primary_clock_us) {
  core_->record_clock.Follow(primary_clock_us);
  FinishIfComplete();
}

void Follower::OnStreamState(StreamState state, Refusal refusal, std::string_view text) {
  state_.store(static_cast<uint8_t>(state), std::memory_order_relaxed);
  std::string line =
      absl::StrFormat("link to primary: %s", std::string(replication::StreamStateName(state)));
  if (refusal != Refusal::kNone) {
    line += absl::StrFormat(" (refused: %s)", std::string(replication::RefusalName(refusal)));
  }
  if (!text.empty()) {
    line += ": " + std::string(text);
  }
  static base::LogLimiter limiter(1'000'000);
  if (refusal != Refusal::kNone) {
    limiter.Warning(line);
  } else {
    base::LogInfo(line);
  }
}

}  // namespace kvstored::server
