// CONFIG GET and SET: own keys under their own names, and the Redis names that clients and tools
// read, mapped. Error texts as Redis 7.0.15 (src/config.c there).
#include <algorithm>
#include <array>
#include <span>

#include "absl/strings/str_format.h"
#include "command/glob.h"
#include "command/numbers.h"
#include "server/config.h"
#include "server/config_text.h"

namespace kvstored::server {
namespace {

enum class Form : uint8_t {
  kText,
  kBytes,
  kSeconds,
  kMilliseconds,
  kMicroseconds,  // -1: off
  kInteger,
  kYesNo,
  kPercentiles,
  kSync,
  kLevel
};

// A Redis name that stands for a key of ours.
struct Mapped {
  const char* name;
  const char* key;
  Form form;
};
constexpr std::array<Mapped, 18> kMapped = {{
    {"appendfsync", "log.sync", Form::kSync},
    {"bind", "server.bind", Form::kText},
    {"dir", "server.data_dir", Form::kText},
    {"enable-debug-command", "security.debug_command", Form::kText},
    {"io-threads", "server.threads", Form::kText},
    {"latency-monitor-threshold", "latency.monitor_threshold", Form::kMilliseconds},
    {"latency-tracking", "latency.tracking", Form::kYesNo},
    {"latency-tracking-info-percentiles", "latency.percentiles", Form::kPercentiles},
    {"loglevel", "server.log_level", Form::kLevel},
    {"maxclients", "server.maxclients", Form::kText},
    {"maxmemory", "memory.max_memory", Form::kBytes},
    {"maxmemory-clients", "server.client_memory", Form::kBytes},
    {"maxmemory-policy", "memory.eviction", Form::kText},
    {"port", "server.port", Form::kText},
    {"slowlog-log-slower-than", "latency.slowlog_threshold", Form::kMicroseconds},
    {"slowlog-max-len", "latency.slowlog_max_len", Form::kInteger},
    {"timeout", "server.timeout", Form::kSeconds},
    {"tracking-table-max-keys", "server.tracking_table_max_keys", Form::kText},
}};

// A Redis name whose value is a fact here; setting the same value is fine.
struct Fixed {
  const char* name;
  const char* value;
};
constexpr std::array<Fixed, 12> kFixed = {{
    {"appendonly", "yes"},
    {"cluster-enabled", "no"},
    {"databases", "1"},
    {"lua-time-limit", "0"},
    {"notify-keyspace-events", ""},
    {"proto-max-bulk-len", "536870912"},
    {"replica-read-only", "yes"},
    {"replica-serve-stale-data", "yes"},
    {"save", ""},
    {"slave-read-only", "yes"},
    {"stop-writes-on-bgsave-error", "yes"},
    {"tcp-keepalive", "300"},
}};

struct Pair {
  std::string_view redis;
  std::string_view own;
};
constexpr std::array<Pair, 3> kSyncNames = {
    {{"always", "always"}, {"everysec", "interval"}, {"no", "off"}}};
constexpr std::array<Pair, 4> kLevelNames = {
    {{"debug", "debug"}, {"notice", "info"}, {"verbose", "info"}, {"warning", "warning"}}};

std::span<const Pair> NamesOf(Form form) {
  return form == Form::kSync ? std::span<const Pair>(kSyncNames) : kLevelNames;
}

std::string ToRedis(const Mapped& mapped, const Config& config) {
  const KeySpec& key = *FindConfigKey(mapped.key);
  const std::string text = ConfigValueText(key, config);
  switch (mapped.form) {
    case Form::kText:
    case Form::kInteger:
    case Form::kYesNo:
    case Form::kPercentiles:
      return text;
    case Form::kBytes:
      return std::to_string(mapped.name == std::string_view("maxmemory")
                                ? config.memory.max_memory_bytes
                                : ClientMemoryBytes(config));
    case Form::kSeconds:
      return std::to_string((config.server.timeout_us + 999999) / 1000000);
    case Form::kMilliseconds:
      return std::to_string((config.latency.monitor_threshold_us + 999) / 1000);
    case Form::kMicroseconds:
      // Off is the largest number, which is -1.
      return std::to_string(static_cast<int64_t>(config.latency.slowlog_threshold_us));
    case Form::kSync:
    case Form::kLevel:
      for (const Pair& pair : NamesOf(mapped.form)) {
        if (pair.own == text) {
          return std::string(pair.redis);
        }
      }
      break;
  }
  return text;
}

// Redis' units: "1gb" = 2^30, "1g" = 10^9 (memtoull in its util.c).
bool FromRedisBytes(std::string_view text, std::string* own) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    ++digits;
  }
  const std::string unit = command::ToLower(text.substr(digits));
  const std::string number(text.substr(0, digits));
  constexpr std::array<Pair, 8> kUnits = {{{"", ""},
                                           {"b", ""},
                                           {"k", "KB"},
                                           {"kb", "KiB"},
                                           {"m", "MB"},
                                           {"mb", "MiB"},
                                           {"g", "GB"},
                                           {"gb", "GiB"}}};
  for (const Pair& pair : kUnits) {
    if (pair.redis == unit && digits > 0) {
      *own = number + std::string(pair.own);
      return true;
    }
  }
  return false;
}

std::string NotAnInteger(std::string_view text, int64_t min, int64_t max) {
  int64_t value = 0;
  if (!command::ParseInt64(text, &value)) {
    return "argument couldn't be parsed into an integer";
  }
  return value >= min && value <= max
             ? std::string()
             : absl::StrFormat("argument must be between %d and %d inclusive", min, max);
}

