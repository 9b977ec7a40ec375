// A session's life: its replies in order, its gates, closing. Ops that come back are in
// session_return.cc.
#include "command/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "command/front_thread.h"
#include "command/transaction.h"

namespace kvstored::command {
namespace {

// Above this much that the client has not read, its commands wait; below half of it they go on.
constexpr uint64_t kOutputLowWaterBytes = 1 << 20;
// Replies of one connection that are larger (one huge KEYS or EXEC) close it.
constexpr uint64_t kOutputBytesMax = uint64_t{512} << 20;

void ReleaseGroup(shard::Gated* gated) {
  Op* op = reinterpret_cast<GateSlot*>(gated)->op;
  KVS_CHECK(op->gates_left > 0, "kind=%d", static_cast<int>(op->kind));
  if (--op->gates_left == 0) {
    op->session->OnGroupReleased(op);
  }
}

}  // namespace

Session::Session(FrontThread* front, uint64_t id, int64_t now_us)
    : front_(front), id_(id), created_us_(now_us), last_input_us_(now_us) {
}

Session::~Session() {
  KVS_CHECK(queue_.empty() && remote_out_ == 0 && local_parked_ == 0,
            "queue=%u remote=%u parked=%u", queue_.size(), remote_out_, local_parked_);
}

void Session::Abandon() {
  queue_ = ReplyQueue();
  remote_out_ = 0;
  local_parked_ = 0;
}

void Session::Attach(net::Connection* connection) {
  connection_ = connection;
  peer_ = connection->peer();
  local_ = connection->local();
}

NodeApi& Session::node() {
  return *front_->set().options().node;
}

void Session::SetProtocol(int protocol) {
  protocol_ = protocol;
  out_.SetProtocol(protocol);
}

// --- Replies. ---

Reply* Session::Target() {
  if (group_ != nullptr) {
    return &group_->reply;
  }
  if (queue_.empty()) {
    return output_.reply();
  }
  OpenGroup();
  return &group_->reply;
}

ReplyMark Session::BeginReply() {
  Reply* reply = Target();
  out_ = resp::Writer(&reply->bytes, protocol_);
  return ReplyMark(reply);
}

// False: the client does not want this reply (CLIENT REPLY), it was taken back.
bool Session::EndReply(const ReplyMark& mark) {
  if (reply_mode_ == ReplyMode::kOff || reply_mode_ == ReplyMode::kSkip) {
    mark.Undo();
    return false;
  }
  if (mark.reply->bytes.size() > mark.bytes && mark.reply->bytes[mark.bytes] == '-') {
    front_->NoteError(std::string_view(mark.reply->bytes).substr(mark.bytes));
  }
  if (output_.pending_bytes() + queued_bytes_ +
          (group_ != nullptr ? group_->reply.bytes.size() : 0) >
      kOutputLowWaterBytes) {
    blocked_ |= kBlockedOutput;
  }
  return true;
}

void Session::Error(std::string_view text) {
  const ReplyMark mark = BeginReply();
  out_.Error(text);
  EndReply(mark);
}

void Session::OpenGroup() {
  KVS_CHECK(group_ == nullptr, "session=%lu", id_);
  group_ = front_->NewOp(OpKind::kGroup, this);
  queue_.Push(group_);
}

// Ends the reply of a command that ran on local shards and depends on what touched them
// (NoteDependency): not committed yet, it moves out of the output into the group.
void Session::EndGatedReply(const ReplyMark& mark) {
  if (!EndReply(mark)) {
    ForgetDependencies();
  } else if (!front_->scratch().touched.empty() && group_ == nullptr) {
    KVS_CHECK(mark.reply == output_.reply(), "session=%lu", id_);
    OpenGroup();
    MoveTail(mark.reply, mark.bytes, mark.externals, &group_->reply);
  }
}

// A reply that was dropped waits for nothing; those of the group keep what they noted before, which
// is never less than they need.
void Session::ForgetDependencies() {
  if (group_ != nullptr) {
    return;
  }
  Scratch& scratch = front_->scratch();
  for (const uint32_t local : scratch.touched) {
    scratch.dependency[local] = 0;
  }
  scratch.touched.clear();
}

// What the command that just ran on a local shard depends on.
void Session::NoteDependency(shard::Shard* shard) {
  const Seq dependency = shard->dependency();
  if (shard->IsCommitted(dependency)) {
    return;
  }
  Scratch& scratch = front_->scratch();
  const uint32_t local = shard->id() / front_->thread().thread_count();
  if (scratch.dependency[local] == 0) {
    scratch.touched.push_back(local);
  }
  scratch.dependency[local] = std::max(scratch.dependency[local], dependency);
}

// The group's replies leave together when every shard they depend on has committed: one gate a
// shard and batch, whatever the depth of the client's pipeline.
void Session::CloseGroup() {
  if (group_ == nullptr) {
    return;
  }
  Op* op = std::exchange(group_, nullptr);
  Scratch& scratch = front_->scratch();
  queued_bytes_ += op->reply.bytes.size();
  op->gates.reserve(scratch.touched.size());  // their addresses must not change
  for (const uint32_t local : scratch.touched) {
    shard::Shard* shard = front_->thread().shards()[local].get();
    const Seq dependency = std::exchange(scratch.dependency[local], 0);
    if (shard->IsCommitted(dependency)) {
      continue;
    }
    GateSlot& slot = op->gates.emplace_back();
    slot.op = op;
    slot.gated.release = &ReleaseGroup;
    slot.gated.dependency = dependency;
    ++op->gates_left;
    shard->Gate(&slot.gated);
  }
  scratch.touched.clear();
  op->done = op->gates_left == 0;
}

void Session::OnGroupReleased(Op* op) {
  op->done = true;
  Pump();
}

void Session::Enqueue(Op* op) {
  CloseGroup();
  op->protocol = static_cast<uint8_t>(protocol_);
  op->silent = reply_mode_ == ReplyMode::kOff || reply_mode_ == ReplyMode::kSkip;
  queue_.Push(op);
}

// Moves complete replies into the output, in order.
void Session::Pump() {
  while (Op* op = queue_.PopDone()) {
    queued_bytes_ -= std::min<uint64_t>(queued_bytes_, op->reply.bytes.size());
    // Those of a group were counted when they were written.
    if (op->kind != OpKind::kGroup && !op->reply.bytes.empty() && op->reply.bytes[0] == '-') {
      front_->NoteError(op->reply.bytes);
      if (op->spec != nullptr) {
        front_->FiguresOf(op->spec).failed.Add(1);
      }
    }
    if (op->redirected && tracking_ != nullptr && tracking_->options.redirect != 0) {
      front_->tracking().Forward(*this, std::move(op->reply.bytes));
    } else if (connection_ != nullptr && !op->silent && !op->redirected) {
      AppendReply(output_.reply(), &op->reply);
    }
    front_->Recycle(op);
  }
  if (queue_.empty()) {
    queued_bytes_ = 0;
    Unblock(kBlockedDrain);
  }
  if (connection_ != nullptr) {
    front_->NoteReady(this);
  } else if (queue_.empty() && remote_out_ == 0) {
    front_->NoteDead(this);
  }
}

void Session::Unblock(uint32_t bits) {
  if ((blocked_ & bits) != 0) {
    blocked_ &= ~bits;
    if (connection_ != nullptr) {
      front_->NoteReady(this);
    }
  }
}

// --- The connection. ---

void Session::OnWritable() {
  front_->NoteReady(this);
}

void Session::OnEof() {
  eof_ = true;
  front_->NoteReady(this);
}

void Session::OnClosed() {
  connection_ = nullptr;
  close_now_ = false;
  if (wait_op_ != nullptr) {
    std::exchange(wait_op_, nullptr)->done = true;
  }
  multi_.reset();
  watched_.clear();
  EndMonitoring();
  StopTracking();
  if (!in_input_) {
    Pump();
  }
}

void Session::CloseNow() {
  close_now_ = true;
  front_->figures().connections_dropped.Add(1);
  front_->NoteReady(this);
}

bool Session::MustClose() {
  const bool ending = (blocked_ & kBlockedClosing) != 0 || (eof_ && blocked_ == 0);
  return close_now_ || (ending && queue_.empty() && output_.empty());
}

bool Session::OnTick() {
  if (connection_ == nullptr) {
    return false;
  }
  if (blocked_ == 0 && !close_now_) {
    connection_->Resume();
  }
  bool more = false;
  if (connection_ != nullptr && !close_now_ && !output_.empty()) {
    switch (output_.Flush(connection_)) {
      case Output::FlushResult::kFailed:
        close_now_ = true;
        break;
      case Output::FlushResult::kMore:
        more = true;
        break;
      case Output::FlushResult::kPending:
      case Output::FlushResult::kEmpty:
        break;
    }
  }
  if (connection_ == nullptr) {
    return false;
  }
  const uint64_t unread_bytes = output_.pending_bytes() + queued_bytes_;
  if (unread_bytes > kOutputBytesMax) {
    base::LogWarning(absl::StrFormat("client %s closed: %u bytes of replies wait, limit %u", peer_,
                                     unread_bytes, kOutputBytesMax));
    CloseNow();
  }
  if ((blocked_ & kBlockedOutput) != 0 && unread_bytes < kOutputLowWaterBytes / 2) {
    Unblock(kBlockedOutput);  // listed as ready again: its input is offered in the next round
  }
  if (MustClose()) {
    connection_->Close();
    return false;
  }
  return more;
}

void Session::CheckTimeouts(int64_t now_us) {
  static base::LogLimiter limiter(10'000'000);
  if (connection_ == nullptr) {
    return;
  }
  const FrontSettings& settings = front_->set().settings();
  Op* head = queue_.head();
  const bool gated = head != nullptr && !head->done && head->kind != OpKind::kControl &&
                     head->kind != OpKind::kWait && head->kind != OpKind::kGather;
  if (gated && head->queued_us == 0) {
    head->queued_us = now_us;
  } else if (gated &&
             now_us - head->queued_us > settings.gate_timeout_us.load(std::memory_order_relaxed)) {
    // The outcome is unknown: a false failure must not be reported, so the connection ends (P8).
    limiter.Warning(absl::StrFormat(
        "client %s closed: a reply waited longer than replication.gate_timeout for its commit",
        peer_));
    CloseNow();
  }
  const int64_t idle_us = settings.idle_timeout_us.load(std::memory_order_relaxed);
  if (idle_us > 0 && queue_.empty() && blocked_ == 0 && now_us - last_input_us_ > idle_us) {
    CloseNow();
  }
}

}  // namespace kvstored::command
