// Wordings of what the node tells of itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replication/replication.h"

namespace kvstored::server {

// As Redis words it: "64B", "1.50M".
std::string HumanBytes(uint64_t bytes);
// Memory of this process that is in RAM; 0 if the kernel does not say.
uint64_t ResidentBytes();

// What keeps the connected replicas from acknowledging, each with what is left to do, as clauses
// that follow another text; empty if nothing does. `data_bytes`: of the whole data set.
std::string OnTheirWay(const std::vector<replication::ReplicaStatus>& replicas,
                       uint64_t data_bytes);

}  // namespace kvstored::server
