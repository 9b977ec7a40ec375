#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "command/front_thread.h"
#include "command/session.h"

namespace kvstored::command {
namespace {

// A connection on its way to its thread.
struct AcceptTask : base::Task {
  FrontThread* front = nullptr;
  int fd = -1;
};

void AcceptThere(base::Task* task) {
  auto* accept = static_cast<AcceptTask*>(task);
  accept->front->Accept(accept->fd);
  delete accept;
}

}  // namespace

void FrontSettings::SetPassword(std::string password) {
  const std::lock_guard<std::mutex> lock(mutex_);
  password_ = std::move(password);
  needs_password_.store(!password_.empty(), std::memory_order_release);  // partner: NeedsPassword
}

void FrontSettings::SetPercentiles(std::vector<double> percentiles) {
  const std::lock_guard<std::mutex> lock(mutex_);
  percentiles_ = std::move(percentiles);
}

std::vector<double> FrontSettings::percentiles() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return percentiles_;
}

bool FrontSettings::IsPassword(std::string_view offered) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  unsigned difference = offered.size() == password_.size() ? 0 : 1;
  for (size_t i = 0; i < offered.size(); ++i) {
    const char expected = password_.empty() ? '\0' : password_[i % password_.size()];
    difference |= static_cast<unsigned char>(offered[i] ^ expected);
  }
  return difference == 0;
}

struct FrontSet::Totals {
  uint64_t connections = 0;
  uint64_t blocked = 0;
  uint64_t accepted = 0;
  uint64_t refused = 0;
  uint64_t dropped = 0;
  uint64_t evicted = 0;
  uint64_t commands = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t commands_per_second = 0;
  uint64_t received_bytes_per_second = 0;
  uint64_t sent_bytes_per_second = 0;
  uint64_t error_replies = 0;
  uint64_t tracked_keys = 0;
  uint64_t tracked_readers = 0;
  uint64_t tracked_prefixes = 0;
  struct OfCommand {
    uint64_t calls = 0;
    uint64_t nanoseconds = 0;
    uint64_t rejected = 0;
    uint64_t failed = 0;
  };
  std::vector<OfCommand> by_command;
};

FrontSet::FrontSet(Options options)
    : options_(options),
      next_transaction_id_(static_cast<uint64_t>(options.clock->WallUs())),
      reset_(std::make_unique<Totals>()) {
  reset_->by_command.resize(CommandTable().size());
  for (uint32_t i = 0; i < options_.threads->thread_count(); ++i) {
    threads_.push_back(std::make_unique<FrontThread>(this, options_.threads->thread(i)));
  }
}

FrontSet::~FrontSet() = default;

void FrontSet::OnAccept(int fd) {
  FrontThread* front = threads_[next_thread_].get();
  next_thread_ = (next_thread_ + 1) % thread_count();
  if (front->index() == 0) {
    front->Accept(fd);
    return;
  }
  auto* task = new AcceptTask;
  task->front = front;
  task->fd = fd;
  task->run = &AcceptThere;
  threads_[0]->thread().Post(front->index(), task);
}

void FrontSet::CloseAll() {
  for (const auto& front : threads_) {
    options_.threads->RunOn(front->index(), [front = front.get()] { front->CloseAll(); });
  }
}

void FrontSet::Pause(uint64_t now_us, int64_t timeout_ms, bool all) {
  constexpr int64_t kMicrosecondsPerMs = 1000;
  shard::NodeGate& gate = *options_.gate;
  const std::lock_guard<std::mutex> lock(pause_mutex_);
  int64_t until_us = 0;
  if (__builtin_mul_overflow(timeout_ms, kMicrosecondsPerMs, &until_us) ||
      __builtin_add_overflow(until_us, static_cast<int64_t>(now_us), &until_us)) {
    until_us = 0;  // as in Redis, where the sum overflows into the past
  }
  gate.pauses_all.store(all || (gate.IsPaused(now_us) && gate.pauses_all.load()),
                        std::memory_order_relaxed);
  gate.paused_until_us.store(std::max(gate.paused_until_us.load(), static_cast<uint64_t>(until_us)),
                             std::memory_order_release);  // partner: NodeGate::IsPaused
}

void FrontSet::Unpause() {
  const std::lock_guard<std::mutex> lock(pause_mutex_);
  options_.gate->paused_until_us.store(0, std::memory_order_release);
}

uint64_t FrontSet::connection_count() const {
  uint64_t count = 0;
  for (const auto& front : threads_) {
    count += front->figures().connections.value();
  }
  return count;
}

uint64_t FrontSet::client_bytes() const {
  uint64_t bytes = 0;
  for (const auto& front : threads_) {
    bytes += front->figures().client_bytes.value();
  }
  return bytes;
}

