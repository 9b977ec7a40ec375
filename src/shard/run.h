// A large value of a command that is under way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kvstored/types.h"
#include "store/store.h"

namespace kvstored::shard {

// What a command keeps from one run to the next beside its value's bytes.
struct Progress {
  virtual ~Progress() = default;
};

// A value on its way into the log as a run of parts (P4): it lies whole in its slabs, its parts are
// emitted as the uncommitted window lets them, and only SetRun gives it an effect.
struct Run {
  std::optional<store::ChainBuilder> filling;  // while its bytes are being copied
  store::ChainRef chain;
  uint64_t emitted_bytes = 0;
  Seq id = 0;  // seq of the first part
  // Keeps the run among the shard's open ones (P4) for as long as this object lives.
  std::shared_ptr<const Seq> open;
  // The command's own: seq of the item that the value was made from (APPEND, SETRANGE).
  Seq base_seq = 0;
  std::unique_ptr<Progress> progress;
};

}  // namespace kvstored::shard
