#include "command/write_effects.h"

#include <string>
#include <utility>

#include "command/numbers.h"

namespace kvstored::command {

void WriteExpireTimeError(ShardCall& call) {
  call.out->Error("ERR invalid expire time in '" + ToLower(call.args[0]) + "' command");
}

OpResult PrepareValue(ShardCall& call, std::string_view value) {
  if (!NeedsRun(value.size())) {
    return OpResult::kOk;
  }
  if (!call.run->chain) {
    const OpResult made = call.shard->MakeRun(value, call.run, call.force);
    if (made != OpResult::kOk) {
      return made;
    }
  }
  return call.shard->EmitRun(call.run, call.keys[0], call.force);
}

OpResult FinishValue(ShardCall& call, std::string_view value, uint64_t expiry_ms) {
  return NeedsRun(value.size()) ? LinkRun(call, expiry_ms) : StoreSmall(call, value, expiry_ms);
}

OpResult LinkRun(ShardCall& call, uint64_t expiry_ms) {
  const Key& key = call.keys[0];
  const OpResult reserved =
      call.shard->ReserveLog(1, key.bytes.size() + sizeof(uint64_t), call.force);
  if (reserved != OpResult::kOk) {
    return reserved;
  }
  return call.shard->SetRun(key, std::exchange(*call.run, shard::Run{}), expiry_ms);
}

OpResult StoreSmall(ShardCall& call, std::string_view value, uint64_t expiry_ms) {
  const Key& key = call.keys[0];
  const OpResult reserved = call.shard->Reserve(1, key.bytes.size() + value.size(), call.force);
  if (reserved != OpResult::kOk) {
    return reserved;
  }
  return call.shard->Set(key, value, expiry_ms);
}

OpResult DeleteKey(ShardCall& call) {
  const OpResult reserved = call.shard->ReserveLog(1, call.keys[0].bytes.size(), call.force);
  if (reserved == OpResult::kOk) {
    call.shard->Delete(call.keys[0]);
  }
  return reserved;
}

OpResult ChangeExpiry(ShardCall& call, uint64_t expiry_ms) {
  const OpResult reserved = call.shard->ReserveLog(1, call.keys[0].bytes.size(), call.force);
  if (reserved != OpResult::kOk) {
    return reserved;
  }
  return call.shard->SetExpiry(call.keys[0], expiry_ms);
}

}  // namespace kvstored::command
