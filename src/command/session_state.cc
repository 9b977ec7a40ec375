// Commands that end later than they begin (operations of the node, WAIT, questions to all threads),
// and the state that MULTI and RESET change.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/session.h"

namespace kvstored::command {
namespace {

constexpr std::string_view kNotInTransaction = "ERR Command not allowed inside a transaction";

// One thread's part of a Gather.
struct AskTask : base::Task {
  Op* op = nullptr;
  FrontThread* front = nullptr;
  Session::GatherAsk ask = nullptr;
  uint32_t home = 0;
};

void AskDone(base::Task* task) {
  auto* ask = static_cast<AskTask*>(task);
  Op* op = ask->op;
  delete ask;
  op->session->OnGathered(op);
}

void AskThere(base::Task* task) {
  auto* ask = static_cast<AskTask*>(task);
  ask->ask(*ask->front, ask->op->pack.args(), ask->op->session,
           &ask->op->parts[ask->front->index()]);
  ask->run = &AskDone;
  ask->front->thread().Post(ask->home, ask);
}

}  // namespace

void Session::Control(std::vector<std::string> words, ControlFinish finish) {
  Control([this, &words](ControlDone done) { node().Control(std::move(words), std::move(done)); },
          finish);
}

void Session::Control(const std::function<void(ControlDone done)>& start, ControlFinish finish) {
  if (in_exec_) {
    out_.Error(kNotInTransaction);
    return;
  }
  deferred_ = true;
  blocked_ |= kBlockedControl;
  control_finish_ = finish;
  Op* op = front_->NewOp(OpKind::kControl, this);
  Enqueue(op);
  shard::ThreadSet* threads = front_->set().options().threads;
  const uint32_t home = front_->index();
  start([op, threads, home](absl::StatusOr<std::string> result) {
    // On any thread: the op stays alive, since the session waits for it even when it was closed.
    threads->RunOn(home,
                   [op, result = std::move(result)] { op->session->OnControlDone(op, result); });
  });
}

void Session::OnControlDone(Op* op, const absl::StatusOr<std::string>& result) {
  if (connection_ != nullptr) {
    WriteInto(op, [&] {
      if (!result.ok()) {
        WriteStatus(out_, result.status());
      } else if (control_finish_ != nullptr) {
        control_finish_(*this, *result);
      } else {
        out_.Simple(*result);
      }
    });
  }
  op->done = true;
  Unblock(kBlockedControl);
  Pump();
}

void Session::Gather(std::span<const std::string_view> args, GatherAsk ask, MergeHandler merge) {
  if (in_exec_) {
    out_.Error(kNotInTransaction);
    return;
  }
  deferred_ = true;
  blocked_ |= kBlockedControl;
  gather_merge_ = merge;
  FrontSet& set = front_->set();
  Op* op = NewParent(OpKind::kGather, nullptr, args, set.thread_count());
  op->parts.resize(set.thread_count());
  for (uint32_t i = 0; i < set.thread_count(); ++i) {
    auto* task = new AskTask;
    task->op = op;
    task->front = &set.thread(i);
    task->ask = ask;
    task->home = front_->index();
    task->run = &AskThere;
    front_->thread().Post(i, task);
  }
}

void Session::OnGathered(Op* op) {
  if (--op->parts_left == 0) {
    FinishParent(op);
    Pump();
  }
}

// --- WAIT ---

void Session::WaitForReplicas(int64_t local_count, int64_t replica_count, int64_t timeout_ms) {
  wait_aof_ = local_count >= 0;
  wait_local_ = std::max<int64_t>(local_count, 0);
  wait_replicas_ = replica_count;
  if (in_exec_) {
    WriteWaitReply();
    return;
  }
  deferred_ = true;
  blocked_ |= kBlockedWait;
  // The tick's time: one tick old at most.
  wait_until_us_ = timeout_ms == 0 ? 0 : front_->now_us() + timeout_ms * 1000;
  wait_op_ = front_->NewOp(OpKind::kWait, this);
  Enqueue(wait_op_);
  front_->NoteWaiting(this);
}

Session::WaitCounts Session::CountReplicas() {
  std::vector<std::pair<ShardId, Seq>> positions;
  for (size_t shard = 0; shard < written_.size(); ++shard) {
    if (written_[shard] != 0) {
      positions.emplace_back(static_cast<ShardId>(shard), written_[shard]);
    }
  }
  WaitCounts counts;
  counts.replicas = node().ReplicasAt(positions, wait_aof_);
  counts.local = wait_aof_ && node().LocallyPersisted(positions) ? 1 : 0;
  return counts;
}

void Session::WriteWaitReply() {
  const WaitCounts counts = CountReplicas();
  if (wait_aof_) {
    out_.Array(2);
    out_.Integer(counts.local);
  }
  out_.Integer(counts.replicas);
}

bool Session::PollWait() {
  if (wait_op_ == nullptr) {
    return true;  // closed meanwhile
  }
  const WaitCounts counts = CountReplicas();
  const bool reached = counts.replicas >= wait_replicas_ && counts.local >= wait_local_;
  if (!reached && (wait_until_us_ == 0 || front_->now_us() < wait_until_us_)) {
    return false;
  }
  EndWaitWith({});
  return true;
}

// Empty: with the counts as they are.
void Session::EndWaitWith(std::string_view error) {
  Op* op = std::exchange(wait_op_, nullptr);
  WriteInto(op, [&] {
    if (error.empty()) {
      WriteWaitReply();
    } else {
      out_.Error(error);
    }
  });
  op->done = true;
  Unblock(kBlockedWait);
  Pump();
}

bool Session::EndWait(bool with_error) {
  if (wait_op_ == nullptr) {
    return false;
  }
  EndWaitWith(with_error ? "UNBLOCKED client unblocked via CLIENT UNBLOCK" : "");
  return true;  // the front thread finds no op any more
}

// --- MULTI, RESET ---

void Session::BeginMulti() {
  multi_ = std::make_unique<MultiState>();
  multi_->flags = kFlagLoading;  // as long as every queued command may run while loading
}

void Session::DiscardMulti() {
  multi_.reset();
  watched_.clear();
}

void Session::ResetState() {
  DiscardMulti();
  StopTracking();
  SetProtocol(2);
  authenticated_ = false;
  reply_mode_ = ReplyMode::kOn;
  name_.clear();
  no_evict_ = false;
  uses_keys_ = true;
  EndMonitoring();
}

uint64_t Session::held_bytes() const {
  return (connection_ != nullptr ? connection_->held_bytes() : 0) + output_.held_bytes() +
         queued_bytes_ + (multi_ != nullptr ? multi_->bytes : 0);
}

void Session::CloseForMemory(uint64_t all_bytes, uint64_t bytes_max) {
  base::LogWarning(
      absl::StrFormat("client %s closed: it holds %u bytes, all clients together %u, limit %u "
                      "(server.client_memory)",
                      peer_, held_bytes(), all_bytes, bytes_max));
  front_->figures().clients_evicted.Add(1);
  CloseNow();
}

std::string Session::Describe() {
  const int64_t now_us = front_->now_us();
  std::string flags;
  if (monitoring_) {
    flags += 'O';
  }
  if (multi_ != nullptr) {
    flags += 'x';
  }
  constexpr uint32_t kBlocked = kBlockedWait | kBlockedTransaction | kBlockedParked | kBlockedPause;
  if ((blocked_ & kBlocked) != 0) {
    flags += 'b';
  }
  if (tracking_ != nullptr) {
    flags += 't';
    flags += tracking_->broken_redirect ? "R" : "";
    flags += tracking_->options.broadcast ? "B" : "";
  }
  if ((blocked_ & kBlockedClosing) != 0) {
    flags += 'c';
  }
  if (no_evict_) {
    flags += 'e';
  }
  if (!uses_keys_) {
    flags += 'T';
  }
  if (flags.empty()) {
    flags += 'N';
  }
  const uint64_t input_bytes = connection_ != nullptr ? connection_->input_bytes() : 0;
  std::string text = absl::StrFormat(
      "id=%u addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=0 sub=0 psub=0 ssub=0 "
      "multi=%d qbuf=%u qbuf-free=0 argv-mem=0 multi-mem=%u rbs=0 rbp=0 obl=%u oll=%u omem=%u "
      "tot-mem=%u events=r cmd=%s user=default redir=%d resp=%d",
      id_, peer_, local_, connection_ != nullptr ? connection_->fd() : -1, name_,
      (now_us - created_us_) / 1'000'000, (now_us - last_input_us_) / 1'000'000, flags,
      multi_ != nullptr ? static_cast<int>(multi_->commands.size()) : -1, input_bytes,
      multi_ != nullptr ? multi_->bytes : 0, output_.pending_bytes(), queue_.size(), queued_bytes_,
      held_bytes(), last_command_ != nullptr ? last_command_->name : "NULL", TrackingRedirect(),
      protocol_);
  if (!library_name_.empty() || !library_version_.empty()) {
    text += " lib-name=" + library_name_ + " lib-ver=" + library_version_;
  }
  return text;
}

}  // namespace kvstored::command
