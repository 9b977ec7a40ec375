// ControlRequest: the operator's operations as words of the command KVSTORED. kvctl writes them,
// the node reads them, both through this file.
//
//   status                                     checkpoint
//   promote [ack-replicas N] [accept-loss]     demote [HOST:PORT]
//   member list                                member replace MEMBER NEW-MEMBER [force]
//   member drop MEMBER [force]                 join HOST:PORT [discard-local-data]
//
// and from the Redis commands of these names: replicaof HOST FRONT-PORT, save, bgsave,
// shutdown [save|nosave].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvstored::server {

struct ControlRequest {
  enum class Verb : uint8_t {
    kStatus,
    kPromote,
    kDemote,
    kMemberList,
    kMemberReplace,
    kMemberDrop,
    kJoin,
    kCheckpoint,
    kReplicaOf,
    kSave,
    kBgSave,
    kShutdown,
  };
  Verb verb = Verb::kStatus;
  std::optional<uint32_t> ack_replicas;  // promote; absent: as many as before
  bool accept_loss = false;              // promote
  bool force = false;                    // member replace, member drop
  bool discard_local_data = false;       // join
  bool nosave = false;                   // shutdown
  // join; demote (empty: whoever is promoted next): a replication port. replicaof: a FRONT port.
  std::string address;
  std::string member;      // member replace, member drop: store id or address
  std::string new_member;  // member replace
};

// Words are compared ignoring case. The error lists what is allowed.
[[nodiscard]] absl::StatusOr<ControlRequest> ParseControl(const std::vector<std::string>& words);
// The words without KVSTORED itself.
std::vector<std::string> ControlWords(const ControlRequest& request);

}  // namespace kvstored::server
