// A whole run: workers, progress, the end.
#pragma once

#include <atomic>
#include <string>

#include "kvbench/measurement.h"
#include "kvbench/options.h"

namespace kvstored::bench {

struct Outcome {
  Measurement measurement;
  double seconds = 0;      // from the end of the warm-up to the last reply
  double cpu_seconds = 0;  // of this process in the whole run, warm-up included
  bool interrupted = false;
  std::string failure;  // empty, or why it ended early
};

// Returns when all is done, when it cannot go on, or soon after `stop` is set: with what was
// measured so far. A failure sets `stop`, too. Shows how it goes on standard error if that is a
// terminal.
Outcome RunLoad(const Options& options, std::atomic<bool>* stop);

}  // namespace kvstored::bench
