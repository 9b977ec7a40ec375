// Expiry: EXPIRE PEXPIRE EXPIREAT PEXPIREAT TTL PTTL EXPIRETIME PEXPIRETIME PERSIST.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "command/keys.h"
#include "command/numbers.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

struct ExpireFlags {
  bool nx = false;
  bool xx = false;
  bool gt = false;
  bool lt = false;
};

// Writes the error reply and returns nullopt if the options are not valid together.
std::optional<ExpireFlags> ParseFlagsOrReply(ShardCall& call) {
  ExpireFlags flags;
  for (std::string_view word : call.args.subspan(3)) {
    if (EqualsIgnoreCase(word, "nx")) {
      flags.nx = true;
    } else if (EqualsIgnoreCase(word, "xx")) {
      flags.xx = true;
    } else if (EqualsIgnoreCase(word, "gt")) {
      flags.gt = true;
    } else if (EqualsIgnoreCase(word, "lt")) {
      flags.lt = true;
    } else {
      call.out->Error("ERR Unsupported option " + std::string(UpToNul(word)));
      return std::nullopt;
    }
  }
  if (flags.nx && (flags.xx || flags.gt || flags.lt)) {
    call.out->Error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return std::nullopt;
  }
  if (flags.gt && flags.lt) {
    call.out->Error("ERR GT and LT options at the same time are not compatible");
    return std::nullopt;
  }
  return flags;
}

// EXPIRE PEXPIRE EXPIREAT PEXPIREAT by their names: 'p' first = milliseconds, "at" last = absolute.
bool IsMilliseconds(std::string_view name) {
  return name.front() == 'p' || name.front() == 'P';
}
bool IsAbsolute(std::string_view name) {
  return name.back() == 't' || name.back() == 'T';
}

// Absolute Unix milliseconds; may be negative. Writes the error reply if it does not fit.
std::optional<int64_t> WhenOrReply(ShardCall& call) {
  int64_t when = 0;
  if (!ParseInt64(call.args[2], &when)) {
    call.out->Error(kErrNotInteger);
    return std::nullopt;
  }
  const std::string_view name = call.args[0];
  bool valid = true;
  if (!IsMilliseconds(name)) {
    valid = !__builtin_mul_overflow(when, int64_t{1000}, &when);
  }
  if (valid && !IsAbsolute(name)) {
    valid = AddInt64(when, static_cast<int64_t>(call.shard->now_ms()), &when);
  }
  if (!valid) {
    WriteExpireTimeError(call);
    return std::nullopt;
  }
  return when;
}

bool FlagsAllow(const ExpireFlags& flags, int64_t when, uint64_t current_ms) {
  const bool has_expiry = current_ms != 0;
  const int64_t current = static_cast<int64_t>(current_ms);
  if ((flags.nx && has_expiry) || (flags.xx && !has_expiry)) {
    return false;
  }
  if (flags.gt && (!has_expiry || when <= current)) {
    return false;
  }
  return !(flags.lt && has_expiry && when >= current);
}

}  // namespace

OpResult HandleExpire(ShardCall& call) {
  const std::optional<ExpireFlags> flags = ParseFlagsOrReply(call);
  if (!flags) {
    return OpResult::kOk;
  }
  const std::optional<int64_t> when = WhenOrReply(call);
  if (!when) {
    return OpResult::kOk;
  }
  const store::Item* item = call.shard->Peek(call.keys[0]);
  if (item == nullptr || !FlagsAllow(*flags, *when, item->expiry_ms())) {
    call.out->Integer(0);
    return OpResult::kOk;
  }
  const bool past = *when <= static_cast<int64_t>(call.shard->now_ms());
  const OpResult result = past ? DeleteKey(call) : ChangeExpiry(call, static_cast<uint64_t>(*when));
  if (result == OpResult::kOk) {
    call.out->Integer(1);
  }
  return result;
}

OpResult HandleTtl(ShardCall& call) {
  const std::string_view name = call.args[0];
  const bool absolute = name.size() > 4;  // EXPIRETIME, PEXPIRETIME
  const store::Item* item = call.shard->Look(call.keys[0]);
  if (item == nullptr || item->expiry_ms() == 0) {
    call.out->Integer(item == nullptr ? -2 : -1);
    return OpResult::kOk;
  }
  int64_t value = static_cast<int64_t>(item->expiry_ms());
  if (!absolute) {
    value = std::max<int64_t>(value - static_cast<int64_t>(call.shard->now_ms()), 0);
  }
  if (!IsMilliseconds(name)) {
    // Rounded as Redis does; unsigned, since the largest expiry leaves no room for the half.
    value = static_cast<int64_t>((static_cast<uint64_t>(value) + 500) / 1000);
  }
  call.out->Integer(value);
  return OpResult::kOk;
}

OpResult HandlePersist(ShardCall& call) {
  const store::Item* item = call.shard->Peek(call.keys[0]);
  if (item == nullptr || item->expiry_ms() == 0) {
    call.out->Integer(0);
    return OpResult::kOk;
  }
  const OpResult result = ChangeExpiry(call, 0);
  if (result == OpResult::kOk) {
    call.out->Integer(1);
  }
  return result;
}

}  // namespace kvstored::command
