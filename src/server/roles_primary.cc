// Becoming primary: what was received is applied whole or cut, then one new epoch begins.
#include <memory>
#include <mutex>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "log/txn_cut.h"
#include "server/roles.h"

namespace kvstored::server {

// The greatest cut of what the shards hold that has no transaction in part (P6).
struct Roles::WholeCut {
  explicit WholeCut(uint32_t shard_count) : end(shard_count, 0), tracker(shard_count) {
  }
  std::mutex mutex;
  std::vector<Seq> end;
  log::TxnTracker tracker;
  absl::Status tracked;
  std::vector<Seq> whole;
  std::atomic<bool> out_of_memory{false};
};

void Roles::StartPrimary() {
  state_text_ = "primary: reads only until all members have answered";
  base::LogInfo(state_text_);
  auto operation = std::make_shared<Operation>("consult members", [this](const absl::Status& s) {
    busy_ = false;
    consulting_ = false;
    opening_epoch_ = false;
    if (!s.ok() && !core_->restart_wanted.load(std::memory_order_relaxed)) {
      StepDown(s);
    }
  });
  busy_ = true;
  Operation* steps = operation.get();
  consulting_ = true;
  // What clients were told is here, but the log may name less of it as committed: all of it is
  // applied, so that no reply shows an older state; replies that depend on the rest wait (P9, P10).
  AddApplyWhole(steps, std::make_shared<WholeCut>(core_->shard_count()));
  operation->Then([this] {
    // Alone it serves in a moment: until then writes hear of loading, not of replicas.
    if (ReadsAllowed() && !KnownAddresses().empty()) {
      core_->gate.loading.store(false, std::memory_order_release);
    }
    return Progress::Done();
  });
  AddConsultation(steps);
  AddCut(steps);
  AddOpenEpoch(steps);
  core_->Run(std::move(operation));
}

void Roles::AddApplyWhole(Operation* operation, const std::shared_ptr<WholeCut>& cut) {
  auto left = std::make_shared<std::atomic<uint32_t>>(0);
  operation->Then([this, cut, left] {
    core_->ForEachShard(
        [cut](shard::Shard& shard) {
          const std::lock_guard lock(cut->mutex);
          cut->end[shard.id()] = shard.appended();
          shard.ForEachReceived([&](const record::Cursor& record) {
            cut->tracked.Update(cut->tracker.Add(shard.id(), record));
          });
        },
        left);
    return Progress::Done();
  });
  operation->Then([this, left] { return core_->Wait(left); });
  operation->Then([this, cut, left] {
    if (!cut->tracked.ok()) {
      return Progress::Failed(cut->tracked);
    }
    cut->whole = cut->tracker.WholeCut(cut->end);
#ifdef KVS_TEST_SWITCHES
    cut->whole = core_->seams.plant_half_transaction ? cut->end : cut->whole;
#endif
    core_->ForEachShard(
        [cut](shard::Shard& shard) {
          if (shard.ApplyReceived(cut->whole[shard.id()]) != OpResult::kOk) {
            cut->out_of_memory.store(true, std::memory_order_relaxed);
          }
        },
        left);
    return Progress::Done();
  });
  operation->Then([this, left] { return core_->Wait(left); });
  operation->Then([cut] {
    return cut->out_of_memory.load(std::memory_order_relaxed)
               ? Progress::Failed(absl::ResourceExhaustedError(
                     "out of memory while applying the log; raise memory.max_memory"))
               : Progress::Done();
  });
}

void Roles::AddCut(Operation* operation) {
  auto cut = std::make_shared<WholeCut>(core_->shard_count());
  auto left = std::make_shared<std::atomic<uint32_t>>(0);
  AddApplyWhole(operation, cut);
  // Before memory is cut: log and memory must end alike whatever happens.
  operation->Then([this, cut] {
    return cut->whole == cut->end ? Progress::Done() : AwaitRoom(/*for_cut=*/true);
  });
  operation->Then([this, cut, left] {
    core_->ForEachShard(
        [cut](shard::Shard& shard) {
          const bool cut_ok = shard.CutReceived(cut->whole[shard.id()]);
          KVS_CHECK(cut_ok, "shard=%u", shard.id());
          // A run that is open now is never linked: its primary is gone (P4).
          shard.DropOpenRuns();
        },
        left);
    return Progress::Done();
  });
  operation->Then([this, left] { return core_->Wait(left); });
  operation->Then([this, cut] {
    if (cut->whole == cut->end) {
      return Progress::Done();
    }
    for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
      if (cut->whole[shard] != cut->end[shard]) {
        base::LogWarning(
            absl::StrFormat("shard %d: records %d to %d are cut: they begin with a transaction "
                            "that is not complete "
                            "in all shards, so nobody was told of them",
                            shard, cut->whole[shard] + 1, cut->end[shard]));
      }
    }
    return Progress::From(core_->log()->CutAbove(cut->whole));
  });
}

void Roles::AddOpenEpoch(Operation* operation) {
  auto left = std::make_shared<std::atomic<uint32_t>>(0);
  auto epoch = std::make_shared<Epoch>();
  operation->Then([this] { return AwaitRoom(/*for_cut=*/false); });
  // What was taken over is persistent before anything is built on it.
  operation->Then([this] {
    core_->log()->RequestPersist();
    core_->log()->Wake();
    return Progress::Done();
  });
  operation->Then([this] {
    for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
      if (core_->log()->failed()) {
        return Progress::Failed(absl::InternalError("the log has failed"));
      }
      if (core_->log()->persisted(shard) < core_->log()->appended(shard)) {
        return Progress::Again();
      }
    }
    return Progress::Done();
  });
  operation->Then([this, epoch] {
    epoch->number = core_->identity->NextEpochNumber();
    epoch->id = core_->random.Next();
    std::vector<Seq> first;
    for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
      first.push_back(core_->log()->appended(shard) + 1);
    }
    absl::Status saved = core_->identity->Update([&](log::Meta* meta) {
      meta->role = Role::kPrimary;
      meta->highest_epoch = epoch->number;
      meta->promotable = false;
    });
    if (saved.ok()) {
      saved = core_->identity->AddEpoch(*epoch, first);
    }
    return Progress::From(saved);
  });
  operation->Then([this, epoch, left] {
    core_->record_clock.StopFollowing();
    core_->gate.epoch.store(epoch->number, std::memory_order_release);
    core_->gate.role.store(static_cast<uint8_t>(Role::kPrimary), std::memory_order_release);
    core_->log()->SetPersistEachRound(core_->CountsPersisted());
    core_->replication->BecomePrimary(MembersFromMeta());
    // Transactions of earlier lives are known by no shard: all that is not committed yet passes the
    // watermark in all shards together.
    auto commit = std::make_shared<shard::TxnCommit>(core_->shard_count());
    core_->ForEachShard([epoch, commit](shard::Shard& shard) { shard.BeginEpoch(*epoch, commit); },
                        left);
    return Progress::Done();
  });
  operation->Then([this, left] { return core_->Wait(left); });
  operation->Then([this, epoch] {
    core_->gate.writable.store(true, std::memory_order_release);
    core_->gate.loading.store(false, std::memory_order_release);
    state_text_ = absl::StrFormat("primary, epoch %d", epoch->number);
    base::LogInfo(state_text_);
    unannounced_ = KnownAddresses();
    return Progress::Done();
  });
}

}  // namespace kvstored::server
