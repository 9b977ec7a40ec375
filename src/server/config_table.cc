// The one table of keys.
#include <array>

#include "kvstored/limits.h"
#include "server/config.h"

namespace kvstored::server {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kGib = uint64_t{1} << 30;
constexpr uint64_t kTib = uint64_t{1} << 40;
constexpr uint64_t kMs = 1000;
constexpr uint64_t kSecond = 1000 * kMs;
constexpr uint64_t kHour = 3600 * kSecond;

#define KVS_FIELD(member)     \
  [](Config& c) -> FieldRef { \
    return &c.member;         \
  }

constexpr std::array kKeys = {
    KeySpec{"server.bind", KeyKind::kIp, KVS_FIELD(server.bind), "127.0.0.1", 0, 0, "", false,
            "Address of the front port, where clients connect."},
    KeySpec{"server.port", KeyKind::kPort, KVS_FIELD(server.port), "7379", 0, 65535, "", false,
            "Front port (RESP2 and RESP3). 0 takes any free one."},
    KeySpec{"server.data_dir", KeyKind::kPath, KVS_FIELD(server.data_dir), "/var/lib/kvstored", 0,
            0, "", false,
            "Everything that must survive lies here. Made with mode 0700, then locked."},
    KeySpec{"server.threads", KeyKind::kCount, KVS_FIELD(server.threads), "0", 0, kThreadCountMax,
            "", false,
            "Threads that run shards and connections, at most server.shards. 0: one fewer than "
            "CPUs, at\n"
            "least one."},
    KeySpec{"server.shards", KeyKind::kCount, KVS_FIELD(server.shards), "0", 0, kShardCountMax, "",
            false,
            "Parts of the key space. 0: the threads, rounded up to a power of two.\n"
            "Fixed when a data directory is made; a replica takes over its primary's."},
    KeySpec{"server.maxclients", KeyKind::kCount, KVS_FIELD(server.maxclients), "10000", 1, 1000000,
            "", true, "Client connections at a time; one more is told so and closed."},
    KeySpec{
        "server.client_memory", KeyKind::kSize, KVS_FIELD(server.client_memory_bytes), "0", kMib,
        64 * kTib, "", true,
        "Buffers of all clients together. Over it the client that holds most is closed, unless\n"
        "CLIENT NO-EVICT is on. 0: half of max_memory, at least 16MiB."},
    KeySpec{"server.tracking_table_max_keys", KeyKind::kCount,
            KVS_FIELD(server.tracking_table_max_keys), "1000000", 0, 1000000000, "", true,
            "Keys that are remembered for clients with CLIENT TRACKING; one more, and the readers\n"
            "of another are told that it changed. 0: no limit."},
    KeySpec{"server.timeout", KeyKind::kDuration, KVS_FIELD(server.timeout_us), "0", 0, 24 * kHour,
            "", true, "A client that is silent for so long is closed. 0: never."},
    KeySpec{"server.log_format", KeyKind::kChoice, KVS_FIELD(server.log_format), "text", 0, 0,
            "text|json", false, "One line an event, on standard error."},
    KeySpec{"server.log_level", KeyKind::kChoice, KVS_FIELD(server.log_level), "info", 0, 0,
            "debug|info|warning|error", true, "Least severe events that are written."},

    KeySpec{"memory.pool_size", KeyKind::kSize, KVS_FIELD(memory.pool_size_bytes), "0", 2 * kMib,
            64 * kTib, "", false,
            "Memory for items that is taken at the start; grows to max_memory by itself.\n"
            "0: 64MiB, or max_memory if that is less."},
    KeySpec{"memory.max_memory", KeyKind::kSize, KVS_FIELD(memory.max_memory_bytes), "0", 0,
            64 * kTib, "", true,
            "Bound of data, client, replication and checkpoint buffers together.\n"
            "0: half of the machine's memory. At least 32MiB."},
    KeySpec{"memory.eviction", KeyKind::kChoice, KVS_FIELD(memory.eviction), "noeviction", 0, 0,
            "noeviction|allkeys-lru|allkeys-lfu|allkeys-random|volatile-lru|volatile-lfu|"
            "volatile-random|volatile-ttl",
            true,
            "What goes when max_memory is reached. noeviction: nothing, writes get -OOM.\n"
            "allkeys: the least recently (lru) or least frequently (lfu) used key, or any;\n"
            "volatile: only keys with an expiry; ttl: the one that expires first."},

    KeySpec{"log.sync", KeyKind::kChoice, KVS_FIELD(log.sync), "always", 0, 0,
            "always|interval|off", true,
            "When the log reaches the device. always: before a write is answered;\n"
            "interval: each log.interval; off: when the kernel likes."},
    KeySpec{"log.interval", KeyKind::kDuration, KVS_FIELD(log.interval_us), "1s", kMs, 60 * kSecond,
            "", true, "Time between two syncs with sync = \"interval\"."},
    KeySpec{"log.segment_size", KeyKind::kSize, KVS_FIELD(log.segment_size_bytes), "64MiB",
            4 * kMib, 4 * kGib, "", false, "Size of the pre-written files of the log."},
    KeySpec{"log.retain", KeyKind::kSize, KVS_FIELD(log.retain_bytes), "1GiB", 0, 64 * kTib, "",
            true,
            "Log kept behind the newest checkpoint, so that a replica that was away\n"
            "catches up from it instead of a full sync."},
    KeySpec{"log.checkpoint_interval", KeyKind::kDuration, KVS_FIELD(log.checkpoint_interval_us),
            "15m", 0, 24 * kHour, "", true,
            "A checkpoint at least so often, if anything was written. 0: not by time."},
    KeySpec{"log.checkpoint_log_size", KeyKind::kSize, KVS_FIELD(log.checkpoint_log_size_bytes),
            "1GiB", 0, 64 * kTib, "", true,
            "A checkpoint when a restart would replay so much of the log. 0: not by size."},

    KeySpec{"replication.bind", KeyKind::kIp, KVS_FIELD(replication.bind), "127.0.0.1", 0, 0, "",
            false, "Address of the replication port, where replicas connect."},
    KeySpec{"replication.port", KeyKind::kPort, KVS_FIELD(replication.port), "7479", 0, 65535, "",
            false, "Replication port. 0 takes any free one."},
    KeySpec{
        "replication.primary", KeyKind::kAddress, KVS_FIELD(replication.primary), "", 0, 0, "",
        false,
        "\"host:port\" of the primary's replication port. Empty: this node starts as a primary.\n"
        "Counts for a new data directory only; then promote, demote and REPLICAOF decide."},
    KeySpec{"replication.ack", KeyKind::kChoice, KVS_FIELD(replication.ack), "persisted", 0, 0,
            "none|received|persisted", true,
            "What every member must have done before a write is answered.\n"
            "In the file it counts for a new data directory only."},
    KeySpec{"replication.ack_replicas", KeyKind::kCount, KVS_FIELD(replication.ack_replicas), "0",
            0, kReplicaCountMax, "", true,
            "Size of the member set: so many replicas must acknowledge each write.\n"
            "In the file it counts for a new data directory only."},
    KeySpec{"replication.commit_timeout", KeyKind::kDuration,
            KVS_FIELD(replication.commit_timeout_us), "2s", 10 * kMs, kHour, "", true,
            "Members that are missing or silent for so long: new writes get -NOREPLICAS."},
    KeySpec{"replication.gate_timeout", KeyKind::kDuration, KVS_FIELD(replication.gate_timeout_us),
            "10s", 10 * kMs, kHour, "", true,
            "A connection whose reply waits longer for acknowledgements is closed."},
    KeySpec{"replication.link_timeout", KeyKind::kDuration, KVS_FIELD(replication.link_timeout_us),
            "5s", 100 * kMs, kHour, "", false,
            "A peer that sends nothing, not even heartbeats, for so long is gone."},
    KeySpec{"replication.secret_file", KeyKind::kPath, KVS_FIELD(replication.secret_file), "", 0, 0,
            "", false,
            "File with the secret that all nodes share (at least 16 bytes, mode 0600).\n"
            "Empty: the replication port accepts loopback peers only."},
    KeySpec{"replication.lanes", KeyKind::kCount, KVS_FIELD(replication.lanes), "2", 1, 16, "",
            false, "Parallel connections to each replica; never more than there are shards."},

    KeySpec{"metrics.bind", KeyKind::kIp, KVS_FIELD(metrics.bind), "127.0.0.1", 0, 0, "", false,
            "Address of /metrics, /healthz and /readyz (plain HTTP)."},
    KeySpec{"metrics.port", KeyKind::kPort, KVS_FIELD(metrics.port), "9479", 0, 65535, "", false,
            "Port of the metrics. 0 takes any free one."},

    KeySpec{"latency.slowlog_threshold", KeyKind::kLimit, KVS_FIELD(latency.slowlog_threshold_us),
            "10ms", 0, 24 * kHour, "", true,
            "Commands that take at least so long go to SLOWLOG. 0: all; off: none.\n"
            "Below 10ms each command is timed by itself, which costs a twentieth of a short one."},
    KeySpec{"latency.slowlog_max_len", KeyKind::kCount, KVS_FIELD(latency.slowlog_max_len), "128",
            0, 1000000, "", true, "Entries that SLOWLOG keeps."},
    KeySpec{"latency.monitor_threshold", KeyKind::kDuration,
            KVS_FIELD(latency.monitor_threshold_us), "0", kMs, kHour, "", true,
            "Commands and parts of the threads' rounds that take at least so long go to LATENCY.\n"
            "0: none. Whole milliseconds."},
    KeySpec{"latency.tracking", KeyKind::kChoice, KVS_FIELD(latency.tracking), "yes", 0, 0,
            "yes|no", true, "Times of each command for LATENCY HISTOGRAM and INFO latencystats."},
    KeySpec{"latency.percentiles", KeyKind::kPercentiles, KVS_FIELD(latency.percentiles),
            "50 99 99.9", 0, 0, "", true, "Those that INFO latencystats prints."},

    KeySpec{"recovery.on_damage", KeyKind::kChoice, KVS_FIELD(recovery.on_damage), "refuse", 0, 0,
            "refuse|rejoin", false,
            "What a replica does whose data set is damaged. refuse: it does not start; rejoin: it\n"
            "keeps the damaged set aside and takes everything from its primary again. A primary\n"
            "always refuses, and so does a node whose device fails to read."},

    KeySpec{"security.password_file", KeyKind::kPath, KVS_FIELD(security.password_file), "", 0, 0,
            "", false,
            "File with the password that AUTH asks for (mode 0600). Empty: none is asked."},
    KeySpec{"security.debug_command", KeyKind::kChoice, KVS_FIELD(security.debug_command), "no", 0,
            0, "no|local|yes", false,
            "Who may send DEBUG, which can stop the node for a while: nobody, clients of this\n"
            "machine, all."},
};

#undef KVS_FIELD

}  // namespace

std::span<const KeySpec> ConfigKeys() {
  return kKeys;
}

const KeySpec* FindConfigKey(std::string_view name) {
  for (const KeySpec& key : kKeys) {
    if (name == key.name) {
      return &key;
    }
  }
  return nullptr;
}

}  // namespace kvstored::server
