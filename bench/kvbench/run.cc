#include "kvbench/run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <vector>

#include "fmt/format.h"
#include "kvbench/connection.h"
#include "kvbench/key_space.h"
#include "kvbench/requests.h"
#include "kvbench/worker.h"

namespace kvstored::bench {
namespace {

constexpr auto kProgressEvery = std::chrono::milliseconds(500);

uint64_t NsOf(double seconds) {
  return static_cast<uint64_t>(seconds * 1e9);
}

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Plan PlanOf(const Options& options) {
  Plan plan;
  plan.start_ns = NowNs();
  plan.measure_from_ns = plan.start_ns + NsOf(options.warm_up_s);
  if (options.operations == 0 && !options.load) {
    plan.stop_ns = plan.measure_from_ns + NsOf(options.duration_s);
  }
  return plan;
}

using Workers = std::vector<std::unique_ptr<Worker>>;

// One line that is written over again and again.
class Progress {
 public:
  Progress(const Workers& workers, const Plan& plan)
      : workers_(workers), plan_(plan), shown_(::isatty(STDERR_FILENO) == 1) {
  }
  void Show() {
    if (!shown_) {
      return;
    }
    const uint64_t now_ns = NowNs();
    uint64_t done = 0;
    uint64_t errors = 0;
    for (const auto& worker : workers_) {
      done += worker->operations_done();
      errors += worker->errors_seen();
    }
    const double seconds = static_cast<double>(now_ns - last_ns_) / 1e9;
    const std::string text =
        now_ns < plan_.measure_from_ns
            ? std::string("warming up")
            : fmt::format("{:.0f} s  {} operations  {:.0f} op/s  {} errors",
                          static_cast<double>(now_ns - plan_.measure_from_ns) / 1e9, done,
                          static_cast<double>(done - last_done_) / seconds, errors);
    fmt::print(stderr, "\r{:<72}", text);
    std::fflush(stderr);
    last_ns_ = now_ns;
    last_done_ = done;
  }
  void Clear() {
    if (shown_) {
      fmt::print(stderr, "\r{:<72}\r", "");
      std::fflush(stderr);
    }
  }

 private:
  const Workers& workers_;
  const Plan plan_;
  const bool shown_;
  uint64_t last_ns_ = NowNs();
  uint64_t last_done_ = 0;
};

// One that fails takes the others with it: their figures would be of another load.
void RunWorkers(const Workers& workers, const Plan& plan, std::atomic<bool>* stop) {
  std::vector<std::future<void>> ends;
  ends.reserve(workers.size());
  for (const auto& worker : workers) {
    ends.push_back(std::async(std::launch::async, [&worker, &plan, stop] {
      worker->Run(plan);
      if (!worker->failure().empty()) {
        stop->store(true);
      }
    }));
  }
  Progress progress(workers, plan);
  for (const auto& end : ends) {
    while (end.wait_for(kProgressEvery) != std::future_status::ready) {
      progress.Show();
    }
  }
  progress.Clear();
}

}  // namespace

Outcome RunLoad(const Options& options, std::atomic<bool>* stop) {
  Outcome outcome;
  Address address;
  outcome.failure = Resolve(options.host, options.port, &address);
  if (!outcome.failure.empty()) {
    return outcome;
  }
  const Requests requests(options);
  KeySpace keys(options.load ? 0 : options.key_count);
  Workers workers;
  for (uint32_t i = 0; i < options.threads; ++i) {
    workers.push_back(std::make_unique<Worker>(options, i, &address, &requests, &keys, stop));
  }
  for (const auto& worker : workers) {
    worker->Open();
    if (!worker->failure().empty() || stop->load()) {
      outcome.failure = worker->failure();
      outcome.interrupted = stop->load();
      return outcome;
    }
  }
  const Plan plan = PlanOf(options);
  const double cpu_before = CpuSeconds();
  RunWorkers(workers, plan, stop);
  outcome.cpu_seconds = CpuSeconds() - cpu_before;
  for (const auto& worker : workers) {
    outcome.measurement.Merge(worker->measurement());
    if (outcome.failure.empty()) {
      outcome.failure = worker->failure();
    }
  }
  const uint64_t last_ns = outcome.measurement.last_reply_ns;
  outcome.seconds = last_ns > plan.measure_from_ns
                        ? static_cast<double>(last_ns - plan.measure_from_ns) / 1e9
                        : 0;
  outcome.interrupted = stop->load() && outcome.failure.empty();
  return outcome;
}

}  // namespace kvstored::bench
