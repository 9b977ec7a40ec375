// A child process that runs seeds one after the other: a seed that ends in a failed check is
// reported like any other, and the next one gets a new child. The memory of devices and rings is
// kept from seed to seed: touching it anew would cost as much as the simulation itself.
#pragma once

#include <sys/types.h>

#include "tests/sim/run.h"

namespace kvstored::sim {

class Worker {
 public:
  // `quiet`: the child's log goes nowhere.
  explicit Worker(bool quiet) : quiet_(quiet) {
  }
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  RunResult Run(const RunOptions& options);

 private:
  void Start();
  // Waits for the child and returns its status.
  int End();

  const bool quiet_;
  pid_t child_ = 0;
  int to_child_ = -1;
  int from_child_ = -1;
};

}  // namespace kvstored::sim
