// Joining, and what flows once this node has joined.
#include "server/follower.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/hex.h"
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
                                  base::ToHex(plan.primary.data_set_id), plan.primary.shard_count));
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
  core_->threads->RunOnShard(batch->shard,
                             [batch, bytes, counter = apply_bytes_](shard::Shard& shard) {
                               shard.Receive(batch);
                               counter->fetch_sub(bytes, std::memory_order_relaxed);
                             });
  return OpResult::kOk;
}

void Follower::OnCommitted(ShardId shard, Seq committed, uint64_t primary_clock_us) {
  core_->record_clock.Follow(primary_clock_us);
  if (sync_) {
    sync_->told[shard] = std::max(sync_->told[shard], committed);
    FinishIfComplete();
  }
  core_->threads->RunOnShard(shard, [committed](shard::Shard& target) {
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
