// A node that costs a test little: one thread, little memory, short segments, no timed checkpoints.
#pragma once

#include "server/config.h"

namespace kvstored::server {

inline Config SmallConfig() {
  Config config = DefaultConfig();
  config.server.threads = 1;
  config.server.shards = 2;
  config.memory.pool_size_bytes = uint64_t{2} << 20;
  config.memory.max_memory_bytes = uint64_t{64} << 20;
  config.log.segment_size_bytes = uint64_t{256} << 10;
  config.log.checkpoint_interval_us = 0;
  return config;
}

}  // namespace kvstored::server
