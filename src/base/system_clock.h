// The real clocks.
#pragma once

#include "kvstored/clock.h"

namespace kvstored::base {

class SystemClock : public Clock {
 public:
  int64_t WallUs() override;
  int64_t MonotonicUs() override;
};

}  // namespace kvstored::base
