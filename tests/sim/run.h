// One seed: a cluster of drawn shape under load and faults, then calm, convergence and judgement.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/sim/cluster.h"

namespace kvstored::sim {

struct RunOptions {
  uint64_t seed = 1;
  uint32_t shards = 0;   // 0: drawn
  uint32_t threads = 0;  // 0: drawn
  uint64_t requests_min = 500;
  Plants plants;
};

struct RunResult {
  std::string error;  // empty: all is well
  uint64_t trace_hash = 0;
  uint64_t requests = 0;
  uint64_t acknowledged = 0;
  uint64_t faults = 0;
  int64_t simulated_us = 0;
  uint64_t steps = 0;
  std::string shape;
  std::map<std::string, uint64_t> counters;
};

RunResult Run(const RunOptions& options);

}  // namespace kvstored::sim
