// Changing a string in place: APPEND SETRANGE INCR DECR INCRBY DECRBY INCRBYFLOAT. What fits one
// record travels as a delta that names the item it changes; what does not becomes a whole new
// value.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "command/numbers.h"
#include "command/strings.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

// The value of `item` (null: empty) with `bytes` written at `offset`.
std::string Overlaid(const store::Item* item, uint64_t offset, std::string_view bytes) {
  const uint64_t old_bytes = item == nullptr ? 0 : item->value_bytes();
  std::string value(std::max<uint64_t>(old_bytes, offset + bytes.size()), '\0');
  if (item != nullptr) {
    item->CopyTo(0, value.data(), old_bytes);
  }
  bytes.copy(value.data() + offset, bytes.size());
  return value;
}

// Writes `bytes` at `offset` as one whole new value. While its run waits, another command may
// change the item: then the run is dropped and made again from the new one.
OpResult StoreOverlaid(ShardCall& call, const store::Item* item, uint64_t offset,
                       std::string_view bytes) {
  const Seq base_seq = item == nullptr ? 0 : item->seq();
  const uint64_t expiry_ms = item == nullptr ? 0 : item->expiry_ms();
  if (call.run->chain && call.run->base_seq != base_seq) {
    *call.run = shard::Run{};
  }
  OpResult result = OpResult::kOk;
  if (!call.run->chain) {
    const std::string value = Overlaid(item, offset, bytes);
    if (!NeedsRun(value.size())) {
      return StoreSmall(call, value, expiry_ms);
    }
    result = call.shard->MakeRun(value, call.run, call.force, /*at_once=*/true);
    call.run->base_seq = base_seq;
  }
  if (result == OpResult::kOk) {
    result = call.shard->EmitRun(call.run, call.keys[0], call.force);
  }
  return result == OpResult::kOk ? LinkRun(call, expiry_ms) : result;
}

// One delta record on the present item.
OpResult StoreDelta(ShardCall& call, bool append, uint64_t offset, std::string_view bytes) {
  const Key& key = call.keys[0];
  const OpResult reserved =
      call.shard->Reserve(1, key.bytes.size() + sizeof(uint64_t) + bytes.size(), call.force);
  if (reserved != OpResult::kOk) {
    return reserved;
  }
  return append ? call.shard->Append(key, bytes) : call.shard->SetRange(key, offset, bytes);
}

bool TooLong(uint64_t offset, uint64_t bytes) {
  return offset > kValueBytesMax || bytes > kValueBytesMax - offset;
}

// The common end of APPEND and SETRANGE.
OpResult WriteAndReply(ShardCall& call, const store::Item* item, bool append, uint64_t offset,
                       std::string_view bytes) {
  const uint64_t old_bytes = item == nullptr ? 0 : item->value_bytes();
  const uint64_t new_bytes = std::max<uint64_t>(old_bytes, offset + bytes.size());
  const OpResult result = append && item != nullptr && bytes.size() <= kPartBytesMax
                              ? StoreDelta(call, /*append=*/true, offset, bytes)
                              : WriteBytesAt(call, item, offset, bytes);
  if (result == OpResult::kOk) {
    call.out->Integer(static_cast<int64_t>(new_bytes));
  }
  return result;
}

// The new value of a counter replaces the old; the expiry stays.
OpResult AddToCounter(ShardCall& call, int64_t delta) {
  const store::Item* item = call.shard->Peek(call.keys[0]);
  int64_t value = 0;
  if (item != nullptr && (item->is_chain() || !ParseInt64(item->value(), &value))) {
    call.out->Error(kErrNotInteger);
    return OpResult::kOk;
  }
  if (!AddInt64(value, delta, &value)) {
    call.out->Error("ERR increment or decrement would overflow");
    return OpResult::kOk;
  }
  const OpResult result =
      StoreSmall(call, std::to_string(value), item == nullptr ? 0 : item->expiry_ms());
  if (result == OpResult::kOk) {
    call.out->Integer(value);
  }
  return result;
}

}  // namespace

