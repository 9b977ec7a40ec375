// Handlers of string commands (Reach::kKey).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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
// CommandSpec::added_bytes: what SETRANGE fills up before its bytes (nothing where it will refuse),
// the digits of INCRBYFLOAT.
uint64_t SetRangeBytes(std::span<const std::string_view> args);
uint64_t IncrByFloatBytes(std::span<const std::string_view> args);
// Overwrites a part of the present item (null: makes one); a gap before `offset` is filled with
// zeros, the expiry stays. kOk: written, without a reply.
OpResult WriteBytesAt(ShardCall& call, const store::Item* item, uint64_t offset,
                      std::string_view bytes);

}  // namespace kvstored::command
