#include "base/event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>

#include "base/check.h"

namespace kvstored::base {
namespace {

int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void Event::WakeWaiter() {
  static_assert(sizeof(state_) == sizeof(uint32_t), "the kernel looks at 32 bits");
  ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Returns when the state is no longer kWaiting or the time is up.
void Event::Sleep(int64_t timeout_us) {
  const int64_t until_us = NowUs() + timeout_us;
  int64_t left_us = timeout_us;
  while (state_.load(std::memory_order_acquire) == kWaiting) {
    if (timeout_us >= 0 && left_us <= 0) {
      return;
    }
    const timespec left{.tv_sec = left_us / 1'000'000, .tv_nsec = left_us % 1'000'000 * 1000};
    const int64_t result = ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kWaiting,
                                     timeout_us < 0 ? nullptr : &left, nullptr, 0);
    KVS_CHECK(result == 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT, "errno=%d",
              errno);
    left_us = until_us - NowUs();
  }
}

}  // namespace kvstored::base