std::string NotPercentiles(std::string_view text) {
  std::vector<double> numbers;
  if (!ParseNumbers(text, &numbers)) {
    return "Invalid latency-tracking-info-percentiles parameters";
  }
  return ParsePercentiles(text, &numbers)
             ? std::string()
             : "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]";
}

// Empty, or why Redis would not take it.
std::string FromRedis(const Mapped& mapped, std::string_view text, std::string* own) {
  const auto max = static_cast<int64_t>(FindConfigKey(mapped.key)->max);
  uint64_t number = 0;
  switch (mapped.form) {
    case Form::kText:
      *own = std::string(text);
      return {};
    case Form::kBytes:
      return FromRedisBytes(text, own) ? "" : "argument must be a memory value";
    case Form::kSeconds:
      *own = std::string(text) + "s";
      if (ParseCount(text, &number)) {
        return {};
      }
      break;
    case Form::kMilliseconds:
      *own = text == "0" ? "0" : std::string(text) + "ms";
      return NotAnInteger(text, 0, max / 1000);
    case Form::kMicroseconds:
      *own = text == "-1" ? "off" : std::string(text) + "us";
      return NotAnInteger(text, -1, max);
    case Form::kInteger:
      *own = std::string(text);
      return NotAnInteger(text, 0, max);
    case Form::kYesNo:
      *own = command::ToLower(text);
      return *own == "yes" || *own == "no" ? "" : "argument must be 'yes' or 'no'";
    case Form::kPercentiles:
      *own = std::string(text);
      return NotPercentiles(text);
    case Form::kSync:
    case Form::kLevel:
      for (const Pair& pair : NamesOf(mapped.form)) {
        if (pair.redis == text) {
          *own = std::string(pair.own);
          return {};
        }
      }
      break;
  }
  return absl::StrFormat("'%s' is not allowed", text.substr(0, 80));
}

absl::Status Failed(const std::string& name, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrFormat("CONFIG SET failed (possibly related to argument '%s') - %s", name, why));
}

absl::Status SetOne(const std::string& given, const std::string& value, Config* config,
                    const KeySpec** touched) {
  const std::string name = command::ToLower(given);
  for (const Fixed& fixed : kFixed) {
    if (name == fixed.name) {
      return value == fixed.value
                 ? absl::OkStatus()
                 : Failed(given, absl::StrFormat("it is always '%s' here", fixed.value));
    }
  }
  const auto mapped = std::find_if(kMapped.begin(), kMapped.end(),
                                   [&](const Mapped& entry) { return name == entry.name; });
  const KeySpec* key = FindConfigKey(mapped != kMapped.end() ? mapped->key : name);
  if (key == nullptr) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "Unknown option or number of arguments for CONFIG SET - '%s'", given.substr(0, 128)));
  }
  if (!key->changeable) {
    return Failed(given, "can't set immutable config");
  }
  std::string own = value;
  if (mapped != kMapped.end()) {
    if (const std::string why_not = FromRedis(*mapped, value, &own); !why_not.empty()) {
      return Failed(given, why_not);
    }
  }
  const absl::Status status = SetConfigValue(*key, own, config);
  if (!status.ok()) {
    return Failed(given, std::string(status.message()));
  }
  *touched = key;
  return absl::OkStatus();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ConfigGet(const Config& config,
                                                           std::string_view pattern) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Mapped& mapped : kMapped) {
    if (command::GlobMatch(pattern, mapped.name, /*ignore_case=*/true)) {
      found.emplace_back(mapped.name, ToRedis(mapped, config));
    }
  }
  for (const Fixed& fixed : kFixed) {
    if (command::GlobMatch(pattern, fixed.name, /*ignore_case=*/true)) {
      found.emplace_back(fixed.name, fixed.value);
    }
  }
  for (const KeySpec& key : ConfigKeys()) {
    if (command::GlobMatch(pattern, key.name, /*ignore_case=*/true)) {
      found.emplace_back(key.name, ConfigValueText(key, config));
    }
  }
  return found;
}

ConfigChanges CompareConfig(const Config& at_start, const Config& running, const Config& read) {
  ConfigChanges changes;
  for (const KeySpec& key : ConfigKeys()) {
    // After a failover the operator has another member set than the file: a reload for the sake of
    // a log level must not bring the old one back.
    const std::string_view name = key.name;
    const bool of_directory = name == "replication.ack" || name == "replication.ack_replicas";
    const bool changeable = key.changeable && !of_directory;
    const std::string value = ConfigValueText(key, read);
    if (value == ConfigValueText(key, changeable ? running : at_start)) {
      continue;
    }
    if (changeable) {
      changes.to_set.emplace_back(name, value);
    } else {
      changes.not_taken.emplace_back(name);
    }
  }
  return changes;
}

absl::Status ConfigSet(const std::vector<std::pair<std::string, std::string>>& pairs,
                       Config* config, std::vector<std::string>* changed) {
  Config next = *config;
  std::vector<const KeySpec*> keys;
  for (const auto& [name, value] : pairs) {
    const KeySpec* key = nullptr;
    const absl::Status status = SetOne(name, value, &next, &key);
    if (!status.ok()) {
      return status;
    }
    if (key != nullptr && std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return Failed(name, "duplicate parameter");
    }
    if (key != nullptr) {
      keys.push_back(key);
    }
  }
  for (const KeySpec* key : keys) {
    if (ConfigValueText(*key, next) != ConfigValueText(*key, *config)) {
      changed->emplace_back(key->name);
    }
  }
  *config = std::move(next);
  return absl::OkStatus();
}

}  // namespace kvstored::server
