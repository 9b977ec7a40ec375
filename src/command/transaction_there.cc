// What a transaction does on the threads of its shards.
#include <algorithm>

#include "base/check.h"
#include "command/front_thread.h"
#include "command/multi_key.h"
#include "command/transaction.h"

namespace kvstored::command {

void Transaction::RunStage(base::Task* task) {
  auto* part = static_cast<ThreadPart*>(task);
  Transaction* self = part->transaction;
  switch (part->stage) {
    case Stage::kPrepare:
      if (self->PrepareThere(part)) {
        Complete(part);
      }
      return;
    case Stage::kHold:
      if (self->HoldThere(part)) {
        Complete(part);
      }
      return;
    case Stage::kReserve:
      self->ReserveThere(part);
      Complete(part);
      return;
    case Stage::kAwait:
      if (part->awaiting) {
        part->awaiting = false;
        Complete(part);
      } else {
        part->awaiting = true;
        part->front->thread().shard(part->shards[part->wait_at]->shard)->Park(part);
      }
      return;
    case Stage::kRun:
      if (self->RunThere(part)) {
        Complete(part);
      }
      return;
    case Stage::kClose:
      self->CloseThere(part);
      return;
    case Stage::kRelease:
      self->ReleaseThere(part);
      Complete(part);
      return;
  }
}

// Nothing of the part is touched here after this call.
void Transaction::Complete(ThreadPart* part) {
  FrontThread& home = part->transaction->session_->front();
  if (part->front == &home) {
    part->transaction->OnStageDone(part);
    return;
  }
  part->run = &StageDone;
  part->front->thread().Post(home.index(), part);
}

// False in all of these: it waits at a shard, which will run it again.

bool Transaction::PrepareThere(ThreadPart* part) {
  for (; part->shard_at < part->shards.size(); ++part->shard_at, part->step_at = 0) {
    ShardPart* shard_part = part->shards[part->shard_at].get();
    shard::Shard* shard = part->front->thread().shard(shard_part->shard);
    for (; part->step_at < shard_part->steps.size(); ++part->step_at) {
      CommandPart* step = shard_part->steps[part->step_at];
      TransactionCommand* command = commands_[step->command].get();
      if (!command->prepares) {
        continue;
      }
      AtomicStep call{.shard = shard, .command = command, .part = step};
      const OpResult result =
          shard->IsHeldByOther(id_) ? OpResult::kWait : command->spec->atomic->prepare(call);
      if (result == OpResult::kWait) {
        shard->Park(part);
        return false;
      }
      if (result != OpResult::kOk) {
        part->outcome = result;
        return true;
      }
    }
  }
  return true;
}

bool Transaction::HoldThere(ThreadPart* part) {
  for (; part->shard_at < part->shards.size(); ++part->shard_at) {
    ShardPart* shard_part = part->shards[part->shard_at].get();
    shard::Shard* shard = part->front->thread().shard(shard_part->shard);
    if (!shard->TryHold(id_)) {
      shard->Park(part);
      return false;
    }
    shard_part->held = true;
    shard_part->dependency = 0;
    shard->BeginCommand();
    for (const WatchedKey* watched : shard_part->watched) {
      const Key key{watched->bytes, watched->digest};
      if (shard->IsTouched(key, watched->watch)) {
        // The answer tells that the key changed: it waits until the change is committed (P9).
        shard->Peek(key);
        shard_part->dependency = shard->dependency();
        part->watch_failed = true;
      }
    }
    if (!part->watch_failed && bounds_.has_moves()) {
      SeeValues(shard, *shard_part);
    } else if (!part->watch_failed) {
      part->outcome = bounds_.Reserve(shard, shard_part->bounds, shard_count_);
    }
    if (part->outcome != OpResult::kOk) {
      part->wait_at = part->shard_at;
      ReleaseThere(part);
      return true;
    }
    if (part->watch_failed) {
      ReleaseThere(part);
      part->gates_left = 0;
      GateThere(part, shard_part, shard);
      return part->gates_left == 0;
    }
  }
  return true;
}

// What the commands of this shard might move: threads take their shards one after the other.
void Transaction::SeeValues(shard::Shard* shard, const ShardPart& part) {
  for (const CommandPart* step : part.steps) {
    const std::vector<CommandPart>& parts = commands_[step->command]->parts;
    const bool moves = std::any_of(parts.begin(), parts.end(),
                                   [](const CommandPart& other) { return other.moves_value; });
    for (size_t i = 0; moves && i < step->keys.size(); ++i) {
      const store::Item* item = shard->store()->Find(step->keys[i]);
      bounds_.SeeValue(item == nullptr ? 0 : item->value_bytes());
    }
  }
}

void Transaction::ReserveThere(ThreadPart* part) {
  for (part->wait_at = 0; part->wait_at < part->shards.size(); ++part->wait_at) {
    const ShardPart& shard_part = *part->shards[part->wait_at];
    part->outcome = bounds_.Reserve(part->front->thread().shard(shard_part.shard),
                                    shard_part.bounds, shard_count_);
    if (part->outcome != OpResult::kOk) {
      return;
    }
  }
}

OpResult Transaction::RunStep(shard::Shard* shard, CommandPart* part) {
  TransactionCommand* command = commands_[part->command].get();
  const CommandSpec& spec = *command->spec;
  shard->BeginCommand(op_->uses);
  switch (spec.reach) {
    case Reach::kShards: {
      PartCall call{
          .shard = shard, .args = command->pack.args(), .part = &part->blob, .force = true};
      return spec.part_handler(call);
    }
    case Reach::kAtomic: {
      AtomicStep call{.shard = shard,
                      .command = command,
                      .part = part,
                      .phase = phase_ - command->first_phase,
                      .force = shape_ == Shape::kExec};
      return spec.atomic->step(call);
    }
    case Reach::kSession:
    case Reach::kKey:
    case Reach::kFanSum:
      break;
  }
  resp::Writer writer(&part->reply.bytes, op_->protocol);
  ShardCall call{.shard = shard,
                 .args = part->args,
                 .keys = part->keys,
                 .reply = &part->reply,
                 .out = &writer,
                 .run = &part->runs[0],
                 .force = true};
  return spec.shard_handler(call);
}

bool Transaction::RunThere(ThreadPart* part) {
  for (; part->shard_at < part->shards.size(); ++part->shard_at, part->step_at = 0) {
    ShardPart* shard_part = part->shards[part->shard_at].get();
    shard::Shard* shard = part->front->thread().shard(shard_part->shard);
    if (writes_ && !shard_part->begun) {
      shard->BeginTxn(id_);
      shard_part->begun = true;
    }
    for (; part->step_at < shard_part->steps.size(); ++part->step_at) {
      CommandPart* step = shard_part->steps[part->step_at];
      const TransactionCommand& command = *commands_[step->command];
      if (phase_ < command.first_phase || phase_ >= command.first_phase + command.phase_count ||
          step->result != OpResult::kOk) {
        continue;
      }
      Clock* clock = part->front->set().options().clock;
      const int64_t began_us = clock->MonotonicUs();
      TrackedRun tracked(&part->front->tracking(), *session_);
      if (tracked_ && (command.spec->flags & kFlagReadonly) != 0) {
        tracked.Reads(shard_part->shard, step->keys);
      }
      const OpResult result = RunStep(shard, step);
      step->elapsed_us += clock->MonotonicUs() - began_us;
      if (result == OpResult::kWait) {
        shard->Park(part);
        return false;
      }
      step->result = result;
      shard_part->dependency = std::max(shard_part->dependency, shard->dependency());
    }
    shard_part->has_records = shard_part->begun && shard->TxnHasRecords();
    shard_part->end_seq = shard->TxnEndSeq();
  }
  return true;
}

void Transaction::CloseThere(ThreadPart* part) {
  part->gates_left = 1;  // ours, until all shards are through
  for (const auto& shard_part : part->shards) {
    shard::Shard* shard = part->front->thread().shard(shard_part->shard);
    if (shard_part->has_records) {
      KVS_CHECK(shard->TxnEndSeq() == shard_part->end_seq, "shard=%u end=%lu listed=%lu",
                shard_part->shard, shard->TxnEndSeq(), shard_part->end_seq);
      shard->EndTxn(closing_, commit_);
      shard_part->dependency = std::max(shard_part->dependency, shard_part->end_seq);
    } else if (shard_part->begun) {
      shard->AbandonTxn();
    }
    shard->ReleaseHold(id_);
    shard_part->held = false;
    GateThere(part, shard_part.get(), shard);
  }
  if (--part->gates_left == 0) {
    Complete(part);
  }
}

void Transaction::GateThere(ThreadPart* part, ShardPart* shard_part, shard::Shard* shard) {
  if (shard->IsCommitted(shard_part->dependency)) {
    return;
  }
  ++part->gates_left;
  shard_part->gated.dependency = shard_part->dependency;
  shard->Gate(&shard_part->gated);
}

void Transaction::Released(shard::Gated* gated) {
  ThreadPart* part = reinterpret_cast<ShardPart*>(gated)->owner;
  if (--part->gates_left == 0) {
    Complete(part);
  }
}

void Transaction::ReleaseThere(ThreadPart* part) {
  for (const auto& shard_part : part->shards) {
    if (shard_part->held) {
      part->front->thread().shard(shard_part->shard)->ReleaseHold(id_);
      shard_part->held = false;
    }
  }
}

}  // namespace kvstored::command
