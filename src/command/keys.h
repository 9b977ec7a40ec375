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
// keys_dump.cc (Reach::kKey)
OpResult HandleDump(ShardCall& call);
OpResult HandleRestore(ShardCall& call);
// How long RESTORE makes a value of a compressed payload.
uint64_t RestoreBytes(std::span<const std::string_view> args);
// keys_basic.cc (Reach::kFanSum)
OpResult HandleDel(ShardCall& call);     // and UNLINK
OpResult HandleExists(ShardCall& call);  // and TOUCH

}  // namespace kvstored::command
