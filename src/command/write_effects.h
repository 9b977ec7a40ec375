// What string handlers share: texts of errors, one way to give a key a value of any size, and how a
// reply is taken back when its write fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "command/command.h"
#include "kvstored/limits.h"

namespace kvstored::command {

inline constexpr std::string_view kErrSyntax = "ERR syntax error";
inline constexpr std::string_view kErrNotInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kErrNotFloat = "ERR value is not a valid float";
inline constexpr std::string_view kErrTooLong =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

// Writes "ERR invalid expire time in '<command>' command".
void WriteExpireTimeError(ShardCall& call);

// Does the value travel as a run of parts (P4)?
inline bool NeedsRun(uint64_t value_bytes) {
  return value_bytes > kPartBytesMax;
}

// Bytes of the records of a run at most, headers included: each part names the key.
inline uint64_t RunBytesMax(uint64_t value_bytes, uint64_t key_bytes) {
  return value_bytes + (value_bytes / kPartBytesMax + 2) * (key_bytes + 128);
}

// First half of a write of `value`: for a large one, copies it into a run and emits the parts;
// kWait in between. When it returns kOk the handler judges its conditions and calls FinishValue in
// the same run of the handler.
OpResult PrepareValue(ShardCall& call, std::string_view value);
// Second half: reserves and links. Nothing was changed unless it returns kOk.
OpResult FinishValue(ShardCall& call, std::string_view value, uint64_t expiry_ms);

// Reserves the record that gives the key the run's value, and writes it: the run was emitted whole.
OpResult LinkRun(ShardCall& call, uint64_t expiry_ms);

// Both halves for values whose size is bounded by kPartBytesMax.
OpResult StoreSmall(ShardCall& call, std::string_view value, uint64_t expiry_ms);
// Reserves and deletes the present key.
OpResult DeleteKey(ShardCall& call);
// Reserves and changes the expiry of the present key (0 = none).
OpResult ChangeExpiry(ShardCall& call, uint64_t expiry_ms);

}  // namespace kvstored::command
