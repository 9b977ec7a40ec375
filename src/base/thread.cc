#include "base/thread.h"

#include <pthread.h>

#include "base/check.h"

namespace kvstored::base {

LoopThread::LoopThread(const std::string& name, std::function<void()> step)
    : thread_([this, name, step = std::move(step)] {
        pthread_setname_np(pthread_self(), name.c_str());
        while (!stop_.load(std::memory_order_acquire)) {  // partner: Stop
          step();
        }
      }) {
}

LoopThread::~LoopThread() {
  KVS_CHECK(!thread_.joinable(), "joinable=%d: Stop() first", 1);
}

void LoopThread::Stop(const std::function<void()>& wake) {
  stop_.store(true, std::memory_order_release);  // partner: the loop
  if (wake) {
    wake();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace kvstored::base
