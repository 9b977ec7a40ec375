// NodeApi: what commands ask of the node as a whole. Implemented by server/, by a fake in tests.
// Thread-safe: sessions on every thread call it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstored/types.h"

namespace kvstored::command {

// A line of INFO: "name:value\r\n".
std::string InfoLine(std::string_view name, std::string_view value);

class NodeApi {
 public:
  virtual ~NodeApi() = default;

  // Lines "name:value\r\n" of one INFO section ("server", "replication", ...), without its heading;
  // empty if the node has nothing to add. Keyspace and per-command figures are the command room's.
  virtual std::string InfoSection(std::string_view section) = 0;
  // CONFIG GET: pairs whose name matches the glob.
  virtual std::vector<std::pair<std::string, std::string>> ConfigGet(std::string_view pattern) = 0;
  // CONFIG SET: all or nothing; the error's message is what Redis would say after "ERR ". This form
  // refuses settings to which members must consent.
  virtual absl::Status ConfigSet(const std::vector<std::pair<std::string, std::string>>& pairs) = 0;
  // And this one waits for them. `done` is called exactly once, on any thread, with OK only when
  // everything is in force.
  virtual void ConfigSet(std::vector<std::pair<std::string, std::string>> pairs,
                         std::function<void(const absl::Status&)> done) = 0;

  // ROLE's facts.
  struct ReplicaFacts {
    std::string host;
    uint16_t port = 0;    // front port
    std::string state;    // connecting, full_sync, catch_up, streaming
    uint64_t offset = 0;  // sum over shards of the received watermark
    uint64_t lag_records = 0;
    int64_t silent_us = 0;  // since it was last heard
    bool member = false;
  };
  struct RoleFacts {
    Role role = Role::kPrimary;
    std::string primary_host;  // replica only
    uint16_t primary_port = 0;
    std::string link_state;  // replica only: connect, connecting, sync, connected
    uint64_t offset = 0;     // sum over shards of appended
    std::vector<ReplicaFacts> replicas;
  };
  virtual RoleFacts RoleNow() = 0;

  // MEMORY's facts; those of slabs are up to a tenth of a second old.
  struct MemoryFacts {
    uint64_t used_bytes = 0;  // of the one budget
    uint64_t peak_bytes = 0;  // the most that it was
    uint64_t max_bytes = 0;   // memory.max_memory
    uint64_t resident_bytes = 0;
    uint64_t pool_mapped_bytes = 0;
    uint64_t pool_used_bytes = 0;
    uint64_t key_count = 0;
    uint64_t item_bytes = 0;
    uint64_t index_bytes = 0;
    uint64_t slab_bytes = 0;
    uint64_t slab_used_bytes = 0;
    uint64_t slot_waste_bytes = 0;  // of those in use, beyond what was asked for
    bool evicts = false;
  };
  virtual MemoryFacts MemoryNow() = 0;

  // How many replicas have received (persisted) at least positions[i].second of shard
  // positions[i].first, for all i. WAIT and WAITAOF poll this each tick.
  virtual uint32_t ReplicasAt(const std::vector<std::pair<ShardId, Seq>>& positions,
                              bool persisted) = 0;
  // Has the local log device confirmed the positions?
  virtual bool LocallyPersisted(const std::vector<std::pair<ShardId, Seq>>& positions) = 0;

  // Control operations that may take time: "promote", "demote", "replicaof HOST PORT", "save",
  // "bgsave", "shutdown [nosave]", "member list", "status", ... `done` is called exactly once, on
  // any thread, with a JSON document (or text "OK") or an error whose message follows "ERR ".
  virtual void Control(std::vector<std::string> words,
                       std::function<void(absl::StatusOr<std::string>)> done) = 0;
  // Unix seconds of the newest published checkpoint.
  virtual int64_t LastSaveUnixSeconds() = 0;
};

}  // namespace kvstored::command
