#include "base/system_clock.h"

#include <sys/resource.h>

#include <ctime>

namespace kvstored::base {
namespace {

int64_t ReadUs(clockid_t id) {
  timespec now{};
  ::clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

int64_t SystemClock::WallUs() {
  return ReadUs(CLOCK_REALTIME);
}

int64_t SystemClock::MonotonicUs() {
  return ReadUs(CLOCK_BOOTTIME);
}

int64_t SystemClock::CoarseUs() {
  return ReadUs(CLOCK_MONOTONIC_COARSE);
}

ThreadUsage SystemClock::UsageOfThread() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto us = [](const timeval& time) {
    return int64_t{time.tv_sec} * 1'000'000 + time.tv_usec;
  };
  return {.cpu_us = us(usage.ru_utime) + us(usage.ru_stime),
          .preemption_count = static_cast<uint64_t>(usage.ru_nivcsw)};
}

int64_t ThreadCpuUs() {
  return ReadUs(CLOCK_THREAD_CPUTIME_ID);
}

void SleepUs(int64_t us) {
  const timespec pause = {.tv_sec = us / 1'000'000, .tv_nsec = us % 1'000'000 * 1000};
  ::nanosleep(&pause, nullptr);
}

}  // namespace kvstored::base
