// Settings and counters of the TCP fabric.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvstored::fabric {

struct TcpOptions {
  // Writes of a lane that may wait to be sent; more is kWait.
  uint32_t send_queue_depth = 256;
  // For all addresses of a name together.
  int64_t connect_timeout_us = 3'000'000;
  // From accept to the introduction, and from OpenLanes to the last lane.
  int64_t handshake_timeout_us = 5'000'000;
  // A peer that acknowledges nothing, or is silent to keepalive probes, for this long is gone.
  int64_t link_timeout_us = 10'000'000;
  // Accepted connections that have not introduced themselves; beyond it the oldest is dropped.
  uint32_t unfinished_handshake_count_max = 128;
  // A stranger's link may hold one message of 1 MiB before it is admitted: this bounds them all.
  uint32_t accepted_link_count_max = 64;
  // One Poll moves at most this per lane and direction, so that one lane never starves the others.
  size_t lane_bytes_per_poll = size_t{512} << 10;
  // Messages that a peer does not take; beyond it the link closes.
  size_t message_queue_bytes_max = size_t{16} << 20;
};

// Since the start; read on the owner thread.
struct TcpCounters {
  uint64_t refused_count = 0;    // bad, slow or too many introductions
  uint64_t send_call_count = 0;  // system calls on lanes
  uint64_t receive_call_count = 0;
};

}  // namespace kvstored::fabric
