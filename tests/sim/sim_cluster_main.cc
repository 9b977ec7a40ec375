// sim_cluster: runs seeds of the whole-cluster simulation in a child process.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/sim/run.h"
#include "tests/sim/worker.h"

namespace kvstored::sim {
namespace {

struct Arguments {
  RunOptions run;
  uint64_t first = 1;
  uint64_t count = 100;
  uint64_t each_fault_min = 0;  // asserted over all seeds
  uint64_t found_within = 0;    // a planted bug must be found
  std::string seeds_file;
  std::string plant;
  bool one_seed = false;
  bool verbose = false;
  bool twice = false;  // same seed, same trace
  bool keep_going = false;
};

bool Value(const std::string& argument, const char* name, std::string* value) {
  const std::string prefix = std::string("--") + name + "=";
  if (argument.rfind(prefix, 0) != 0) {
    return false;
  }
  *value = argument.substr(prefix.size());
  return true;
}

bool SetPlant(const std::string& name, Plants* plants) {
  const std::map<std::string, bool Plants::*> kPlants = {
      {"ack_before_persist", &Plants::ack_before_persist},
      {"no_checksum_check", &Plants::no_checksum_check},
      {"credit_off_by_one", &Plants::credit_off_by_one},
      {"no_epoch_check", &Plants::no_epoch_check},
      {"half_transaction", &Plants::half_transaction}};
  const auto found = kPlants.find(name);
  if (found != kPlants.end()) {
    plants->*found->second = true;
  }
  return found != kPlants.end();
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    std::string value;
    if (Value(argument, "seed", &value)) {
      arguments->first = std::strtoull(value.c_str(), nullptr, 10);
      arguments->count = 1;
      arguments->one_seed = true;
    } else if (Value(argument, "first", &value)) {
      arguments->first = std::strtoull(value.c_str(), nullptr, 10);
    } else if (Value(argument, "seeds", &value)) {
      arguments->count = std::strtoull(value.c_str(), nullptr, 10);
    } else if (Value(argument, "seeds-file", &value)) {
      arguments->seeds_file = value;
    } else if (Value(argument, "shards", &value)) {
      arguments->run.shards = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (Value(argument, "threads", &value)) {
      arguments->run.threads = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (Value(argument, "requests", &value)) {
      arguments->run.requests_min = std::strtoull(value.c_str(), nullptr, 10);
    } else if (Value(argument, "each-fault-min", &value)) {
      arguments->each_fault_min = std::strtoull(value.c_str(), nullptr, 10);
    } else if (Value(argument, "found-within", &value)) {
      arguments->found_within = std::strtoull(value.c_str(), nullptr, 10);
      arguments->count = arguments->found_within;
    } else if (Value(argument, "plant", &value) && SetPlant(value, &arguments->run.plants)) {
      arguments->plant = value;
    } else if (argument == "--verbose") {
      arguments->verbose = true;
    } else if (argument == "--twice") {
      arguments->twice = true;
    } else if (argument == "--keep-going") {
      arguments->keep_going = true;
    } else {
      std::fprintf(stderr, "sim_cluster: unknown argument %s\n", argument.c_str());
      return false;
    }
  }
  return true;
}

std::vector<uint64_t> SeedsOf(const Arguments& arguments) {
  std::vector<uint64_t> seeds;
  if (!arguments.seeds_file.empty()) {
    std::ifstream file(arguments.seeds_file);
    std::string line;
    while (std::getline(file, line)) {
      if (!line.empty() && line[0] != '#') {
        seeds.push_back(std::strtoull(line.c_str(), nullptr, 10));
      }
    }
    return seeds;
  }
  for (uint64_t i = 0; i < arguments.count; ++i) {
    seeds.push_back(arguments.first + i);
  }
  return seeds;
}

std::string Replay(const Arguments& arguments, uint64_t seed) {
  std::string line = "sim_cluster --seed=" + std::to_string(seed);
  if (arguments.run.shards != 0) {
    line += " --shards=" + std::to_string(arguments.run.shards);
  }
  if (arguments.run.threads != 0) {
    line += " --threads=" + std::to_string(arguments.run.threads);
  }
  if (arguments.run.requests_min != RunOptions().requests_min) {
    line += " --requests=" + std::to_string(arguments.run.requests_min);
  }
  if (!arguments.plant.empty()) {
    line += " --plant=" + arguments.plant;
  }
  return line + " --verbose";
}

// Every fault that the simulation knows, by the counter that tells that it really happened.
constexpr const char* kFaultKinds[] = {"fault_process_kill",
                                       "fault_power_cut",
                                       "fault_power_cut_everywhere",
                                       "power_cut_in_call",
                                       "fault_pause",
                                       "fault_clock_jump",
                                       "fault_promote",
                                       "fault_failover",
                                       "fault_member_drop",
                                       "fault_set_ack",
                                       "fault_switchover",
                                       "fault_orderly_restart",
                                       "fault_checkpoint",
                                       "fault_wipe",
                                       "fault_damage",
                                       "fault_read_error",
                                       "control_promote_done",
                                       "restart_wanted",
                                       "restarted_after_io_error",
                                       "net_long_delay",
                                       "net_link_error",
                                       "net_flushed_write",
                                       "net_landed_completion_lost",
                                       "net_rnr_injected",
                                       "net_stale_ring_key_injected",
                                       "net_corrupt_landing",
                                       "net_partition_stall",
                                       "net_partition_break",
                                       "net_slow_peer",
                                       "net_node_crash",
                                       "net_connect_refused",
                                       "net_connect_timeout",
                                       "net_reordered_across_lanes",
                                       "nvm_power_cut",
                                       "nvm_lost_write",
                                       "nvm_torn_write",
                                       "nvm_kept_write",
                                       "nvm_io_error",
                                       "nvm_no_space",
                                       "nvm_flipped_bit"};

int RunSeeds(const Arguments& arguments) {
  std::map<std::string, uint64_t> totals;
  uint64_t failed = 0;
  uint64_t done = 0;
  Worker worker(!arguments.verbose);
  for (const uint64_t seed : SeedsOf(arguments)) {
    RunOptions options = arguments.run;
    options.seed = seed;
    const RunResult result = worker.Run(options);
    ++done;
    for (const auto& [name, count] : result.counters) {
      totals[name] += count;
    }
    totals["requests"] += result.requests;
    totals["acknowledged"] += result.acknowledged;
    totals["faults"] += result.faults;
    totals["steps"] += result.steps;
    totals["simulated_ms"] += static_cast<uint64_t>(result.simulated_us / 1000);
    std::string error = result.error;
    if (error.empty() && arguments.twice) {
      const RunResult again = Worker(true).Run(options);  // in a process that ran nothing before
      if (again.trace_hash != result.trace_hash) {
        error = "the second run of the same seed took another course";
      }
    }
    if (error.empty()) {
      continue;
    }
    ++failed;
    std::printf("seed %llu: %s\n  replay: %s\n", static_cast<unsigned long long>(seed),
                error.c_str(), Replay(arguments, seed).c_str());
    std::fflush(stdout);
    if (arguments.found_within != 0) {
      std::printf("found: %s after %llu seeds\n", arguments.plant.c_str(),
                  static_cast<unsigned long long>(done));
      return 0;
    }
    if (!arguments.keep_going && failed >= 3) {
      break;
    }
  }
  if (arguments.found_within != 0) {
    std::printf("not found within %llu seeds: %s\n", static_cast<unsigned long long>(done),
                arguments.plant.c_str());
    return 1;
  }
  for (const auto& [name, count] : totals) {
    std::printf("%-40s %llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
  std::printf("%llu seeds, %llu failed\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(failed));
  for (const char* kind : kFaultKinds) {
    if (totals[kind] < arguments.each_fault_min) {
      std::printf("fault %s happened %llu times, fewer than %llu\n", kind,
                  static_cast<unsigned long long>(totals[kind]),
                  static_cast<unsigned long long>(arguments.each_fault_min));
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kvstored::sim

int main(int argc, char** argv) {
  kvstored::sim::Arguments arguments;
  if (!kvstored::sim::Parse(argc, argv, &arguments)) {
    return 2;
  }
  // Devices and rings come and go with each life of a node: their memory is kept, not given back.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  kvstored::base::InitLog(kvstored::base::LogFormat::kText, arguments.verbose ? "info" : "error");
  return kvstored::sim::RunSeeds(arguments);
}
