// What the node tells of itself: INFO sections, ROLE, status and members as JSON.
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/hex.h"
#include "server/node.h"
#include "server/report_text.h"

namespace kvstored::server {
namespace {

using Json = nlohmann::ordered_json;

// Item, record and what they take besides, of a write that nobody would call large.
constexpr uint64_t kUsualWriteBytes = uint64_t{16} << 10;

std::string Line(std::string_view name, std::string_view value) {
  return command::InfoLine(name, value);
}
std::string Line(std::string_view name, uint64_t value) {
  return Line(name, std::to_string(value));
}

// Redis clients compare 40 hexadecimal digits.
std::string Hex40(const Id128& id) {
  return base::ToHex(id) + std::string(8, '0');
}

const char* AckName(AckLevel ack) {
  switch (ack) {
    case AckLevel::kNone:
      return "none";
    case AckLevel::kReceived:
      return "received";
    case AckLevel::kPersisted:
      return "persisted";
  }
  return "?";
}

const char* KindName(NvmKind kind) {
  switch (kind) {
    case NvmKind::kPmem:
      return "pmem";
    case NvmKind::kDisk:
      return "disk";
    case NvmKind::kVolatile:
      return "volatile";
  }
  return "?";
}

std::pair<std::string, uint16_t> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return {address, uint16_t{0}};
  }
  return {address.substr(0, colon),
          static_cast<uint16_t>(std::strtoul(address.c_str() + colon + 1, nullptr, 10))};
}

}  // namespace

command::NodeApi::RoleFacts Node::RoleNow() {
  const Report now = report();
  const log::Meta meta = core_->identity->meta();
  RoleFacts facts;
  facts.role = meta.role;
  const log::Log* log = core_->log();
  for (ShardId shard = 0; log != nullptr && shard < core_->shard_count(); ++shard) {
    facts.offset += log->appended(shard);
  }
  if (meta.role == Role::kReplica) {
    std::tie(facts.primary_host, facts.primary_port) = SplitAddress(meta.primary_address);
    if (now.follow.primary.front_port != 0) {
      facts.primary_port = now.follow.primary.front_port;
    }
    if (!now.follow.active) {
      facts.link_state = "none";
    } else if (now.follow.state == replication::StreamState::kStreaming) {
      facts.link_state = "connected";
    } else {
      facts.link_state =
          now.follow.state == replication::StreamState::kConnecting ? "connect" : "sync";
    }
    return facts;
  }
  for (const replication::ReplicaStatus& replica : now.replicas) {
    if (!replica.connected) {
      continue;
    }
    uint64_t offset = 0;
    for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
      offset += core_->replication->progress().received(replica.row, shard);
    }
    facts.replicas.push_back({.host = replica.host,
                              .port = replica.front_port,
                              .state = std::string(replication::StreamStateName(replica.state)),
                              .offset = offset,
                              .lag_records = replica.lag_records,
                              .silent_us = core_->now_us() - replica.last_heard_us,
                              .member = replica.member});
  }
  return facts;
}

std::string Node::InfoServer() {
  utsname system{};
  ::uname(&system);
  const int64_t uptime_s = (core_->now_us() - start_us_) / 1'000'000;
  return Line("redis_version", "7.2.0") + Line("kvstored_version", KVS_VERSION) +
         Line("redis_mode", "standalone") +
         Line("os", absl::StrFormat("%s %s %s", system.sysname, system.release, system.machine)) +
         Line("arch_bits", "64") + Line("multiplexing_api", "epoll") +
         Line("process_id", static_cast<uint64_t>(::getpid())) +
         Line("run_id", Hex40(core_->identity->incarnation())) +
         Line("tcp_port", uint64_t{core_->config.Get()->server.port}) +
         Line("uptime_in_seconds", static_cast<uint64_t>(uptime_s)) +
         Line("uptime_in_days", static_cast<uint64_t>(uptime_s / 86400)) +
         Line("threads", uint64_t{core_->threads->thread_count()}) +
         Line("shards", uint64_t{core_->shard_count()});
}

