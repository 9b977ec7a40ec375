// sim_cluster: runs seeds of the whole-cluster simulation, each in a process of its own, so that a
// seed that ends in a failed check is reported like any other and cannot disturb the next one.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/sim/run.h"

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

// What a child tells its parent, as lines.
std::string Serialize(const RunResult& result) {
  std::string error = result.error;
  for (char& c : error) {
    c = c == '\n' ? ' ' : c;
  }
  std::ostringstream out;
  out << "error " << error << "\ntrace " << result.trace_hash << "\nrequests " << result.requests
      << "\nacknowledged " << result.acknowledged << "\nfaults " << result.faults << "\nsteps "
      << result.steps << "\nsimulated " << result.simulated_us << "\n";
  for (const auto& [name, count] : result.counters) {
    out << "counter " << name << " " << count << "\n";
  }
  return out.str();
}

RunResult Deserialize(const std::string& text) {
  RunResult result;
  std::istringstream in(text);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "error") {
      result.error = line.size() > 6 ? line.substr(6) : "";
    } else if (what == "trace") {
      words >> result.trace_hash;
    } else if (what == "requests") {
      words >> result.requests;
    } else if (what == "acknowledged") {
      words >> result.acknowledged;
    } else if (what == "faults") {
      words >> result.faults;
    } else if (what == "steps") {
      words >> result.steps;
    } else if (what == "simulated") {
      words >> result.simulated_us;
    } else if (what == "counter") {
      std::string name;
      uint64_t count = 0;
      words >> name >> count;
      result.counters[name] = count;
    }
  }
  return result;
}

RunResult RunInChild(const RunOptions& options, bool quiet) {
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0) {
    std::perror("pipe");
    std::exit(2);
  }
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe_fds[0]);
    if (quiet && std::freopen("/dev/null", "w", stderr) == nullptr) {
      std::_Exit(2);
    }
    ::alarm(120);  // a seed that never ends is a failure as well
    const std::string text = Serialize(Run(options));
    size_t at = 0;
    while (at < text.size()) {
      const ssize_t wrote = ::write(pipe_fds[1], text.data() + at, text.size() - at);
      if (wrote <= 0) {
        std::_Exit(2);
      }
      at += static_cast<size_t>(wrote);
    }
    std::fflush(nullptr);
    std::_Exit(0);
  }
  ::close(pipe_fds[1]);
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = ::read(pipe_fds[0], buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(got));
  }
  ::close(pipe_fds[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  RunResult result = Deserialize(text);
  if (WIFSIGNALED(status)) {
    result.error = std::string("ended by signal ") + ::strsignal(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    result.error = "ended with status " + std::to_string(WEXITSTATUS(status));
  }
  return result;
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
  for (const uint64_t seed : SeedsOf(arguments)) {
    RunOptions options = arguments.run;
    options.seed = seed;
    const RunResult result = RunInChild(options, !arguments.verbose);
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
      const RunResult again = RunInChild(options, true);
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
