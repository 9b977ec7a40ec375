// A named thread that loops until it is told to stop.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace kvstored::base {

class LoopThread {
 public:
  // Calls `step` again and again on a thread of its own, named `name` (at most 15 bytes), until
  // Stop().
  LoopThread(const std::string& name, std::function<void()> step);
  ~LoopThread();
  // Asks the loop to end and joins it. `wake` ends a step that sleeps.
  void Stop(const std::function<void()>& wake);

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace kvstored::base
