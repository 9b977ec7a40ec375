#include "shard/shard_thread.h"

#include <utility>

#include "base/check.h"
#include "kvstored/limits.h"

namespace kvstored::shard {
namespace {

// So long after a connection was served without waiting, the log thread writes.
constexpr uint64_t kServedQuietUs = 10'000;

}  // namespace

ThreadSet::ThreadSet(uint32_t thread_count, uint32_t shard_count, RecordClock* clock)
    : shard_count_(shard_count) {
  KVS_CHECK(thread_count >= 1 && thread_count <= kThreadCountMax && shard_count >= thread_count &&
                shard_count <= kShardCountMax,
            "threads=%u shards=%u", thread_count, shard_count);
  threads_.reserve(thread_count);
  for (uint32_t i = 0; i < thread_count * thread_count; ++i) {
    mailboxes_.push_back(std::make_unique<Mailbox>(kMailboxSlots));
  }
  // The count is read through threads_ by the constructors' users only after this loop.
  for (uint32_t i = 0; i < thread_count; ++i) {
    threads_.push_back(std::make_unique<ShardThread>(this, i, clock));
  }
  for (auto& thread : threads_) {
    thread->outbox_.resize(thread_count);
  }
}

ThreadSet::~ThreadSet() = default;

void ThreadSet::RunOn(uint32_t thread, std::function<void()> work) {
  ShardThread& target = *threads_[thread];
  {
    const std::lock_guard lock(target.outside_mutex_);
    target.outside_.push_back(std::move(work));
  }
  target.has_outside_.store(true, std::memory_order_release);  // partner: DrainOutside
  target.poller_.Wake();
}

Shard* ThreadSet::shard(ShardId id) {
  return threads_[OwnerOf(id)]->shard(id);
}

void ThreadSet::RunOnShard(ShardId id, std::function<void(Shard&)> work) {
  RunOn(OwnerOf(id), [this, id, work = std::move(work)] { work(*shard(id)); });
}

void ThreadSet::Wake(ShardId id) {
  threads_[OwnerOf(id)]->poller_.Wake();
}

void ThreadSet::WakeAll() {
  for (auto& thread : threads_) {
    thread->poller_.Wake();
  }
}

ShardThread::ShardThread(ThreadSet* set, uint32_t index, RecordClock* clock)
    : set_(set), index_(index), clock_(clock), now_us_(clock->NowUs()), phases_(clock->clock()) {
}

void ShardThread::AddShard(std::unique_ptr<Shard> shard) {
  KVS_CHECK(OwnerOf(shard->id()) == index_ && shard->id() / thread_count() == shards_.size(),
            "shard=%u thread=%u", shard->id(), index_);
  shard->SetWakeOthers([this] { set_->WakeAll(); });
  shards_.push_back(std::move(shard));
}

uint32_t ShardThread::DrainMailboxes() {
  uint32_t count = 0;
  for (uint32_t from = 0; from < thread_count(); ++from) {
    ThreadSet::Mailbox& mailbox = set_->mailbox(from, index_);
    base::Task* task = nullptr;
    while (mailbox.TryPop(&task)) {
      ++count;
      task->run(task);
    }
  }
  counters_.tasks += count;
  return count;
}

uint32_t ShardThread::DrainOutside() {
  if (!has_outside_.load(std::memory_order_acquire)) {  // partner: ThreadSet::RunOn
    return 0;
  }
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(outside_mutex_);
    work.swap(outside_);
    has_outside_.store(false, std::memory_order_relaxed);
  }
  for (auto& one : work) {
    one();
  }
  return static_cast<uint32_t>(work.size());
}

bool ShardThread::FlushOutboxes() {
  bool left = false;
  for (uint32_t to = 0; to < thread_count(); ++to) {
    std::deque<base::Task*>& outbox = outbox_[to];
    if (outbox.empty()) {
      continue;
    }
    ThreadSet::Mailbox& mailbox = set_->mailbox(index_, to);
    while (!outbox.empty() && mailbox.TryPush(outbox.front())) {
      outbox.pop_front();
    }
    if (!outbox.empty()) {
      ++counters_.mailbox_full;
      left = true;
    }
    if (to == index_) {
      left = true;
    } else {
      set_->threads_[to]->poller_.Wake();
    }
  }
  return left;
}

bool ShardThread::AdvanceShards() {
  bool moved = false;
  for (auto& shard : shards_) {
    if (safe_ && shard->AdvanceCommitted(safe_(shard->id()))) {
      moved = true;
    }
  }
  return moved;
}

// Did each of the `told` connections end up at a gate? Then nobody misses this thread while it
// writes. Counted, not tracked: a wrong guess costs time only.
bool ShardThread::AllSpeakersWait(uint32_t told) {
  uint64_t gate_waits = 0;
  for (const auto& shard : shards_) {
    gate_waits += shard->counters().gate_waits;
  }
  const uint64_t gated = gate_waits - std::exchange(gate_waits_, gate_waits);
  if (told > gated) {
    served_us_ = now_us_;
  }
  return now_us_ - served_us_ > kServedQuietUs;
}

void ShardThread::BeginLogRound(bool idle) {
  if (std::exchange(submitted_, false) && log_round_) {
    log_round_(idle);
  }
}

bool ShardThread::Tick(int64_t max_sleep_us) {
  ++counters_.ticks;
  // 1. Readiness. Commands that arrived on this thread's sockets run inside, on its own shards at
  // once.
  poller_.Wait(busy_ ? 0 : max_sleep_us);
  phases_.Begin();
  now_us_ = clock_->NowUs();
  for (auto& shard : shards_) {
    shard->BeginTick(now_us_);
  }
  const uint32_t told = poller_.Dispatch();
  if (told > 0) {
    phases_.End(TickPhase::kCommands);
  }
  // 2. Work from other threads.
  uint32_t tasks = DrainMailboxes();
  if (tasks > 0) {
    phases_.End(TickPhase::kTasks);
  }
  if (const uint32_t outside = DrainOutside(); outside > 0) {
    tasks += outside;
    phases_.End(TickPhase::kControl);
  }
  // 3. Parked commands, expiry, freed memory.
  bool more = false;
  for (auto& shard : shards_) {
    more = shard->Housekeeping(&phases_) || more;
  }
  // 4. What this tick wrote goes to the log and, once handed over, to the replicas.
  for (auto& shard : shards_) {
    shard->Seal();
  }
  BeginLogRound(AllSpeakersWait(told));
  phases_.End(TickPhase::kLog);
  // 5. Watermarks and the reply gate.
  const bool did = AdvanceShards();
  // 6. Replies to the sockets.
  for (TickHook* hook : hooks_) {
    more = hook->OnTick() || more;
  }
  phases_.End(TickPhase::kReplies);
  // Hooks may have run commands whose connections had been waiting.
  for (auto& shard : shards_) {
    shard->Seal();
    more = more || shard->HasRunnable();
  }
  BeginLogRound(/*idle=*/false);
  // 7. Tasks to other threads, once a tick.
  more = FlushOutboxes() || more;
  phases_.End(TickPhase::kLog);
  phases_.Finish();
  busy_ = more;
  return did || more || told + tasks > 0;
}

}  // namespace kvstored::shard