std::string Node::InfoPersistence() {
  const log::Log* log = core_->log();
  const uint64_t log_bytes = log == nullptr ? 0 : log->segments().TotalBytes();
  return Line("loading", core_->gate.loading.load(std::memory_order_relaxed) ? "1" : "0") +
         Line("nvm_kind", KindName(core_->seams.device->kind())) +
         Line("rdb_changes_since_last_save", "0") +
         Line("rdb_bgsave_in_progress", checkpoints_->running() ? "1" : "0") +
         Line("rdb_last_save_time", static_cast<uint64_t>(LastSaveUnixSeconds())) +
         Line("rdb_last_bgsave_status", checkpoints_->last_failed() ? "err" : "ok") +
         Line("aof_enabled", "1") + Line("aof_rewrite_in_progress", "0") +
         Line("aof_last_write_status", log != nullptr && log->failed() ? "err" : "ok") +
         Line("log_bytes", log_bytes);
}

std::string Node::InfoStats() {
  const replication::ReplicationCounters counters = report().counters;
  return Line("sync_full", counters.full_syncs) + Line("sync_partial_ok", counters.links_accepted) +
         Line("sync_partial_err", "0");
}

std::string Node::InfoReplication() {
  const RoleFacts role = RoleNow();
  const Report now = report();
  std::string lines;
  if (role.role == Role::kReplica) {
    const bool up = role.link_state == "connected";
    const auto silent_s = static_cast<uint64_t>(
        std::max<int64_t>(core_->now_us() - now.follow.last_heard_us, 0) / 1'000'000);
    lines = Line("role", "slave") + Line("master_host", role.primary_host) +
            Line("master_port", uint64_t{role.primary_port}) +
            Line("master_link_status", up ? "up" : "down") +
            Line("master_last_io_seconds_ago", up ? std::to_string(silent_s) : "-1") +
            Line("master_sync_in_progress",
                 now.follow.state == replication::StreamState::kFullSync ? "1" : "0") +
            Line("slave_read_repl_offset", role.offset) + Line("slave_repl_offset", role.offset);
    if (!up) {
      lines += Line("master_link_down_since_seconds", silent_s);
    }
    lines += Line("slave_priority", "100") + Line("slave_read_only", "1") +
             Line("replica_announced", "1");
  } else {
    lines = Line("role", "master");
  }
  lines += Line("connected_slaves", uint64_t{role.replicas.size()});
  uint64_t index = 0;
  for (const ReplicaFacts& replica : role.replicas) {
    lines += absl::StrFormat(
        "slave%d:ip=%s,port=%d,state=%s,offset=%d,lag=%d,member=%s\r\n", index++, replica.host,
        replica.port, replica.state == "streaming" ? "online" : replica.state, replica.offset,
        replica.silent_us / 1'000'000, replica.member ? "yes" : "no");
  }
  return lines + Line("master_failover_state", "no-failover") +
         Line("master_replid", Hex40(core_->identity->meta().data_set)) +
         Line("master_repl_offset", role.offset) + Line("second_repl_offset", "-1") +
         Line("repl_backlog_active", "1") +
         Line("epoch", uint64_t{core_->gate.epoch.load(std::memory_order_relaxed)});
}

std::string Node::InfoCpu() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Line("used_cpu_sys",
              absl::StrFormat("%d.%06d", usage.ru_stime.tv_sec, usage.ru_stime.tv_usec)) +
         Line("used_cpu_user",
              absl::StrFormat("%d.%06d", usage.ru_utime.tv_sec, usage.ru_utime.tv_usec));
}

std::string Node::InfoSection(std::string_view section) {
  if (section == "server") {
    return InfoServer();
  }
  if (section == "memory") {
    return InfoMemory();
  }
  if (section == "persistence") {
    return InfoPersistence();
  }
  if (section == "stats") {
    return InfoStats();
  }
  if (section == "replication") {
    return InfoReplication();
  }
  if (section == "cpu") {
    return InfoCpu();
  }
  return {};
}

std::string Node::MembersJson() {
  const log::Meta meta = core_->identity->meta();
  Json list = Json::array();
  for (const log::Member& member : meta.members) {
    list.push_back({{"store", base::ToHex(member.store)}, {"address", member.address}});
  }
  return list.dump();
}

