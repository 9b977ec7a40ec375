#include "base/system_clock.h"

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

int64_t ThreadCpuUs() {
  return ReadUs(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace kvstored::base
