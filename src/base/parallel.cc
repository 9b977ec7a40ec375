#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace kvstored::base {

void ParallelFor(size_t count, size_t thread_count, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    // relaxed: only the number is shared; join orders the effects.
    for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      body(i);
    }
  };
  const size_t extra = std::min(count, thread_count) > 1 ? std::min(count, thread_count) - 1 : 0;
  std::vector<std::thread> threads;
  threads.reserve(extra);
  for (size_t i = 0; i < extra; ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace kvstored::base
