// The real clocks.
#pragma once

#include "kvstored/clock.h"

namespace kvstored::base {

class SystemClock : public Clock {
 public:
  int64_t WallUs() override;
  int64_t MonotonicUs() override;
};

// CPU time of the calling thread: what others do on the machine does not count.
int64_t ThreadCpuUs();

}  // namespace kvstored::base
