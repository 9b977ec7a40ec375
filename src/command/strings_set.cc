// Giving a key a whole value: SET SETEX PSETEX SETNX GETSET. Values above kPartBytesMax run twice
// or more: first their parts go out, then the conditions are judged and the value is linked.
#include "command/numbers.h"
#include "command/set_options.h"
#include "command/strings.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

bool ConditionHolds(const SetOptions& options, const store::Item* item) {
  return !(options.only_if_absent && item != nullptr) &&
         !(options.only_if_present && item == nullptr);
}

void WriteOld(ShardCall& call, const store::Item* item) {
  if (item == nullptr) {
    call.out->Null();
  } else {
    call.reply->AppendValue(*item);
  }
}

// The common end of all: judge, write, reply. `expiry_ms` is already absolute.
OpResult SetValue(ShardCall& call, std::string_view value, const SetOptions& options,
                  uint64_t expiry_ms) {
  const store::Item* item =
      options.get ? call.shard->Find(call.keys[0]) : call.shard->Peek(call.keys[0]);
  if (ConditionHolds(options, item)) {
    const OpResult prepared = PrepareValue(call, value);
    if (prepared != OpResult::kOk) {
      return prepared;
    }
  }
  // Emitting parts changes no item, so `item` is still what the condition was judged by.
  ReplyMark mark(call.reply);
  if (options.get) {
    WriteOld(call, item);
  }
  if (!ConditionHolds(options, item)) {
    if (!options.get) {
      call.out->Null();
    }
    return OpResult::kOk;
  }
  if (options.keep_ttl && item != nullptr) {
    expiry_ms = item->expiry_ms();
  }
  const OpResult result = FinishValue(call, value, expiry_ms);
  if (result != OpResult::kOk) {
    mark.Undo();
  } else if (!options.get) {
    call.out->Simple("OK");
  }
  return result;
}

}  // namespace

OpResult HandleSet(ShardCall& call) {
  SetOptions options;
  if (!ParseSetOptions(call.args.subspan(3), OptionsOf::kSet, &options)) {
    call.out->Error(kErrSyntax);
    return OpResult::kOk;
  }
  std::optional<uint64_t> expiry_ms = 0;
  if (options.has_expire) {
    expiry_ms = ExpiryOrReply(call, options.expire_text, options.unit, options.absolute);
    if (!expiry_ms) {
      return OpResult::kOk;
    }
  }
  return SetValue(call, call.args[2], options, *expiry_ms);
}

OpResult HandleSetEx(ShardCall& call) {
  const bool milliseconds = call.args[0][0] == 'p' || call.args[0][0] == 'P';
  const std::optional<uint64_t> expiry_ms = ExpiryOrReply(
      call, call.args[2], milliseconds ? ExpireUnit::kMilliseconds : ExpireUnit::kSeconds, false);
  if (!expiry_ms) {
    return OpResult::kOk;
  }
  return SetValue(call, call.args[3], SetOptions{}, *expiry_ms);
}

OpResult HandleSetNx(ShardCall& call) {
  if (call.shard->Peek(call.keys[0]) != nullptr) {
    call.out->Integer(0);
    return OpResult::kOk;
  }
  OpResult result = PrepareValue(call, call.args[2]);
  if (result == OpResult::kOk) {
    result = FinishValue(call, call.args[2], 0);
  }
  if (result == OpResult::kOk) {
    call.out->Integer(1);
  }
  return result;
}

OpResult HandleGetSet(ShardCall& call) {
  SetOptions options;
  options.get = true;
  return SetValue(call, call.args[2], options, 0);
}

}  // namespace kvstored::command
