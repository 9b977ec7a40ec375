// The coordinator's side: which stage comes next. Everything here on the session's thread.
#include "command/transaction.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/multi_key.h"
#include "command/numbers.h"
#include "command/strings.h"
#include "command/write_effects.h"

namespace kvstored::command {

CommandPart* TransactionCommand::PartOf(ShardId shard) {
  const auto found =
      std::lower_bound(parts.begin(), parts.end(), shard,
                       [](const CommandPart& part, ShardId wanted) { return part.shard < wanted; });
  return found != parts.end() && found->shard == shard ? &*found : nullptr;
}

Transaction::Transaction(Session* session, Op* op, Shape shape)
    : session_(session), op_(op), shape_(shape), id_(session->front().set().NextTransactionId()) {
}

void Transaction::Add(const CommandSpec* spec, std::span<const std::string_view> args) {
  ArgPack pack;
  pack.Assign(args, {});
  Add(spec, std::move(pack));
}

void Transaction::Add(const CommandSpec* spec, ArgPack pack) {
  auto command = std::make_unique<TransactionCommand>();
  command->spec = spec;
  command->pack = std::move(pack);
  commands_.push_back(std::move(command));
}

// Digests of the command's keys, and one part for each of their shards.
void Transaction::SplitKeys(TransactionCommand* command) {
  const std::span<const std::string_view> args = command->pack.args();
  const base::Digester& digester = *session_->front().set().options().digester;
  const uint32_t shard_count = session_->front().thread().shard_count();
  for (const uint32_t at : KeyPositions(*command->spec, args.size())) {
    const Key key{args[at], digester.Of(args[at])};
    command->keys.push_back(key);
    command->key_shards.push_back(base::ShardOf(key.digest, shard_count));
  }
  std::vector<ShardId> shards = command->key_shards;
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  for (const ShardId shard : shards) {
    command->parts.emplace_back().shard = shard;
  }
  for (uint32_t i = 0; i < command->keys.size(); ++i) {
    CommandPart* part = command->PartOf(command->key_shards[i]);
    part->key_indices.push_back(i);
    part->keys.push_back(command->keys[i]);
  }
}

void Transaction::PlanCommand(TransactionCommand* command) {
  const CommandSpec& spec = *command->spec;
  const std::span<const std::string_view> args = command->pack.args();
  resp::Writer error(&command->error, op_->protocol);
  const bool writes = (spec.flags & kFlagWrite) != 0;
  if (spec.reach == Reach::kSession ||
      (spec.reach == Reach::kKey && args.size() <= static_cast<size_t>(spec.first_key))) {
    return;
  }
  if (spec.reach == Reach::kShards) {
    const uint32_t shard_count = session_->front().thread().shard_count();
    int32_t only_shard = kAllShards;
    bool planned = true;
    if (spec.plan_handler != nullptr) {
      session_->WriteInto(
          op_, [&] { planned = spec.plan_handler(*session_, args, shard_count, &only_shard); });
      std::swap(command->error, op_->reply.bytes);
      op_->reply.bytes.clear();
    }
    for (uint32_t i = 0; planned && i < shard_count; ++i) {
      if (only_shard == kAllShards || static_cast<uint32_t>(only_shard) == i) {
        CommandPart& part = command->parts.emplace_back();
        part.shard = static_cast<ShardId>(i);
        part.record_count = writes ? 1 : 0;
      }
    }
    return;
  }
  SplitKeys(command);
  if (spec.reach == Reach::kAtomic) {
    if (!spec.atomic->plan(*command, error)) {
      command->parts.clear();
    }
    return;
  }
  PlanKeyCommand(command);
}

namespace {

// A number that a command makes of its words; INCRBYFLOAT's may have 5,000 digits.
uint64_t NumberBytesMax(const CommandSpec& spec) {
  return spec.shard_handler == &HandleIncrByFloat ? 5200 : 64;
}

// What SETRANGE fills up before its bytes; nothing where it will refuse.
uint64_t GapBytes(const CommandSpec& spec, std::span<const std::string_view> args) {
  int64_t offset = 0;
  if (spec.shard_handler != &HandleSetRange || args.size() < 4 || args[3].empty() ||
      !ParseInt64(args[2], &offset) || offset < 0) {
    return 0;
  }
  const auto gap_bytes = static_cast<uint64_t>(offset);
  return gap_bytes <= kValueBytesMax && args[3].size() <= kValueBytesMax - gap_bytes ? gap_bytes
                                                                                     : 0;
}

}  // namespace

void Transaction::PlanKeyCommand(TransactionCommand* command) {
  const CommandSpec& spec = *command->spec;
  const std::span<const std::string_view> args = command->pack.args();
  for (CommandPart& part : command->parts) {
    if (spec.reach == Reach::kFanSum) {
      part.args.push_back(args[0]);
      for (const Key& key : part.keys) {
        part.args.push_back(key.bytes);
      }
    } else {
      part.args.assign(args.begin(), args.end());
    }
    part.runs.resize(1);
    if ((spec.flags & kFlagWrite) == 0) {
      continue;
    }
    // A key's command writes one record, or two where a value replaces an expired item.
    part.record_count = 2 * static_cast<uint32_t>(part.keys.size());
    uint64_t bytes = NumberBytesMax(spec) * part.keys.size() + GapBytes(spec, args);
    for (const std::string_view& arg : part.args) {
      bytes += arg.size();
    }
    part.record_bytes = NeedsRun(bytes)
                            ? RunBytesMax(bytes, part.keys.empty() ? 0 : part.keys[0].bytes.size())
                            : bytes;
    part.memory_bytes = (spec.flags & kFlagDenyOom) != 0 ? bytes : 0;
    // Too much for a delta: the whole value is written anew, with what was there.
    part.moves_value = NeedsRun(bytes) && (spec.shard_handler == &HandleAppend ||
                                           spec.shard_handler == &HandleSetRange);
  }
}

Transaction::ShardPart* Transaction::PartOf(ShardId shard) {
  FrontThread& home = session_->front();
  FrontThread& owner = home.set().thread(home.thread().OwnerOf(shard));
  auto thread = std::find_if(threads_.begin(), threads_.end(),
                             [&owner](const auto& part) { return part->front == &owner; });
  if (thread == threads_.end()) {
    auto part = std::make_unique<ThreadPart>();
    part->transaction = this;
    part->front = &owner;
    thread = threads_.insert(threads_.end(), std::move(part));
  }
  for (const auto& part : (*thread)->shards) {
    if (part->shard == shard) {
      return part.get();
    }
  }
  auto part = std::make_unique<ShardPart>();
  part->shard = shard;
  part->owner = thread->get();
  part->gated.release = &Released;
  (*thread)->shards.push_back(std::move(part));
  return (*thread)->shards.back().get();
}

void Transaction::AddBounds(const CommandPart& part, ShardPart* shard) {
  shard->record_count += part.record_count;
  shard->record_bytes += part.record_bytes;
  memory_bytes_ += part.memory_bytes;
  if (!is_exec()) {
    return;  // large values are in the log when the shards are taken; what moves is reserved then
  }
  shard->record_bytes += part.run_bytes;
  memory_bytes_ += part.run_bytes;
  if (part.moves_value) {
    ++shard->move_count;
    ++move_count_;
    for (const Key& key : part.keys) {
      moved_key_bytes_max_ = std::max<uint64_t>(moved_key_bytes_max_, key.bytes.size());
    }
    copy_count_ += (commands_[part.command]->spec->flags & kFlagDenyOom) != 0 ? 1 : 0;
  }
}

void Transaction::BuildParts() {
  uint32_t phase = 0;
  for (size_t i = 0; i < commands_.size(); ++i) {
    TransactionCommand* command = commands_[i].get();
    PlanCommand(command);
    // A command of several phases ends them where the next one may begin: on a shard, steps of one
    // phase run in the order of commands.
    command->first_phase = phase;
    phase += command->phase_count - 1;
    writes_ = writes_ || (command->spec->flags & kFlagWrite) != 0;
    for (CommandPart& part : command->parts) {
      part.command = static_cast<uint32_t>(i);
      ShardPart* shard = PartOf(part.shard);
      shard->steps.push_back(&part);
      AddBounds(part, shard);
    }
    if (is_exec()) {
      for (const std::string_view& arg : command->pack.args()) {
        added_bytes_ += arg.size();
      }
      added_bytes_ +=
          NumberBytesMax(*command->spec) + GapBytes(*command->spec, command->pack.args());
    }
  }
  phase_count_ = phase + 1;
  for (const WatchedKey& watched : watched_) {
    PartOf(watched.shard)->watched.push_back(&watched);
  }
  // One order for all transactions, by thread and then by number, so that two never wait for each
  // other; by thread first, because then each thread is visited once.
  std::sort(threads_.begin(), threads_.end(),
            [](const auto& a, const auto& b) { return a->front->index() < b->front->index(); });
  for (const auto& thread : threads_) {
    shard_count_ += thread->shards.size();
    std::sort(thread->shards.begin(), thread->shards.end(),
              [](const auto& a, const auto& b) { return a->shard < b->shard; });
  }
}

void Transaction::Start() {
  BuildParts();
  if (threads_.empty()) {
    session_->OnTransactionClosed();
    Finish();
    return;
  }
  const bool prepares =
      shape_ == Shape::kOneCommand &&
      std::any_of(commands_.begin(), commands_.end(), [](const auto& c) { return c->prepares; });
  if (prepares) {
    BeginAll(Stage::kPrepare, threads_.size());
  } else {
    hold_at_ = 0;
    HoldNext();
  }
}

// Sends a part to its thread, or runs it here at once.
void Transaction::Begin(Stage stage, ThreadPart* part) {
  part->stage = stage;
  part->shard_at = 0;
  part->step_at = 0;
  part->run = &RunStage;
  FrontThread& home = session_->front();
  if (part->front == &home) {
    RunStage(part);
  } else {
    home.thread().Post(part->front->index(), part);
  }
}

// The first `count` threads do `stage` side by side. Ours comes last, since it may end the
// transaction before this returns.
void Transaction::BeginAll(Stage stage, size_t count) {
  parts_out_ = count;
  ThreadPart* ours = nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (threads_[i]->front == &session_->front()) {
      ours = threads_[i].get();
    } else {
      Begin(stage, threads_[i].get());
    }
  }
  if (ours != nullptr) {
    Begin(stage, ours);
  }
}

