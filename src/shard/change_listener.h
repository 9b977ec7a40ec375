// Who wants to know which keys change.
#pragma once

#include <string_view>

#include "kvstored/types.h"

namespace kvstored::shard {

// Told on the shard's thread, in the call that changes the key: by a command, expiry, eviction or a
// record from the primary. A key may be named that did not change after all, never the reverse.
class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  virtual void OnChange(ShardId shard, std::string_view key) = 0;
  // All keys of the shard are gone.
  virtual void OnFlush(ShardId shard) = 0;
};

}  // namespace kvstored::shard