OpResult WriteBytesAt(ShardCall& call, const store::Item* item, uint64_t offset,
                      std::string_view bytes) {
  return item != nullptr && bytes.size() <= kPartBytesMax
             ? StoreDelta(call, /*append=*/false, offset, bytes)
             : StoreOverlaid(call, item, offset, bytes);
}

OpResult HandleAppend(ShardCall& call) {
  const store::Item* item = call.shard->Peek(call.keys[0]);
  const uint64_t offset = item == nullptr ? 0 : item->value_bytes();
  const std::string_view bytes = call.args[2];
  if (item != nullptr && TooLong(offset, bytes.size())) {
    call.out->Error(kErrTooLong);
    return OpResult::kOk;
  }
  // Empty bytes write too: an absent key comes into being, and WATCH sees a present one change.
  return WriteAndReply(call, item, /*append=*/true, offset, bytes);
}

OpResult HandleSetRange(ShardCall& call) {
  int64_t offset = 0;
  if (!ParseInt64(call.args[2], &offset)) {
    call.out->Error(kErrNotInteger);
    return OpResult::kOk;
  }
  if (offset < 0) {
    call.out->Error("ERR offset is out of range");
    return OpResult::kOk;
  }
  const store::Item* item = call.shard->Peek(call.keys[0]);
  const std::string_view bytes = call.args[3];
  if (bytes.empty()) {
    call.out->Integer(item == nullptr ? 0 : static_cast<int64_t>(item->value_bytes()));
    return OpResult::kOk;
  }
  if (TooLong(static_cast<uint64_t>(offset), bytes.size())) {
    call.out->Error(kErrTooLong);
    return OpResult::kOk;
  }
  return WriteAndReply(call, item, /*append=*/false, static_cast<uint64_t>(offset), bytes);
}

uint64_t SetRangeBytes(std::span<const std::string_view> args) {
  int64_t offset = 0;
  if (args.size() < 4 || args[3].empty() || !ParseInt64(args[2], &offset) || offset < 0 ||
      TooLong(static_cast<uint64_t>(offset), args[3].size())) {
    return 0;
  }
  return static_cast<uint64_t>(offset);
}

uint64_t IncrByFloatBytes(std::span<const std::string_view> /*args*/) {
  return 5200;  // 4,933 digits before the point, 17 behind it
}

OpResult HandleIncr(ShardCall& call) {
  const bool decrement = call.args[0][0] == 'd' || call.args[0][0] == 'D';
  return AddToCounter(call, decrement ? -1 : 1);
}

OpResult HandleIncrBy(ShardCall& call) {
  int64_t delta = 0;
  if (!ParseInt64(call.args[2], &delta)) {
    call.out->Error(kErrNotInteger);
    return OpResult::kOk;
  }
  return AddToCounter(call, delta);
}

OpResult HandleDecrBy(ShardCall& call) {
  int64_t delta = 0;
  if (!ParseInt64(call.args[2], &delta)) {
    call.out->Error(kErrNotInteger);
    return OpResult::kOk;
  }
  if (delta == std::numeric_limits<int64_t>::min()) {
    call.out->Error("ERR decrement would overflow");
    return OpResult::kOk;
  }
  return AddToCounter(call, -delta);
}

OpResult HandleIncrByFloat(ShardCall& call) {
  const store::Item* item = call.shard->Peek(call.keys[0]);
  long double value = 0;
  long double delta = 0;
  const bool readable =
      item == nullptr || (!item->is_chain() && ParseLongDouble(item->value(), &value));
  if (!readable || !ParseLongDouble(call.args[2], &delta)) {
    call.out->Error(kErrNotFloat);
    return OpResult::kOk;
  }
  value += delta;
  if (std::isnan(value) || std::isinf(value)) {
    call.out->Error("ERR increment would produce NaN or Infinity");
    return OpResult::kOk;
  }
  const std::string text = FormatLongDouble(value);
  const OpResult result = StoreSmall(call, text, item == nullptr ? 0 : item->expiry_ms());
  if (result == OpResult::kOk) {
    call.out->Bulk(text);
  }
  return result;
}

}  // namespace kvstored::command
