// Finds the chain of segments in a log directory by their headers.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "log/meta.h"
#include "log/recovery.h"

namespace kvstored::log {

struct Chain {
  std::vector<Segment> segments;  // oldest first; `end` not known yet
  std::string break_reason;       // why the chain does not reach further back, if that is odd
  LogFiles noted;                 // zeros: no segment was ever begun
};

absl::StatusOr<Chain> FindChain(const RecoveryOptions& options);

// What an operator can do about damage.
std::string DamageRemedy();

}  // namespace kvstored::log
