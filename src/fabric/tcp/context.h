// What all links and lanes of one TcpFabric share. One owner thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/poller.h"
#include "fabric/tcp/tcp_options.h"
#include "kvstored/clock.h"
#include "kvstored/fabric.h"

namespace kvstored::fabric {

class TcpLink;

struct TcpContext {
  base::Poller poller;
  TcpOptions options;
  TcpCounters counters;
  Clock* clock = nullptr;
  FabricHandler* handler = nullptr;  // of the running Poll, otherwise null
  uint64_t progress_count = 0;       // bytes moved, upcalls made: did anything happen?
  std::vector<TcpLink*> dirty;       // have something to send
  std::vector<TcpLink*> closed;      // wait for their OnClosed, in this order
  std::vector<uint8_t> scratch;      // of one receive on a control connection
};

}  // namespace kvstored::fabric
