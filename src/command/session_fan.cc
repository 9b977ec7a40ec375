// Commands of several shards: parts go to the owners, the replies come together again here. And
// what an op does on its shard's thread.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/multi_key.h"
#include "command/session.h"
#include "command/transaction.h"

namespace kvstored::command {
namespace {

// Home again, on the session's thread.
void Returned(base::Task* task) {
  Op* op = static_cast<Op*>(task);
  op->session->OnReturned(op);
}

void ReturnHome(Op* op) {
  if (!op->remote) {
    op->session->OnReturned(op);
    return;
  }
  op->run = &Returned;
  op->here->thread().Post(op->session->front().index(), op);
}

void Released(shard::Gated* gated) {
  ReturnHome(reinterpret_cast<GateSlot*>(gated)->op);
}

OpResult RunWatchPart(Op* op, shard::Shard* shard) {
  for (const Key& key : op->pack.keys()) {
    op->watches.push_back(shard->Watch(key));
  }
  return OpResult::kOk;
}

OpResult Execute(Op* op, shard::Shard* shard) {
  shard->BeginCommand(op->uses);
  switch (op->kind) {
    case OpKind::kWatchPart:
      return RunWatchPart(op, shard);
    case OpKind::kShardsPart: {
      op->parts.resize(1);
      PartCall call{.shard = shard, .args = op->parent->pack.args(), .part = &op->parts[0]};
      return op->spec->part_handler(call);
    }
    default: {
      resp::Writer writer(&op->reply.bytes, op->protocol);
      ShardCall call{.shard = shard,
                     .args = op->pack.args(),
                     .keys = op->pack.keys(),
                     .reply = &op->reply,
                     .out = &writer,
                     .run = &op->value_run};
      return op->spec->shard_handler(call);
    }
  }
}

}  // namespace

void RunAtShard(base::Task* task) {
  Op* op = static_cast<Op*>(task);
  FrontThread* here = op->here;
  shard::Shard* shard = here->thread().shard(op->shard);
  OpResult result = OpResult::kWait;
  if (!shard->IsHeldByOther(0) && here->MayRun(op)) {
    const int64_t began_us =
        op->remote ? here->TaskBeganUs() : here->set().options().clock->MonotonicUs();
    TrackedRun tracked(&here->tracking(), *op->session);
    if (op->tracked && op->spec != nullptr && (op->spec->flags & kFlagReadonly) != 0) {
      tracked.Reads(op->shard, op->pack.keys());
    }
    result = Execute(op, shard);
    op->elapsed_us += here->TaskEndedUs() - began_us;
  }
  if (result == OpResult::kWait) {
    if (!op->parked) {
      here->NoteParked(op);
      if (!op->remote) {
        op->session->OnLocalParked();
      }
    }
    shard->Park(op);
    return;
  }
  if (op->parked) {
    here->NoteUnparked(op);
    if (!op->remote) {
      op->session->OnLocalUnparked();
    }
  }
  op->result = result;
  if (result != OpResult::kOk && op->kind != OpKind::kShardsPart) {
    resp::Writer writer(&op->reply.bytes, op->protocol);
    WriteOutcome(writer, result);
  }
  if (op->spec != nullptr && (op->spec->flags & kFlagWrite) != 0 && result == OpResult::kOk) {
    op->written = shard->applied();
  }
  const Seq dependency = shard->dependency();
  if (shard->IsCommitted(dependency)) {
    ReturnHome(op);
    return;
  }
  op->gate.op = op;
  op->gate.gated.release = &Released;
  op->gate.gated.dependency = dependency;
  shard->Gate(&op->gate.gated);
}

// Runs a part here, or sends it to the thread that owns its shard (there was room).
void Session::SendPart(Op* part) {
  const uint32_t owner = front_->thread().OwnerOf(part->shard);
  part->here = &front_->set().thread(owner);
  part->run = &RunAtShard;
  part->protocol = static_cast<uint8_t>(protocol_);
  part->tracked = RemembersReads();
  if (owner == front_->index()) {
    RunAtShard(part);
    return;
  }
  part->remote = true;
  ++remote_out_;
  front_->thread().Post(owner, part);
}

Op* Session::NewParent(OpKind kind, const CommandSpec* spec, std::span<const std::string_view> args,
                       uint32_t part_count) {
  Op* parent = front_->NewOp(kind, this);
  parent->spec = spec;
  parent->parts_left = part_count;
  parent->pack.Assign(args, {});
  Enqueue(parent);
  return parent;
}

void Session::OrderKeys(const CommandSpec& spec, std::span<const std::string_view> args) {
  Scratch& scratch = front_->scratch();
  const base::Digester& digester = *front_->set().options().digester;
  const uint32_t shard_count = front_->thread().shard_count();
  scratch.keys.clear();
  scratch.key_order.clear();
  for (const uint32_t at : KeyPositions(spec, args.size())) {
    const Key key{args[at], digester.Of(args[at])};
    scratch.key_order.emplace_back(base::ShardOf(key.digest, shard_count),
                                   static_cast<uint32_t>(scratch.keys.size()));
    scratch.keys.push_back(key);
  }
  std::sort(scratch.key_order.begin(), scratch.key_order.end());
}

bool Session::HasRoomForKeys() {
  const shard::ShardThread& thread = front_->thread();
  for (const auto& [shard, key] : front_->scratch().key_order) {
    if (!front_->IsLocal(shard) && !thread.HasRoom(thread.OwnerOf(shard))) {
      return false;
    }
  }
  return true;
}

namespace {

uint32_t CountShards(const Scratch& scratch) {
  uint32_t count = 0;
  for (size_t i = 0; i < scratch.key_order.size(); ++i) {
    if (i == 0 || scratch.key_order[i].first != scratch.key_order[i - 1].first) {
      ++count;
    }
  }
  return count;
}

// Calls `part(shard)` for each run of keys of one shard, with scratch.part_args = {name,
// keys...}.
template <typename Part>
void ForEachShard(Scratch& scratch, std::string_view name, Part part) {
  for (size_t i = 0; i < scratch.key_order.size();) {
    const ShardId shard = scratch.key_order[i].first;
    scratch.part_args.assign(1, name);
    scratch.part_keys.clear();
    for (; i < scratch.key_order.size() && scratch.key_order[i].first == shard; ++i) {
      const Key& key = scratch.keys[scratch.key_order[i].second];
      scratch.part_args.push_back(key.bytes);
      scratch.part_keys.push_back(key);
    }
    part(shard);
  }
}

}  // namespace

Session::RunResult Session::RunFan(const CommandSpec* spec,
                                   std::span<const std::string_view> args) {
  OrderKeys(*spec, args);
  Scratch& scratch = front_->scratch();
  const uint32_t part_count = CountShards(scratch);
  if (part_count > 1 && (spec->flags & kFlagWrite) != 0) {
    return RunTransaction(spec, args);  // what one shard refuses, all refuse
  }
  if (!HasRoomForKeys()) {
    return NoRoom();
  }
  timed_ = false;
  Op* parent = NewParent(OpKind::kFan, spec, args, part_count);
  ForEachShard(scratch, args[0], [&](ShardId shard) {
    Op* part = front_->NewOp(OpKind::kFanPart, this);
    part->spec = spec;
    part->shard = shard;
    part->parent = parent;
    part->pack.Assign(scratch.part_args, scratch.part_keys);
    SendPart(part);
  });
  return RunResult::kDone;
}

Session::RunResult Session::RunWatch(const CommandSpec* spec,
                                     std::span<const std::string_view> args) {
  if (multi_ != nullptr) {
    Error("ERR WATCH inside MULTI is not allowed");
    return RunResult::kDone;
  }
  OrderKeys(*spec, args);
  if (!HasRoomForKeys()) {
    return NoRoom();
  }
  Scratch& scratch = front_->scratch();
  Op* parent = NewParent(OpKind::kWatch, nullptr, args.first(1), CountShards(scratch));
  ForEachShard(scratch, args[0], [&](ShardId shard) {
    Op* part = front_->NewOp(OpKind::kWatchPart, this);
    part->shard = shard;
    part->parent = parent;
    part->pack.Assign(scratch.part_args, scratch.part_keys);
    SendPart(part);
  });
  return RunResult::kDone;
}

Session::RunResult Session::RunShards(const CommandSpec* spec,
                                      std::span<const std::string_view> args) {
  shard::ShardThread& thread = front_->thread();
  const uint32_t shard_count = thread.shard_count();
  if (shard_count > 1 && (spec->flags & kFlagWrite) != 0) {
    return RunTransaction(spec, args);
  }
  int32_t only_shard = kAllShards;
  for (uint32_t i = 0; i < thread.thread_count(); ++i) {
    if (i != thread.index() && !thread.HasRoom(i)) {
      return NoRoom();
    }
  }
  if (spec->plan_handler != nullptr) {
    const ReplyMark mark = BeginReply();
    if (!spec->plan_handler(*this, args, shard_count, &only_shard)) {
      EndReply(mark);
      return RunResult::kDone;
    }
  }
  timed_ = false;
  const uint32_t part_count = only_shard == kAllShards ? shard_count : 1;
  Op* parent = NewParent(OpKind::kShards, spec, args, part_count);
  parent->parts.resize(part_count);
  for (uint32_t i = 0; i < part_count; ++i) {
    Op* part = front_->NewOp(OpKind::kShardsPart, this);
    part->spec = spec;
    part->shard =
        only_shard == kAllShards ? static_cast<ShardId>(i) : static_cast<ShardId>(only_shard);
    part->part = i;
    part->parent = parent;
    SendPart(part);
  }
  return RunResult::kDone;
}

Session::RunResult Session::RunAtomic(const CommandSpec* spec,
                                      std::span<const std::string_view> args) {
  OrderKeys(*spec, args);
  if ((IsMget(*spec) && TryRunMget(args)) || (IsMset(*spec) && TryRunMset(args))) {
    return RunResult::kDone;
  }
  return RunTransaction(spec, args);
}

// One command on all its shards, or on none.
Session::RunResult Session::RunTransaction(const CommandSpec* spec,
                                           std::span<const std::string_view> args) {
  if (remote_out_ > 0) {
    return Drain();
  }
  Op* op = front_->NewOp(OpKind::kTransaction, this);
  op->spec = spec;
  Enqueue(op);
  auto transaction = std::make_unique<Transaction>(this, op, Transaction::Shape::kOneCommand);
  transaction->Add(spec, args);
  return StartTransaction(std::move(transaction));
}

Session::RunResult Session::RunExec() {
  if (multi_ == nullptr) {
    Error("ERR EXEC without MULTI");
    return RunResult::kDone;
  }
  if (multi_->aborted) {
    DiscardMulti();
    Error("EXECABORT Transaction discarded because of previous errors.");
    return RunResult::kDone;
  }
  if (remote_out_ > 0) {
    return Drain();
  }
  Op* op = front_->NewOp(OpKind::kTransaction, this);
  Enqueue(op);
  auto transaction = std::make_unique<Transaction>(this, op, Transaction::Shape::kExec);
  for (MultiState::Queued& queued : multi_->commands) {
    transaction->Add(queued.spec, std::move(queued.pack));
  }
  transaction->Watch(std::move(watched_));
  DiscardMulti();
  return StartTransaction(std::move(transaction));
}

Session::RunResult Session::StartTransaction(std::unique_ptr<Transaction> transaction) {
  timed_ = false;  // its steps are
  blocked_ |= kBlockedTransaction;
  Op* op = transaction->op();
  op->transaction = std::move(transaction);
  op->transaction->Start();  // the transaction may be gone when this returns
  return RunResult::kDone;
}

}  // namespace kvstored::command