void Transaction::HoldNext() {
  parts_out_ = 1;
  Begin(Stage::kHold, threads_[hold_at_].get());
}

void Transaction::RunPhase() {
  parts_out_ = threads_.size();
  BeginAll(Stage::kRun, threads_.size());
}

void Transaction::Close() {
  for (const auto& thread : threads_) {
    for (const auto& shard : thread->shards) {
      if (shard->has_records) {
        closing_.push_back({shard->shard, shard->end_seq});
      }
    }
  }
  std::sort(closing_.begin(), closing_.end(),
            [](const auto& a, const auto& b) { return a.shard < b.shard; });
  if (closing_.size() > 1) {
    commit_ = std::make_shared<shard::TxnCommit>();
    commit_->id = id_;
    commit_->parts_left.store(static_cast<uint32_t>(closing_.size()), std::memory_order_relaxed);
  }
  // Later commands of the connection reach every shard behind the closing stage.
  session_->OnTransactionClosed();
  BeginAll(Stage::kClose, threads_.size());
}

void Transaction::StageDone(base::Task* task) {
  auto* part = static_cast<ThreadPart*>(task);
  part->transaction->OnStageDone(part);
}

void Transaction::OnStageDone(ThreadPart* part) {
  if (part->outcome != OpResult::kOk && outcome_ == OpResult::kOk) {
    outcome_ = part->outcome;
  }
  watch_failed_ = watch_failed_ || part->watch_failed;
  KVS_CHECK(parts_out_ > 0, "stage=%d", static_cast<int>(part->stage));
  if (--parts_out_ > 0) {
    return;
  }
  switch (part->stage) {
    case Stage::kPrepare:
      if (outcome_ != OpResult::kOk) {
        Abort(outcome_);
        return;
      }
      hold_at_ = 0;
      HoldNext();
      return;
    case Stage::kHold:
      AfterHold(part);
      return;
    case Stage::kReserve:
      AfterReserve();
      return;
    case Stage::kAwait:
      hold_at_ = 0;
      HoldNext();
      return;
    case Stage::kRun:
      if (++phase_ < phase_count_) {
        RunPhase();
      } else {
        Close();
      }
      return;
    case Stage::kClose:
      Finish();
      return;
    case Stage::kRelease:
      AfterRelease();
      return;
  }
}

