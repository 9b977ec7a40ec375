// What depends on the machine, and the rules between keys.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"
#include "kvstored/limits.h"
#include "server/config.h"

namespace kvstored::server {
namespace {

constexpr uint64_t kMaxMemoryBytesMin = uint64_t{32} << 20;
constexpr uint64_t kPoolBytesStandard = uint64_t{64} << 20;

}  // namespace

Machine ThisMachine() {
  Machine machine;
  // What this process may use: taskset and containers take CPUs away.
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  machine.cpu_count = static_cast<uint32_t>(std::max(known ? CPU_COUNT(&allowed) : 1, 1));
  machine.memory_bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return machine;
}

absl::Status ResolveConfig(const Machine& machine, Config* config) {
  if (config->server.threads == 0) {
    // One CPU is for the log, replication and the kernel's share: on two CPUs a second shard thread
    // only adds a hand-over to every other command (docs/performance.md). A thread without a shard
    // would be idle.
    const uint32_t most = config->server.shards == 0 ? kThreadCountMax : config->server.shards;
    config->server.threads = std::clamp(machine.cpu_count - 1, 1u, most);
  }
  if (config->server.shards == 0) {
    config->server.shards = std::min(std::bit_ceil(config->server.threads), kShardCountMax);
  }
  if (config->memory.max_memory_bytes == 0) {
    config->memory.max_memory_bytes = std::max(machine.memory_bytes / 2, kMaxMemoryBytesMin);
  }
  if (config->memory.max_memory_bytes < kMaxMemoryBytesMin) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "memory.max_memory: %s is too little; at least %s, or 0 for half of the "
        "machine",
        FormatSize(config->memory.max_memory_bytes), FormatSize(kMaxMemoryBytesMin)));
  }
  if (config->memory.pool_size_bytes > config->memory.max_memory_bytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "memory.pool_size: %s is more than memory.max_memory (%s); lower the one, raise the "
        "other, or leave memory.pool_size at 0",
        FormatSize(config->memory.pool_size_bytes), FormatSize(config->memory.max_memory_bytes)));
  }
  if (config->server.threads > config->server.shards) {
    return absl::InvalidArgumentError(
        absl::StrFormat("server.threads: %d is more than server.shards (%d), a thread would have "
                        "no shard; set threads to at most %d, or to 0 for as many as are of use",
                        config->server.threads, config->server.shards, config->server.shards));
  }
  if (config->replication.gate_timeout_us < config->replication.commit_timeout_us) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "replication.gate_timeout: %s is less than replication.commit_timeout (%s); it must be at "
        "least that",
        FormatDuration(config->replication.gate_timeout_us),
        FormatDuration(config->replication.commit_timeout_us)));
  }
  if (config->replication.ack == AckLevel::kNone && config->replication.ack_replicas > 0) {
    return absl::InvalidArgumentError(
        "replication.ack_replicas: with replication.ack = \"none\" no replica acknowledges; it "
        "must "
        "be 0, or ack \"received\" or \"persisted\"");
  }
  if (config->server.data_dir.empty()) {
    return absl::InvalidArgumentError("server.data_dir: it must not be empty");
  }
  return absl::OkStatus();
}

uint64_t ClientMemoryBytes(const Config& config) {
  constexpr uint64_t kLeastBytes = uint64_t{16} << 20;
  return config.server.client_memory_bytes != 0
             ? config.server.client_memory_bytes
             : std::max(config.memory.max_memory_bytes / 2, kLeastBytes);
}

uint64_t InitialPoolBytes(const Config& config) {
  return config.memory.pool_size_bytes != 0
             ? config.memory.pool_size_bytes
             : std::min(kPoolBytesStandard, config.memory.max_memory_bytes);
}

}  // namespace kvstored::server
