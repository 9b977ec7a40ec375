// The coordinator's side: which stage comes next. Everything here on the session's thread.
#include "command/transaction.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/multi_key.h"

namespace kvstored::command {
namespace {

bool IsNull(const Reply& reply) {
  return reply.bytes == "$-1\r\n" || reply.bytes == "_\r\n";
}

}  // namespace

Transaction::Transaction(Session* session, Op* op, Shape shape)
    : session_(session),
      op_(op),
      shape_(shape),
      id_(session->front().set().NextTransactionId()),
      tracked_(session->RemembersReads()),
      bounds_(shape == Shape::kExec) {
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

void Transaction::Start() {
  BuildParts();
  if (threads_.empty()) {
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
    commit_ = std::make_shared<shard::TxnCommit>(closing_.size());
  }
  // Later commands of the connection reach every shard behind the closing stage; what they find of
  // the session, HELLO and CLIENT have changed only when the replies are written.
  if (!changes_session_) {
    LetSessionGoOn();
  }
  BeginAll(Stage::kClose, threads_.size());
}

// Nothing is held any more: whatever is long, only the replies of this connection wait for it.
void Transaction::Compute() {
  for (; compute_at_ < commands_.size() && !session_->is_closed(); ++compute_at_) {
    TransactionCommand& command = *commands_[compute_at_];
    const AtomicSpec* atomic = command.spec->atomic;
    if (atomic != nullptr && atomic->compute != nullptr && !command.parts.empty() &&
        !atomic->compute(command)) {
      compute_task_.transaction = this;
      compute_task_.run = &ComputeMore;
      session_->front().thread().Post(session_->front().index(), &compute_task_);
      return;
    }
  }
  Finish();
}

void Transaction::ComputeMore(base::Task* task) {
  static_cast<ComputeTask*>(task)->transaction->Compute();
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
      Compute();
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
    } else if (bounds_.has_moves()) {
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
    Finish();
    return;
  }
  if (outcome_ == OpResult::kWait) {
    // No space for all of it at once: wait where there was none, holding nothing, and start again.
    for (const auto& thread : threads_) {
      thread->outcome = OpResult::kOk;
    }
    outcome_ = OpResult::kOk;
    bounds_.ForgetValues();
    parts_out_ = 1;
    Begin(Stage::kAwait, threads_[hold_at_].get());
    return;
  }
  Abort(outcome_);
}

void Transaction::LetSessionGoOn() {
  if (!std::exchange(session_goes_on_, true)) {
    session_->OnTransactionClosed();
  }
}

// Refused before anything ran.
void Transaction::Abort(OpResult outcome) {
  LetSessionGoOn();
  resp::Writer writer(&op_->reply.bytes, op_->protocol);
  if (shape_ == Shape::kExec) {
    writer.Error("EXECABORT Transaction discarded because of: " +
                 std::string(OutcomeText(outcome)));
  } else {
    WriteOutcome(writer, outcome);
  }
  NoteExec();
  Session* session = session_;
  Op* op = op_;
  op->transaction.reset();  // this object
  session->OnTransactionDone(op);
}

void Transaction::Finish() {
  if (!session_->is_closed()) {
    WriteReplies();
    NoteExec();
  }
  for (const record::TxnPart& part : closing_) {
    session_->NoteWrite(part.shard, part.last_seq);
  }
  LetSessionGoOn();
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
  // As in Redis, CLIENT REPLY counts from where it stands in EXEC, so that an array may lack its
  // end. The session has waited for this reply: its mode is the one that EXEC began with.
  const auto drop_unwanted = [this](const ReplyMark& mark) {
    if (changes_session_ && session_->reply_mode_ == ReplyMode::kOff) {
      mark.Undo();
    }
  };
  if (shape_ == Shape::kExec) {
    const ReplyMark mark(&op_->reply);
    writer.Array(commands_.size());
    drop_unwanted(mark);
  }
  Clock* clock = session_->front().set().options().clock;
  session_->SetInExec(true);
  for (const auto& command : commands_) {
    const ReplyMark mark(&op_->reply);
    const int64_t began_us = clock->MonotonicUs();
    WriteCommand(command.get());
    NoteCommand(*command, mark.bytes, clock->MonotonicUs() - began_us);
    drop_unwanted(mark);
  }
  session_->SetInExec(false);
  op_->silent = op_->silent && !changes_session_;
}

// `elapsed_us`: of what ran here; its parts say themselves.
void Transaction::NoteCommand(const TransactionCommand& command, size_t reply_at,
                              int64_t elapsed_us) {
  FrontThread& front = session_->front();
  for (const CommandPart& part : command.parts) {
    elapsed_us += part.elapsed_us;
  }
  elapsed_us_ += elapsed_us;
  front.NoteTime(*session_, command.spec, command.pack.args(),
                 static_cast<uint64_t>(elapsed_us) * 1000);
  if (shape_ != Shape::kExec) {
    return;
  }
  const std::string_view reply = std::string_view(op_->reply.bytes).substr(reply_at);
  if (!reply.empty() && reply[0] == '-') {
    front.NoteError(reply);
    front.FiguresOf(command.spec).failed.Add(1);
  }
  if (front.set().is_monitored()) {
    front.NoteForMonitors(*session_, *command.spec, command.pack.args());
  }
}

// EXEC itself, behind its commands.
void Transaction::NoteExec() {
  if (shape_ != Shape::kExec) {
    return;
  }
  FrontThread& front = session_->front();
  const std::array<std::string_view, 1> words = {"EXEC"};
  const CommandSpec* spec = FindCommand(words[0]);
  front.NoteTime(*session_, spec, words, static_cast<uint64_t>(elapsed_us_) * 1000);
  if (front.set().is_monitored()) {
    front.NoteForMonitors(*session_, *spec, words);
  }
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
      // Its shard wrote in the protocol that EXEC began with, and HELLO may have changed that
      // since. Of what shards reply only a null differs.
      if (IsNull(command->parts[0].reply)) {
        writer.Null();
      } else {
        AppendReply(reply, &command->parts[0].reply);
      }
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