void Transaction::AfterHold(ThreadPart* part) {
  if (part->outcome == OpResult::kOk && !part->watch_failed) {
    if (++hold_at_ < threads_.size()) {
      HoldNext();
    } else if (move_count_ > 0) {
      BeginAll(Stage::kReserve, threads_.size());
    } else {
      phase_ = 0;
      RunPhase();
    }
    return;
  }
  // It has let go of its own shards already; those of the threads before it are still held.
  if (hold_at_ > 0) {
    BeginAll(Stage::kRelease, hold_at_);
  } else {
    AfterRelease();
  }
}

void Transaction::AfterReserve() {
  if (outcome_ == OpResult::kOk) {
    phase_ = 0;
    RunPhase();
    return;
  }
  for (hold_at_ = 0; threads_[hold_at_]->outcome != outcome_; ++hold_at_) {
  }
  BeginAll(Stage::kRelease, threads_.size());
}

void Transaction::AfterRelease() {
  if (watch_failed_) {
    session_->OnTransactionClosed();
    Finish();
    return;
  }
  if (outcome_ == OpResult::kWait) {
    // No space for all of it at once: wait where there was none, holding nothing, and start again.
    for (const auto& thread : threads_) {
      thread->outcome = OpResult::kOk;
    }
    outcome_ = OpResult::kOk;
    value_bytes_max_ = 0;
    parts_out_ = 1;
    Begin(Stage::kAwait, threads_[hold_at_].get());
    return;
  }
  Abort(outcome_);
}

