// Asks a node's front port who it is: REPLICAOF names a front port, replication needs the other
// one.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace kvstored::server {

// `front_address` "host:port"; returns "host:port" of that node's replication port. Blocks for at
// most about two seconds. `password` may be empty.
absl::StatusOr<std::string> AskReplicationAddress(const std::string& front_address,
                                                  const std::string& password);

}  // namespace kvstored::server
