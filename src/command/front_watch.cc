// What a thread tells of its commands: how long they took, which were slow, what MONITOR shows.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/monitor.h"
#include "command/sensitive_args.h"
#include "command/session.h"

namespace kvstored::command {
namespace {

constexpr int64_t kMicrosecondsPerSecond = 1'000'000;

// Lines on their way to the monitors of another thread.
struct MonitorTask : base::Task {
  FrontThread* front = nullptr;
  std::shared_ptr<const std::string> lines;
};

void FeedThere(base::Task* task) {
  auto* monitor = static_cast<MonitorTask*>(task);
  monitor->front->FeedMonitors(*monitor->lines);
  delete monitor;
}

// LATENCY's name of what held a tick up, Redis' where it has one. Of commands each says it itself.
std::string_view EventOf(shard::TickPhase cause) {
  switch (cause) {
    case shard::TickPhase::kCommands:
      return {};
    case shard::TickPhase::kExpiry:
      return "expire-cycle";
    case shard::TickPhase::kEviction:
      return "eviction-cycle";
    case shard::TickPhase::kLog:
      return "aof-write";
    default:
      return shard::NameOf(cause);
  }
}

}  // namespace

void FrontThread::NoteTime(const Session& session, const CommandSpec* spec,
                           std::span<const std::string_view> args, uint64_t ns) {
  CommandFigures& figures = FiguresOf(spec);
  figures.nanoseconds.Add(ns);
  const FrontSettings& settings = set_->settings();
  if (settings.latency_tracking.load(std::memory_order_relaxed)) {
    figures.latency.Add(ns);
  }
  const auto us = static_cast<int64_t>(ns / 1000);
  if (us >= settings.notable_us()) {
    NoteSlow(session, *spec, args, us);
  }
}

void FrontThread::NoteSlow(const Session& session, const CommandSpec& spec,
                           std::span<const std::string_view> args, int64_t us) {
  const FrontSettings& settings = set_->settings();
  const int64_t unix_s = set_->options().clock->WallUs() / kMicrosecondsPerSecond;
  if (us >= settings.latency_event_us.load(std::memory_order_relaxed)) {
    set_->latency_log().Add((spec.flags & kFlagFast) != 0 ? "fast-command" : "command", unix_s,
                            us / 1000);
  }
  // As in Redis EXEC's commands are logged, it is not.
  if (us >= settings.slowlog_us.load(std::memory_order_relaxed) && !IsExec(spec)) {
    set_->slow_log().Add(
        {.unix_s = unix_s, .us = us, .peer = session.peer(), .client_name = session.name()},
        WithoutSecrets(spec, args), settings.slowlog_entries_max.load(std::memory_order_relaxed));
  }
}

void FrontThread::NoteStall(shard::TickPhase cause, int64_t us) {
  const std::string_view event = EventOf(cause);
  if (!event.empty() && us >= set_->settings().latency_event_us.load(std::memory_order_relaxed)) {
    set_->latency_log().Add(event, set_->options().clock->WallUs() / kMicrosecondsPerSecond,
                            us / 1000);
  }
}

int64_t FrontThread::TaskEndedUs() {
  task_ended_us_ = set_->options().clock->MonotonicUs();
  return task_ended_us_;
}

// --- MONITOR ---

void FrontThread::NoteForMonitors(const Session& session, const CommandSpec& spec,
                                  std::span<const std::string_view> args) {
  if (IsShownToMonitors(spec, args)) {
    AppendMonitorLine(set_->options().clock->WallUs(), session.peer(), spec, args, &monitor_lines_);
  }
}

void FrontThread::AddMonitor(Session* session) {
  monitors_.push_back(session);
  figures_.monitors.Set(monitors_.size());
  set_->AddMonitors(1);
}

void FrontThread::RemoveMonitor(Session* session) {
  std::erase(monitors_, session);
  figures_.monitors.Set(monitors_.size());
  set_->AddMonitors(-1);
}

void FrontThread::FeedMonitors(std::string_view lines) {
  for (Session* session : monitors_) {
    session->Feed(lines);
  }
}

void FrontThread::SendMonitorLines() {
  if (monitor_lines_.empty()) {
    return;
  }
  const auto lines = std::make_shared<const std::string>(std::exchange(monitor_lines_, {}));
  FeedMonitors(*lines);
  for (uint32_t i = 0; i < set_->thread_count(); ++i) {
    if (i != index() && set_->thread(i).figures().monitors.value() > 0) {
      auto* task = new MonitorTask;
      task->front = &set_->thread(i);
      task->lines = lines;
      task->run = &FeedThere;
      thread_->Post(i, task);
    }
  }
}

}  // namespace kvstored::command
