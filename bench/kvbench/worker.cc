#include "kvbench/worker.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace kvstored::bench {
namespace {

constexpr size_t kBufferBytes = size_t{128} << 10;
constexpr uint64_t kTendEveryNs = 50'000'000;
constexpr uint64_t kNsPerSecond = 1'000'000'000;

// The part of a whole that falls to one of several workers.
uint64_t ShareOf(uint64_t whole, uint32_t index, uint32_t count) {
  return whole / count + (index < whole % count ? 1 : 0);
}

uint64_t OperationsOf(const Options& options, uint32_t index) {
  const uint64_t whole = options.load ? options.key_count : options.operations;
  return whole == 0 ? ~uint64_t{0} : ShareOf(whole, index, options.threads);
}

}  // namespace

Worker::Worker(const Options& options, uint32_t index, const Address* address,
               const Requests* requests, KeySpace* keys, const std::atomic<bool>* stop)
    : options_(options),
      index_(index),
      stop_(stop),
      workload_(options, options.seed * 1000 + index, keys),
      shared_{.options = &options_,
              .requests = requests,
              .workload = &workload_,
              .keys = keys,
              .measurement = &measurement_,
              .operations_left = OperationsOf(options, index)},
      epoll_fd_(::epoll_create1(EPOLL_CLOEXEC)),
      buffer_(kBufferBytes) {
  const uint64_t count = ShareOf(options.connections, index, options.threads);
  for (uint64_t i = 0; i < count; ++i) {
    connections_.push_back(std::make_unique<Connection>(epoll_fd_, address, &shared_));
  }
}

Worker::~Worker() {
  connections_.clear();
  ::close(epoll_fd_);
}

bool Worker::AllReady() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection->ready(); });
}

bool Worker::AllDone(uint64_t now_ns) const {
  return std::all_of(connections_.begin(), connections_.end(), [now_ns](const auto& connection) {
    return connection->session()->Done(now_ns);
  });
}

uint64_t Worker::NextDueNs() const {
  uint64_t next_ns = ~uint64_t{0};
  for (const auto& connection : connections_) {
    // One that is at its depth goes on with its next reply.
    if (connection->ready() && !connection->session()->full()) {
      next_ns = std::min(next_ns, connection->session()->NextDueNs());
    }
  }
  return next_ns;
}

void Worker::Poll(uint64_t now_ns) {
  uint64_t wait_ns = kTendEveryNs;
  if (running_ && options_.rate_per_s > 0) {
    const uint64_t due_ns = NextDueNs();
    wait_ns = due_ns <= now_ns ? 0 : std::min(wait_ns, due_ns - now_ns);
  }
  const timespec timeout = {.tv_sec = static_cast<time_t>(wait_ns / kNsPerSecond),
                            .tv_nsec = static_cast<long>(wait_ns % kNsPerSecond)};
  std::array<epoll_event, 256> events;
  const int count =
      ::epoll_pwait2(epoll_fd_, events.data(), static_cast<int>(events.size()), &timeout, nullptr);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    auto* connection = static_cast<Connection*>(event.data.ptr);
    connection->OnReady(event.events, &buffer_);
    if (!connection->failure().empty()) {
      failure_ = connection->failure();
    }
  }
}

void Worker::Tend(uint64_t now_ns) {
  if (now_ns < tended_ns_ + kTendEveryNs) {
    return;
  }
  tended_ns_ = now_ns;
  for (const auto& connection : connections_) {
    connection->Tend(now_ns);
    if (!connection->failure().empty()) {
      failure_ = connection->failure();
    }
  }
}

void Worker::Publish() {
  uint64_t done = 0;
  for (const Histogram& each : measurement_.latency_ns) {
    done += each.count();
  }
  operations_done_.store(done, std::memory_order_relaxed);
  errors_seen_.store(measurement_.ErrorCount() + measurement_.lost, std::memory_order_relaxed);
}

template <typename Condition>
void Worker::LoopUntil(Condition done) {
  uint64_t now_ns = NowNs();
  while (!done(now_ns) && failure_.empty() && !stop_->load(std::memory_order_relaxed)) {
    Poll(now_ns);
    now_ns = NowNs();
    if (running_ && options_.rate_per_s > 0) {
      for (const auto& connection : connections_) {
        if (connection->session()->NextDueNs() <= now_ns) {
          connection->Start(now_ns);
        }
      }
    }
    Tend(now_ns);
    Publish();
  }
}

void Worker::Open() {
  for (const auto& connection : connections_) {
    connection->Open(NowNs());
    if (!connection->failure().empty()) {
      failure_ = connection->failure();
      return;
    }
  }
  LoopUntil([this](uint64_t) { return AllReady(); });
}

void Worker::Run(const Plan& plan) {
  // Timers of an open loop are to fire when they are due, not 50 us later.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  Pace pace = {.measure_from_ns = plan.measure_from_ns, .stop_ns = plan.stop_ns};
  uint32_t number = index_;  // of the connection, among those of all workers
  for (const auto& connection : connections_) {
    if (options_.rate_per_s > 0) {
      pace.interval_ns = 1e9 * options_.connections / options_.rate_per_s;
      pace.first_due_ns = plan.start_ns + static_cast<uint64_t>(number * 1e9 / options_.rate_per_s);
    }
    number += options_.threads;
    connection->session()->SetPace(pace);
  }
  running_ = true;
  for (const auto& connection : connections_) {
    connection->Start(NowNs());
  }
  LoopUntil([&](uint64_t now_ns) {
    return (shared_.operations_left == 0 || now_ns >= plan.stop_ns) && AllDone(now_ns);
  });
}

}  // namespace kvstored::bench
