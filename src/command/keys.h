// Handlers of commands on keys whatever their value.
#pragma once

#include "command/command.h"

namespace kvstored::command {

// keys_expire.cc (Reach::kKey)
OpResult HandleExpire(ShardCall& call);  // EXPIRE PEXPIRE EXPIREAT PEXPIREAT
OpResult HandleTtl(ShardCall& call);     // TTL PTTL EXPIRETIME PEXPIRETIME
OpResult HandlePersist(ShardCall& call);

// keys_basic.cc (Reach::kKey)
OpResult HandleType(ShardCall& call);
OpResult HandleObject(ShardCall& call);
OpResult HandleMemory(ShardCall& call);
// keys_basic.cc (Reach::kFanSum)
OpResult HandleDel(ShardCall& call);     // and UNLINK
OpResult HandleExists(ShardCall& call);  // and TOUCH

}  // namespace kvstored::command
