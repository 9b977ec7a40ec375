#include "command/front_thread.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "command/session.h"

namespace kvstored::command {
namespace {

constexpr size_t kPooledOpsMax = 4096;
constexpr int64_t kCheckPeriodUs = 100'000;
// Received since the last look: buffers may have grown by so much.
constexpr uint64_t kCheckBytes = uint64_t{16} << 20;

void RemoveFrom(std::vector<Session*>* list, const Session* session) {
  list->erase(std::remove(list->begin(), list->end(), session), list->end());
}

}  // namespace

FrontThread::FrontThread(FrontSet* set, shard::ShardThread* thread)
    : set_(set),
      thread_(thread),
      sockets_(thread->poller()),
      figures_(CommandTable().size()),
      clock_(set->options().clock),
      tracking_(this),
      now_us_(set->options().clock->MonotonicUs()) {
  scratch_.dependency.resize(
      (thread->shard_count() + thread->thread_count() - 1) / thread->thread_count(), 0);
  thread->AddTickHook(this);
  thread->phases().SetOnStall([this](shard::TickPhase cause, int64_t us) { NoteStall(cause, us); });
}

FrontThread::~FrontThread() {
  // The threads have stopped: ops that are out will never come back, they are freed where they are.
  sockets_.CloseAll();
  for (Session* session : sessions_) {
    session->Abandon();
    delete session;
  }
  set_->options().pool->Charge(-static_cast<int64_t>(figures_.client_bytes.value()));
}

Op* FrontThread::NewOp(OpKind kind, Session* session) {
  Op* op = nullptr;
  if (pool_.empty()) {
    ops_.push_back(std::make_unique<Op>());
    op = ops_.back().get();
    op->index = ops_.size() - 1;
  } else {
    op = pool_.back();
    pool_.pop_back();
  }
  op->kind = kind;
  op->session = session;
  op->protocol = static_cast<uint8_t>(session->protocol());
  op->uses = session->uses_keys();
  return op;
}

void FrontThread::Recycle(Op* op) {
  if (pool_.size() >= kPooledOpsMax) {
    const size_t index = op->index;
    ops_[index].swap(ops_.back());
    ops_[index]->index = index;
    ops_.pop_back();
    return;
  }
  op->Clear();
  pool_.push_back(op);
}

void FrontThread::NoteReady(Session* session) {
  if (!session->ready) {
    session->ready = true;
    ready_.push_back(session);
  }
}

void FrontThread::NoteDead(Session* session) {
  if (std::find(dead_.begin(), dead_.end(), session) == dead_.end()) {
    dead_.push_back(session);
  }
}

Session* FrontThread::Find(uint64_t id) const {
  const auto found = sessions_by_id_.find(id);
  return found == sessions_by_id_.end() ? nullptr : found->second;
}

bool FrontThread::MayRun(const Op* op) const {
  if (parked_.empty()) {
    return true;
  }
  const auto found = parked_.find({op->session, op->shard});
  return found == parked_.end() || found->second.front() == op;
}

void FrontThread::NoteParked(Op* op) {
  op->parked = true;
  parked_[{op->session, op->shard}].push_back(op);
}

void FrontThread::NoteUnparked(Op* op) {
  const auto found = parked_.find({op->session, op->shard});
  KVS_CHECK(found != parked_.end() && found->second.front() == op, "shard=%u", op->shard);
  op->parked = false;
  found->second.pop_front();
  if (found->second.empty()) {
    parked_.erase(found);
  }
}

Session* FrontThread::AddSession() {
  auto* session = new Session(this, set_->NextClientId(), now_us_);
  session->index = sessions_.size();
  sessions_.push_back(session);
  sessions_by_id_[session->id()] = session;
  figures_.connections.Set(sessions_.size());
  figures_.connections_accepted.Add(1);
  return session;
}

void FrontThread::Accept(int fd) {
  if (set_->connection_count() >= set_->settings().clients_max.load(std::memory_order_relaxed)) {
    constexpr std::string_view kRefusal = "-ERR max number of clients reached\r\n";
    (void)!::write(fd, kRefusal.data(), kRefusal.size());
    ::close(fd);
    figures_.connections_refused.Add(1);
    return;
  }
  Session* session = AddSession();
  session->Attach(sockets_.Adopt(fd, session));
}

void FrontThread::CloseAll() {
  for (Session* session : sessions_) {
    session->CloseNow();
  }
}

// Buffers are in the memory budget, and all of them together have a limit of their own: what
// clients send and do not read must not drive out the data set
// (https://github.com/redis/redis/issues/2136). Over it, the one that holds most is closed.
void FrontThread::CheckClientMemory() {
  const uint64_t received_bytes = sockets_.counters().received_bytes.value();
  if (now_us_ < next_memory_check_us_ && received_bytes - memory_checked_bytes_ < kCheckBytes) {
    return;
  }
  next_memory_check_us_ = now_us_ + kCheckPeriodUs;
  memory_checked_bytes_ = received_bytes;
  uint64_t bytes = 0;
  Session* largest = nullptr;
  for (Session* session : sessions_) {
    const uint64_t held_bytes = session->held_bytes();
    bytes += held_bytes;
    if (!session->no_evict() && !session->is_closed() &&
        (largest == nullptr || held_bytes > largest->held_bytes())) {
      largest = session;
    }
  }
  set_->options().pool->Charge(static_cast<int64_t>(bytes) -
                               static_cast<int64_t>(figures_.client_bytes.value()));
  figures_.client_bytes.Set(bytes);
  const uint64_t all_bytes = set_->client_bytes();
  const uint64_t bytes_max = set_->settings().client_bytes_max.load(std::memory_order_relaxed);
  if (largest != nullptr && all_bytes > bytes_max && bytes > bytes_max / set_->thread_count()) {
    largest->CloseForMemory(all_bytes, bytes_max);
    next_memory_check_us_ = now_us_;  // the next tick looks whether that was enough
  }
}

void FrontThread::CheckTimeouts() {
  if (now_us_ < next_check_us_) {
    return;
  }
  next_check_us_ = now_us_ + kCheckPeriodUs;
  uint64_t blocked = 0;
  for (Session* session : sessions_) {
    session->CheckTimeouts(now_us_);
    blocked += session->blocked() != 0 ? 1 : 0;
  }
  figures_.blocked.Set(blocked);
  command_rate_.Sample(now_us_, figures_.commands_run.value());
  received_rate_.Sample(now_us_, sockets_.counters().received_bytes.value());
  sent_rate_.Sample(now_us_, sockets_.counters().sent_bytes.value());
  figures_.commands_per_second.Set(command_rate_.per_second());
  figures_.received_bytes_per_second.Set(received_rate_.per_second());
  figures_.sent_bytes_per_second.Set(sent_rate_.per_second());
}

bool FrontThread::OnTick() {
  now_us_ = set_->options().clock->MonotonicUs();
  SendMonitorLines();
  tracking_.OnTick();
  std::erase_if(no_room_, [](Session* session) { return session->RetryRoom(); });
  std::erase_if(paused_, [](Session* session) { return session->PollPause(); });
  std::erase_if(waiting_, [](Session* session) { return session->PollWait(); });
  std::swap(ready_, ready_now_);
  for (Session* session : ready_now_) {
    session->ready = false;
    if (session->OnTick()) {
      NoteReady(session);
    }
  }
  ready_now_.clear();
  CheckTimeouts();
  CheckClientMemory();
  sockets_.FreeClosed();
  for (Session* session : dead_) {
    if (session->ready) {
      RemoveFrom(&ready_, session);
    }
    RemoveFrom(&no_room_, session);
    RemoveFrom(&waiting_, session);
    RemoveFrom(&paused_, session);
    sessions_by_id_.erase(session->id());
    Session* last = sessions_.back();
    sessions_[session->index] = last;
    last->index = session->index;
    sessions_.pop_back();
    figures_.connections.Set(sessions_.size());
    delete session;
  }
  dead_.clear();
  return !ready_.empty() || !no_room_.empty() || !monitor_lines_.empty() || tracking_.has_notes();
}

}  // namespace kvstored::command
