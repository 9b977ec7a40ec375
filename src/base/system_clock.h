// The real clocks.
#pragma once

#include "kvstored/clock.h"

namespace kvstored::base {

class SystemClock : public Clock {
 public:
  int64_t WallUs() override;
  int64_t MonotonicUs() override;
  int64_t CoarseUs() override;
  ThreadUsage UsageOfThread() override;
};

// CPU time of the calling thread: what others do on the machine does not count.
int64_t ThreadCpuUs();
// The calling thread sleeps. For what an operator asked to stand still.
void SleepUs(int64_t us);

}  // namespace kvstored::base
