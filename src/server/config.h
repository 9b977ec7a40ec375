// Configuration: TOML file and --set into one struct, checked against one table of keys. The same
// table writes config/kvstored.toml, answers CONFIG GET and SET, and words every error: file, line,
// key and what is allowed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstored/types.h"

namespace kvstored::server {

// What the file says, or the default. Bytes are _bytes or named *_size/max_memory, durations are
// _us. Immutable after Start but for the keys that the table marks as changeable (ConfigSet makes a
// copy).
struct Config {
  struct Server {
    std::string bind;   // one IP address
    uint16_t port = 0;  // 0: any free port
    std::string data_dir;
    uint32_t threads = 0;  // 0 until ResolveConfig
    uint32_t shards = 0;   // 0 until ResolveConfig; counts only for a new data directory
    uint32_t maxclients = 0;
    uint64_t client_memory_bytes = 0;      // 0: see ClientMemoryBytes
    uint32_t tracking_table_max_keys = 0;  // 0: no limit
    uint64_t timeout_us = 0;               // idle clients are closed; 0: never
    std::string log_format;                // text, json
    std::string log_level;                 // debug, info, warning, error
  } server;
  struct Memory {
    uint64_t pool_size_bytes = 0;   // 0: see InitialPoolBytes
    uint64_t max_memory_bytes = 0;  // 0 until ResolveConfig
    std::string eviction;           // store::kEvictionNames
  } memory;
  struct Log {
    LogSync sync = LogSync::kAlways;
    uint64_t interval_us = 0;
    uint64_t segment_size_bytes = 0;
    uint64_t retain_bytes = 0;
    uint64_t checkpoint_interval_us = 0;     // 0: never by time
    uint64_t checkpoint_log_size_bytes = 0;  // 0: never by size
  } log;
  struct Replication {
    std::string bind;
    uint16_t port = 0;
    std::string primary;  // "host:port", empty: start as primary; counts only for a new directory
    AckLevel ack = AckLevel::kPersisted;  // counts only for a new directory
    uint32_t ack_replicas = 0;            // counts only for a new directory
    uint64_t commit_timeout_us = 0;
    uint64_t gate_timeout_us = 0;
    uint64_t link_timeout_us = 0;
    std::string secret_file;  // empty: loopback peers only
    uint32_t lanes = 0;
  } replication;
  struct Metrics {
    std::string bind;
    uint16_t port = 0;
  } metrics;
  struct Latency {
    uint64_t slowlog_threshold_us = 0;  // UINT64_MAX: nothing is logged
    uint64_t slowlog_max_len = 0;
    uint64_t monitor_threshold_us = 0;  // 0: nothing is watched
    std::string tracking;               // yes, no
    std::string percentiles;            // "50 99 99.9"
  } latency;
  struct Recovery {
    std::string on_damage;  // refuse, rejoin
  } recovery;
  struct Security {
    std::string password_file;  // empty: no password
    std::string debug_command;  // no, local, yes
  } security;
};

enum class KeyKind : uint8_t {
  kString,  // any text
  kPath,
  kIp,       // an IPv4 or IPv6 address
  kAddress,  // "host:port" or empty
  kChoice,   // one of KeySpec::choices
  kCount,    // whole number
  kPort,
  kSize,         // "8GiB"
  kDuration,     // "500ms"
  kLimit,        // a duration or "off"
  kPercentiles,  // "50 99 99.9"
};

using FieldRef = std::variant<uint16_t*, uint32_t*, uint64_t*, std::string*, AckLevel*, LogSync*>;

struct KeySpec {
  const char* name;  // "section.key"
  KeyKind kind;
  FieldRef (*field)(Config& config);
  const char* standard;  // the default, as the file would say it (without quotes)
  uint64_t min;          // numbers, bytes, microseconds; a default of 0 may lie below
  uint64_t max;
  const char* choices;  // "a|b|c"; of enums, in the order of their values
  bool changeable;      // by CONFIG SET, without a restart
  const char* help;     // lines of the comment in config/kvstored.toml
};

std::span<const KeySpec> ConfigKeys();
const KeySpec* FindConfigKey(std::string_view name);

// All keys at their defaults.
Config DefaultConfig();

// `file` empty: defaults only. Each of `sets` is "section.key=value" and wins over the file: the
// value is read as TOML, otherwise taken as a bare string. Checks keys and ranges, not the machine.
[[nodiscard]] absl::StatusOr<Config> LoadConfig(const std::string& file,
                                                const std::vector<std::string>& sets);
// `file` only names the source in errors.
[[nodiscard]] absl::Status ParseConfig(std::string_view text, const std::string& file,
                                       Config* config);
[[nodiscard]] absl::Status ApplyConfigSet(const std::string& assignment, Config* config);

// Rules between keys ("pool_size at most max_memory"); fills in what depends on the machine:
// threads, shards, max_memory.
struct Machine {
  uint32_t cpu_count = 1;
  uint64_t memory_bytes = 0;
};
Machine ThisMachine();
[[nodiscard]] absl::Status ResolveConfig(const Machine& machine, Config* config);

// What memory.pool_size asks for. Its 0 is not resolved to a number: max_memory may change while
// the node runs, and nobody has set two keys that contradict each other then. Config is resolved.
uint64_t InitialPoolBytes(const Config& config);
// The same of server.client_memory.
uint64_t ClientMemoryBytes(const Config& config);

// The value as the file would write it, without quotes ("8GiB", "500ms", "persisted", "7379").
std::string ConfigValueText(const KeySpec& key, const Config& config);
// Reads such a text. The error says only what is allowed.
[[nodiscard]] absl::Status SetConfigValue(const KeySpec& key, std::string_view text,
                                          Config* config);
// What a key accepts, for errors and the file: "a whole number from 1 to 256".
std::string AllowedText(const KeySpec& key);

// config/kvstored.toml: every key with help, unit, range and default.
std::string ConfigReference();

// CONFIG GET: kvstored's own keys and the Redis names that clients read, by glob, case-insensitive.
std::vector<std::pair<std::string, std::string>> ConfigGet(const Config& config,
                                                           std::string_view pattern);
// CONFIG SET, all or nothing: on OK `config` is changed and `changed` names the keys (section.key)
// whose value is another one now. The error's message is what Redis says after "ERR ". Does not
// resolve.
[[nodiscard]] absl::Status ConfigSet(const std::vector<std::pair<std::string, std::string>>& pairs,
                                     Config* config, std::vector<std::string>* changed);

// What a configuration that is read again asks for.
struct ConfigChanges {
  std::vector<std::pair<std::string, std::string>> to_set;  // for ConfigSet
  // Need a restart; or, as replication.ack, count for a new data directory only.
  std::vector<std::string> not_taken;
};
// All three resolved. `at_start` is what was read when the process started: a key that cannot be
// changed is judged by it, since the running one has the ports that were free.
ConfigChanges CompareConfig(const Config& at_start, const Config& running, const Config& read);

// "8GiB", "512", "64KiB", "1MB" (decimal); "500ms", "2s", "15m", "1h", "100us", "0". False: not
// such a text.
bool ParseSize(std::string_view text, uint64_t* bytes);
bool ParseDuration(std::string_view text, uint64_t* duration_us);
// "50 99 99.9".
bool ParsePercentiles(std::string_view text, std::vector<double>* percentiles);
std::string FormatSize(uint64_t bytes);
std::string FormatDuration(uint64_t duration_us);

}  // namespace kvstored::server