std::string Node::WritesRefused() const {
  const shard::NodeGate& gate = core_->gate;
  const log::Log* log = core_->log();
  OpResult judged = gate.JudgeWrite();
  // As Shard::Reserve asks, once the node as a whole takes writes. disk_full says only that the log
  // cannot grow: what lies ready may last for long.
  if (judged == OpResult::kOk && log != nullptr &&
      log->JudgeReserve(shard::Shard::kLogQuotaStepBytes) == OpResult::kDiskFull) {
    judged = OpResult::kDiskFull;
  } else if (judged == OpResult::kOk && !core_->pool.WithinBudget(kUsualWriteBytes) &&
             !core_->pool.HasGivers()) {
    judged = OpResult::kOutOfMemory;
  }
  switch (judged) {
    case OpResult::kOk:
      return "";
    case OpResult::kLoading:
      return "the data set is not complete (-LOADING)";
    case OpResult::kReadOnly:
      return "this node is a replica (-READONLY)";
    case OpResult::kNoReplicas:
      return gate.writable.load(std::memory_order_relaxed)
                 ? "the member set is incomplete or does not acknowledge (-NOREPLICAS)" +
                       OnTheirWay(report().replicas, static_cast<uint64_t>(std::max<int64_t>(
                                                         core_->pool.charged_bytes(), 0)))
                 : "no epoch of this node is open (-NOREPLICAS)";
    case OpResult::kDiskFull:
      return "the log's file system is full (-MISCONF)";
    case OpResult::kSteppedDown:
      return "the device failed, no role until a restart (-MISCONF)";
    case OpResult::kOutOfMemory:
      return "memory.max_memory is reached (-OOM)";
    case OpResult::kMiss:
    case OpResult::kTooLarge:
    case OpResult::kWait:
      break;
  }
  return "unexpected outcome";
}

std::string Node::StatusJson() {
  const Report now = report();
  const log::Meta meta = core_->identity->meta();
  const log::Manifest manifest = core_->identity->manifest();
  const log::Log* log = core_->log();
  Json json;
  json["version"] = KVS_VERSION;
  json["role"] = meta.role == Role::kPrimary ? "primary" : "replica";
  json["state"] = StateText();
  json["loading"] = core_->gate.loading.load(std::memory_order_relaxed);
  const std::string refused = WritesRefused();
  json["writable"] = refused.empty();
  json["refuses_writes"] = refused;
  json["no_replicas"] = core_->gate.no_replicas.load(std::memory_order_relaxed);
  json["disk_full"] = core_->gate.disk_full.load(std::memory_order_relaxed);
  json["epoch"] = manifest.epochs.empty() ? 0 : manifest.epochs.back().epoch.number;
  json["store"] = base::ToHex(meta.store);
  json["data_set"] = base::ToHex(meta.data_set);
  json["front_port"] = core_->config.Get()->server.port;
  json["replication_address"] = replication_address_;
  json["fabric"] = std::string(core_->seams.fabric->name());
  json["nvm"] = KindName(core_->seams.device->kind());
  json["ack"] = AckName(meta.ack);
  json["ack_replicas"] = meta.ack_replicas;
  json["promotable"] = meta.promotable;
  json["memory_used_bytes"] = core_->pool.charged_bytes();
  json["memory_max_bytes"] = core_->pool.max_bytes();
  json["memory_resident_bytes"] = ResidentBytes();
  json["log_bytes"] = log == nullptr ? 0 : log->segments().TotalBytes();
  json["checkpoints"] = checkpoints_->count();
  json["uptime_seconds"] = (core_->now_us() - start_us_) / 1'000'000;
  if (meta.role == Role::kReplica) {
    json["primary"] = meta.primary_address;
    json["stream"] = std::string(replication::StreamStateName(now.follow.state));
    json["stream_text"] = now.follow.text;
  } else {
    json["members"] = Json::parse(MembersJson());
    Json replicas = Json::array();
    for (const replication::ReplicaStatus& replica : now.replicas) {
      replicas.push_back({{"address", replica.address},
                          {"store", base::ToHex(replica.store_id)},
                          {"state", std::string(replication::StreamStateName(replica.state))},
                          {"connected", replica.connected},
                          {"member", replica.member},
                          {"promotable", replica.promotable},
                          {"lag_records", replica.lag_records},
                          {"lag_bytes", replica.lag_bytes},
                          {"lag_seconds", static_cast<double>(replica.lag_us) / 1e6}});
    }
    json["replicas"] = std::move(replicas);
  }
  Json shards = Json::array();
  for (ShardId shard = 0; log != nullptr && shard < core_->shard_count(); ++shard) {
    const Seq committed = core_->threads->shard(shard)->committed();
    shards.push_back({{"shard", shard},
                      {"appended", log->appended(shard)},
                      {"persisted", log->persisted(shard)},
                      {"committed", committed}});
  }
  json["shards"] = std::move(shards);
  return json.dump();
}

}  // namespace kvstored::server