FrontSet::Totals FrontSet::Sum() const {
  Totals totals;
  totals.by_command.resize(CommandTable().size());
  for (const auto& front : threads_) {
    const FrontFigures& figures = front->figures();
    totals.connections += figures.connections.value();
    totals.blocked += figures.blocked.value();
    totals.accepted += figures.connections_accepted.value();
    totals.refused += figures.connections_refused.value();
    totals.dropped += figures.connections_dropped.value();
    totals.evicted += figures.clients_evicted.value();
    totals.commands += figures.commands_run.value();
    const net::SocketThread& sockets = std::as_const(*front).sockets();
    totals.received_bytes += sockets.counters().received_bytes.value();
    totals.sent_bytes += sockets.counters().sent_bytes.value();
    totals.commands_per_second += figures.commands_per_second.value();
    totals.received_bytes_per_second += figures.received_bytes_per_second.value();
    totals.sent_bytes_per_second += figures.sent_bytes_per_second.value();
    totals.error_replies += figures.error_replies.value();
    const Tracking& tracking = std::as_const(*front).tracking();
    totals.tracked_keys += tracking.key_count.value();
    totals.tracked_readers += tracking.reader_count.value();
    totals.tracked_prefixes += tracking.prefix_count.value();
    for (size_t i = 0; i < totals.by_command.size(); ++i) {
      totals.by_command[i].calls += figures.commands[i].calls.value();
      totals.by_command[i].nanoseconds += figures.commands[i].nanoseconds.value();
      totals.by_command[i].rejected += figures.commands[i].rejected.value();
      totals.by_command[i].failed += figures.commands[i].failed.value();
    }
  }
  return totals;
}

void FrontSet::ResetFigures() {
  auto totals = std::make_unique<Totals>(Sum());
  std::vector<LatencyCounts> latency(CommandTable().size());
  for (size_t i = 0; i < latency.size(); ++i) {
    latency[i] = SumLatency(i);
  }
  {
    const std::lock_guard<std::mutex> lock(reset_mutex_);
    reset_ = std::move(totals);
    reset_latency_ = std::move(latency);
  }
  for (const auto& front : threads_) {
    front->figures().errors.Reset();
  }
  // The shards' own, each on its thread, in this tick or its next.
  for (uint32_t i = 0; i < thread_count(); ++i) {
    options_.threads->RunOn(i, [thread = options_.threads->thread(i)] {
      for (const auto& shard : thread->shards()) {
        shard->ResetCounters();
      }
    });
  }
}

std::string FrontSet::InfoSection(std::string_view section) const {
  if (section == "errorstats") {
    return ErrorStats();
  }
  if (section == "latencystats") {
    return LatencyStats();
  }
  const Totals now = Sum();
  const std::lock_guard<std::mutex> lock(reset_mutex_);
  const Totals& then = *reset_;
  if (section == "clients") {
    return absl::StrFormat(
        "connected_clients:%u\r\ncluster_connections:0\r\nmaxclients:%u\r\nblocked_clients:%u\r\n"
        "tracking_clients:%u\r\n",
        now.connections, settings_.clients_max.load(std::memory_order_relaxed), now.blocked,
        tracking_.clients.load(std::memory_order_relaxed));
  }
  if (section == "stats") {
    return absl::StrFormat(
        "total_connections_received:%u\r\ntotal_commands_processed:%u\r\n"
        "instantaneous_ops_per_sec:%u\r\n"
        "total_net_input_bytes:%u\r\ntotal_net_output_bytes:%u\r\n"
        "instantaneous_input_kbps:%.2f\r\ninstantaneous_output_kbps:%.2f\r\n"
        "rejected_connections:%u\r\ndropped_connections:%u\r\nevicted_clients:%u\r\n"
        "tracking_total_keys:%u\r\n"
        "tracking_total_items:%u\r\ntracking_total_prefixes:%u\r\ntotal_error_replies:%u\r\n",
        now.accepted - then.accepted, now.commands - then.commands, now.commands_per_second,
        now.received_bytes - then.received_bytes, now.sent_bytes - then.sent_bytes,
        static_cast<double>(now.received_bytes_per_second) / 1024,
        static_cast<double>(now.sent_bytes_per_second) / 1024, now.refused - then.refused,
        now.dropped - then.dropped, now.evicted - then.evicted, now.tracked_keys,
        now.tracked_readers, now.tracked_prefixes, now.error_replies - then.error_replies);
  }
  std::string text;
  if (section == "commandstats") {
    for (size_t i = 0; i < now.by_command.size(); ++i) {
      const uint64_t calls = now.by_command[i].calls - then.by_command[i].calls;
      const uint64_t rejected = now.by_command[i].rejected - then.by_command[i].rejected;
      if (calls + rejected == 0) {
        continue;
      }
      const uint64_t us = (now.by_command[i].nanoseconds - then.by_command[i].nanoseconds) / 1000;
      text += absl::StrFormat(
          "cmdstat_%s:calls=%u,usec=%u,usec_per_call=%.2f,rejected_calls=%u,failed_calls=%u\r\n",
          CommandTable()[i].name, calls, us,
          calls == 0 ? 0.0 : static_cast<double>(us) / static_cast<double>(calls), rejected,
          now.by_command[i].failed - then.by_command[i].failed);
    }
  }
  return text;
}

}  // namespace kvstored::command