// Refused before anything ran.
void Transaction::Abort(OpResult outcome) {
  session_->OnTransactionClosed();
  resp::Writer writer(&op_->reply.bytes, op_->protocol);
  if (shape_ == Shape::kExec) {
    writer.Error("EXECABORT Transaction discarded because of: " +
                 std::string(OutcomeText(outcome)));
  } else {
    WriteOutcome(writer, outcome);
  }
  Session* session = session_;
  Op* op = op_;
  op->transaction.reset();  // this object
  session->OnTransactionDone(op);
}

void Transaction::Finish() {
  if (!session_->is_closed()) {
    WriteReplies();
  }
  for (const record::TxnPart& part : closing_) {
    session_->NoteWrite(part.shard, part.last_seq);
  }
  Session* session = session_;
  Op* op = op_;
  op->transaction.reset();  // this object
  session->OnTransactionDone(op);
}

void Transaction::WriteReplies() {
  resp::Writer writer(&op_->reply.bytes, op_->protocol);
  if (watch_failed_) {
    writer.NullArray();
    return;
  }
  if (shape_ == Shape::kExec) {
    writer.Array(commands_.size());
  }
  session_->SetInExec(true);
  for (const auto& command : commands_) {
    WriteCommand(command.get());
  }
  session_->SetInExec(false);
}

void Transaction::WriteCommand(TransactionCommand* command) {
  Reply* reply = &op_->reply;
  if (!command->error.empty()) {
    reply->bytes += command->error;
    return;
  }
  resp::Writer writer(&reply->bytes, op_->protocol);
  const CommandSpec& spec = *command->spec;
  const std::span<const std::string_view> args = command->pack.args();
  if (shape_ == Shape::kExec) {
    session_->front().FiguresOf(&spec).calls.Add(1);
    session_->front().figures().commands_run.Add(1);
  }
  if (command->parts.empty()) {
    session_->WriteInto(op_, [&] { spec.session_handler(*session_, args); });
    return;
  }
  for (const CommandPart& part : command->parts) {
    if (part.result != OpResult::kOk) {
      WriteOutcome(writer, part.result);
      return;
    }
  }
  switch (spec.reach) {
    case Reach::kSession:
      return;
    case Reach::kKey:
      AppendReply(reply, &command->parts[0].reply);
      return;
    case Reach::kFanSum: {
      int64_t sum = 0;
      for (const CommandPart& part : command->parts) {
        sum += std::strtoll(part.reply.bytes.c_str() + 1, nullptr, 10);
      }
      writer.Integer(sum);
      return;
    }
    case Reach::kShards: {
      std::vector<std::string> blobs;
      for (CommandPart& part : command->parts) {
        blobs.push_back(std::move(part.blob));
      }
      session_->WriteInto(op_, [&] { spec.merge_handler(*session_, args, blobs); });
      return;
    }
    case Reach::kAtomic:
      spec.atomic->finish(*command, reply, writer);
      return;
  }
}

}  // namespace kvstored::command
