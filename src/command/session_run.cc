// One command: refused, queued for EXEC, run here, or sent to the shard that owns its key.
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "command/connection_commands.h"
#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/server_commands.h"
#include "command/session.h"
#include "command/watch_commands.h"

namespace kvstored::command {
namespace {

// Replies of one connection under way; more than that would only fill memory.
constexpr uint32_t kQueuedOpsMax = 4096;

// Forgets watched keys: what an earlier WATCH asks of other threads must be back.
bool ForgetsWatches(const CommandSpec& spec) {
  const std::string_view name = spec.name;
  return name == "unwatch" || name == "discard" || name == "reset";
}

}  // namespace

Session::RunResult Session::NoRoom() {
  blocked_ |= kBlockedRoom;
  front_->NoteNoRoom(this);
  return RunResult::kBlocked;
}

// Waits until the earlier commands of this connection have come back.
Session::RunResult Session::Drain() {
  blocked_ |= kBlockedDrain;
  return RunResult::kBlocked;
}

bool Session::IsStoppedByPause(const CommandSpec& spec) const {
  const shard::NodeGate& gate = *front_->set().options().gate;
  // Operators' tools go on, and whoever wants to leave may.
  if (!gate.IsPaused(front_->thread().now_us()) || spec.session_handler == &HandleQuit ||
      spec.session_handler == &HandleKvstored) {
    return false;
  }
  const uint32_t flags = multi_ != nullptr && IsExec(spec) ? multi_->flags : spec.flags;
  return gate.pauses_all.load(std::memory_order_relaxed) || (flags & kFlagWrite) != 0;
}

Session::RunResult Session::Pause() {
  blocked_ |= kBlockedPause;
  front_->NotePaused(this);
  return RunResult::kBlocked;
}

bool Session::PollPause() {
  const shard::NodeGate& gate = *front_->set().options().gate;
  if (gate.IsPaused(front_->thread().now_us()) && connection_ != nullptr) {
    return false;
  }
  Unblock(kBlockedPause);
  return true;
}

bool Session::RetryRoom() {
  const shard::ShardThread& thread = front_->thread();
  bool room = queue_.size() < kQueuedOpsMax;
  for (uint32_t i = 0; i < thread.thread_count(); ++i) {
    room = room && (i == thread.index() || thread.HasRoom(i));
  }
  if (room || connection_ == nullptr) {
    Unblock(kBlockedRoom);
    return true;
  }
  return false;
}

Session::RunResult Session::Run(const CommandSlice& slice, std::span<const std::string_view> args) {
  const CommandSpec* spec = slice.spec;
  if (queue_.size() >= kQueuedOpsMax) {
    return NoRoom();
  }
  RunResult result = RunResult::kDone;
  bool ran = true;
  const shard::NodeGate& gate = *front_->set().options().gate;
  if (spec != nullptr && IsWellFormed(*spec, args) && multi_ == nullptr && !monitoring_ &&
      GateOutcome(gate, spec->flags) == OpResult::kOk &&
      !gate.IsPaused(front_->thread().now_us()) &&
      (authenticated_ || !front_->set().settings().NeedsPassword())) {
    result = Dispatch(slice, args);
  } else if (const std::string refusal = Refusal(spec, args); !refusal.empty()) {
    Refuse(spec, args, refusal);
    ran = false;
  } else if (IsStoppedByPause(*spec)) {
    return Pause();
  } else if (multi_ != nullptr && !RunsInsideMulti(*spec)) {
    Queue(spec, args);
    ran = false;
  } else {
    result = Dispatch(slice, args);
  }
  if (result == RunResult::kBlocked) {
    return result;
  }
  ++commands_run_;
  // A transaction shows EXEC behind its commands.
  if (front_->set().is_monitored() && ran && (timed_ || !IsExec(*spec))) {
    front_->NoteForMonitors(*this, *spec, args);
  }
  if (tracking_ != nullptr && multi_ == nullptr &&
      (spec == nullptr || spec->session_handler != &HandleClient)) {
    tracking_->caching = false;
  }
  if (spec != nullptr) {
    last_command_ = spec;
  }
  if (reply_mode_ == ReplyMode::kSkip) {
    reply_mode_ = ReplyMode::kOn;
  } else if (reply_mode_ == ReplyMode::kSkipNext) {
    reply_mode_ = ReplyMode::kSkip;
  }
  return result;
}

Session::RunResult Session::Dispatch(const CommandSlice& slice,
                                     std::span<const std::string_view> args) {
  const CommandSpec* spec = slice.spec;
  const uint64_t errors_before = front_->figures().error_replies.value();
  RunResult result = RunResult::kDone;
  timed_ = true;
  switch (spec->reach) {
    case Reach::kSession:
      result = RunSession(spec, args);
      break;
    case Reach::kKey:
      // OBJECT HELP and the like have no key.
      result = slice.keyed ? RunKey(spec, args, slice.key, slice.shard) : RunSession(spec, args);
      break;
    case Reach::kFanSum:
      result = slice.keyed ? RunKey(spec, args, slice.key, slice.shard) : RunFan(spec, args);
      break;
    case Reach::kShards:
      result = RunShards(spec, args);
      break;
    case Reach::kAtomic:
      result = RunAtomic(spec, args);
      break;
  }
  if (result == RunResult::kDone) {
    CommandFigures& figures = front_->FiguresOf(spec);
    figures.calls.Add(1);
    front_->figures().commands_run.Add(1);
    if (front_->figures().error_replies.value() != errors_before) {
      figures.failed.Add(1);
    }
  }
  return result;
}

std::string Session::Refusal(const CommandSpec* spec, std::span<const std::string_view> args) {
  std::string error = RefusalOf(spec, args);
  if (!error.empty()) {
    return error;
  }
  if (spec->session_handler == &HandleDebug) {
    if (std::string refusal = DebugRefusal(*this); !refusal.empty()) {
      return refusal;
    }
  }
  if (!authenticated_ && front_->set().settings().NeedsPassword() &&
      (spec->flags & kFlagNoAuth) == 0) {
    return "NOAUTH Authentication required.";
  }
  if (multi_ != nullptr && (spec->flags & kFlagNoMulti) != 0 && !RunsInsideMulti(*spec)) {
    return "ERR Command not allowed inside a transaction";
  }
  // EXEC writes if a command that it runs does.
  const uint32_t flags = multi_ != nullptr && IsExec(*spec) ? multi_->flags : spec->flags;
  if (monitoring_ && (flags & (kFlagWrite | kFlagReadonly)) != 0) {
    return "ERR Replica can't interact with the keyspace";
  }
  const OpResult outcome = GateOutcome(*front_->set().options().gate, flags);
  return outcome == OpResult::kOk ? std::string() : std::string(OutcomeText(outcome));
}

void Session::Refuse(const CommandSpec* spec, std::span<const std::string_view> args,
                     const std::string& refusal) {
  if (spec == nullptr && IsHttp(args[0])) {
    static base::LogLimiter limiter(10'000'000);
    limiter.Warning(absl::StrFormat(
        "Possible SECURITY ATTACK detected: %s sent a POST or Host: command, as a browser that was "
        "made to speak to this port would; connection closed",
        peer_));
    blocked_ |= kBlockedClosing;
    CloseNow();
    return;
  }
  if (spec != nullptr) {
    front_->FiguresOf(spec).rejected.Add(1);
  }
  if (multi_ != nullptr && spec != nullptr && IsExec(*spec)) {
    DiscardMulti();
    Error("EXECABORT Transaction discarded because of: " + refusal);
    return;
  }
  if (multi_ != nullptr) {
    multi_->aborted = true;
  }
  Error(refusal);
}

void Session::Queue(const CommandSpec* spec, std::span<const std::string_view> args) {
  for (const std::string_view& arg : args) {
    multi_->bytes += arg.size();
  }
  if (multi_->bytes > kMultiBytesMax) {
    multi_->aborted = true;
    multi_->commands.clear();
    Error("ERR queued commands exceed 1 GiB");
    return;
  }
  if (!multi_->aborted) {
    MultiState::Queued& queued = multi_->commands.emplace_back();
    queued.spec = spec;
    queued.pack.Assign(args, {});
    multi_->flags |= spec->flags & kFlagWrite;
    if ((spec->flags & kFlagLoading) == 0) {
      multi_->flags &= ~kFlagLoading;
    }
  }
  const ReplyMark mark = BeginReply();
  out_.Simple("QUEUED");
  EndReply(mark);
}

Session::RunResult Session::RunSession(const CommandSpec* spec,
                                       std::span<const std::string_view> args) {
  if (spec->session_handler == nullptr) {
    return IsExec(*spec) ? RunExec() : RunWatch(spec, args);
  }
  const bool waits =
      spec->session_handler == &HandleWait || spec->session_handler == &HandleWaitAof;
  if ((waits && !queue_.empty()) || (ForgetsWatches(*spec) && remote_out_ > 0)) {
    return Drain();
  }
  const ReplyMark mark = BeginReply();
  deferred_ = false;
  spec->session_handler(*this, args);
  if (!std::exchange(deferred_, false)) {
    EndReply(mark);
  }
  return RunResult::kDone;
}

Session::RunResult Session::RunKey(const CommandSpec* spec, std::span<const std::string_view> args,
                                   const Key& key, ShardId shard_id) {
  const bool local = front_->IsLocal(shard_id);
  shard::Run run;
  if (local) {
    shard::Shard* shard = front_->thread().shard(shard_id);
    OpResult result = OpResult::kWait;
    const ReplyMark mark = BeginReply();
    if (!shard->IsHeldByOther(0)) {
      shard->BeginCommand(uses_keys_);
      TrackedRun tracked(&front_->tracking(), *this);
      if (RemembersReads() && (spec->flags & kFlagReadonly) != 0) {
        tracked.Reads(shard_id, {&key, 1});
      }
      ShardCall call{.shard = shard,
                     .args = args,
                     .keys = {&key, 1},
                     .reply = mark.reply,
                     .out = &out_,
                     .run = &run};
      result = spec->shard_handler(call);
    }
    if (result != OpResult::kWait) {
      if (result != OpResult::kOk) {
        WriteOutcome(out_, result);
      } else if ((spec->flags & kFlagWrite) != 0) {
        NoteWrite(shard_id, shard->applied());
      }
      NoteDependency(shard);
      EndGatedReply(mark);
      return RunResult::kDone;
    }
  } else if (!front_->thread().HasRoom(front_->thread().OwnerOf(shard_id))) {
    return NoRoom();
  }
  timed_ = false;  // RunAtShard does that
  Op* op = front_->NewOp(OpKind::kKey, this);
  op->spec = spec;
  op->shard = shard_id;
  op->pack.Assign(args, {&key, 1});
  op->value_run = std::move(run);
  Enqueue(op);
  SendPart(op);
  return RunResult::kDone;
}

}  // namespace kvstored::command
