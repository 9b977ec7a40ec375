// Handlers of string commands (Reach::kKey).
#pragma once

#include "command/command.h"

namespace kvstored::command {

// strings_get.cc
OpResult HandleGet(ShardCall& call);
OpResult HandleGetDel(ShardCall& call);
OpResult HandleGetEx(ShardCall& call);
OpResult HandleStrlen(ShardCall& call);
OpResult HandleGetRange(ShardCall& call);  // and SUBSTR

// strings_set.cc
OpResult HandleSet(ShardCall& call);
OpResult HandleSetEx(ShardCall& call);  // and PSETEX
OpResult HandleSetNx(ShardCall& call);
OpResult HandleGetSet(ShardCall& call);

// strings_change.cc
OpResult HandleAppend(ShardCall& call);
OpResult HandleSetRange(ShardCall& call);
OpResult HandleIncr(ShardCall& call);  // and DECR
OpResult HandleIncrBy(ShardCall& call);
OpResult HandleDecrBy(ShardCall& call);
OpResult HandleIncrByFloat(ShardCall& call);

}  // namespace kvstored::command
