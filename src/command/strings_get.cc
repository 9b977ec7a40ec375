// Reading strings: GET GETDEL GETEX STRLEN GETRANGE SUBSTR.
#include <algorithm>

#include "command/numbers.h"
#include "command/set_options.h"
#include "command/strings.h"
#include "command/write_effects.h"

namespace kvstored::command {

OpResult HandleGet(ShardCall& call) {
  const store::Item* item = call.shard->Find(call.keys[0]);
  if (item == nullptr) {
    call.out->Null();
  } else {
    call.reply->AppendValue(*item);
  }
  return OpResult::kOk;
}

OpResult HandleGetDel(ShardCall& call) {
  const store::Item* item = call.shard->Find(call.keys[0]);
  if (item == nullptr) {
    call.out->Null();
    return OpResult::kOk;
  }
  // The value is copied (or its chain shared) before the delete, since the item goes with it.
  ReplyMark mark(call.reply);
  call.reply->AppendValue(*item);
  const OpResult result = DeleteKey(call);
  if (result != OpResult::kOk) {
    mark.Undo();
  }
  return result;
}

OpResult HandleGetEx(ShardCall& call) {
  SetOptions options;
  if (!ParseSetOptions(call.args.subspan(2), OptionsOf::kGetEx, &options)) {
    call.out->Error(kErrSyntax);
    return OpResult::kOk;
  }
  const store::Item* item = call.shard->Find(call.keys[0]);
  if (item == nullptr) {
    call.out->Null();
    return OpResult::kOk;
  }
  std::optional<uint64_t> expiry_ms = 0;
  if (options.has_expire) {
    expiry_ms = ExpiryOrReply(call, options.expire_text, options.unit, options.absolute);
    if (!expiry_ms) {
      return OpResult::kOk;
    }
  }
  ReplyMark mark(call.reply);
  const uint64_t old_expiry_ms = item->expiry_ms();
  call.reply->AppendValue(*item);
  OpResult result = OpResult::kOk;
  if (options.has_expire && *expiry_ms <= call.shard->now_ms()) {
    result = DeleteKey(call);
  } else if (options.has_expire || (options.persist && old_expiry_ms != 0)) {
    result = ChangeExpiry(call, *expiry_ms);
  }
  if (result != OpResult::kOk) {
    mark.Undo();
  }
  return result;
}

OpResult HandleStrlen(ShardCall& call) {
  const store::Item* item = call.shard->Find(call.keys[0]);
  call.out->Integer(item == nullptr ? 0 : static_cast<int64_t>(item->value_bytes()));
  return OpResult::kOk;
}

OpResult HandleGetRange(ShardCall& call) {
  int64_t start = 0;
  int64_t end = 0;
  if (!ParseInt64(call.args[2], &start) || !ParseInt64(call.args[3], &end)) {
    call.out->Error(kErrNotInteger);
    return OpResult::kOk;
  }
  const store::Item* item = call.shard->Find(call.keys[0]);
  const int64_t size = item == nullptr ? 0 : static_cast<int64_t>(item->value_bytes());
  const bool inverted = start < 0 && end < 0 && start > end;
  start = std::max<int64_t>(start < 0 ? size + start : start, 0);
  end = std::min<int64_t>(std::max<int64_t>(end < 0 ? size + end : end, 0), size - 1);
  if (item == nullptr || inverted || start > end || size == 0) {
    call.out->Bulk("");
    return OpResult::kOk;
  }
  const uint64_t bytes = static_cast<uint64_t>(end - start + 1);
  call.out->BulkHeader(bytes);
  std::string& out = call.reply->bytes;
  const size_t at = out.size();
  out.resize(at + bytes);
  item->CopyTo(static_cast<uint64_t>(start), out.data() + at, bytes);
  out.append("\r\n");
  return OpResult::kOk;
}

}  // namespace kvstored::command
