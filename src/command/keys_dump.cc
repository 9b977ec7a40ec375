// DUMP RESTORE. Large values are read, checked and unpacked in slices: between two of them the tick
// goes on, and the handler runs again from its beginning.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/crc64.h"
#include "command/dump_payload.h"
#include "command/keys.h"
#include "command/numbers.h"
#include "command/write_effects.h"
#include "kvstored/limits.h"

namespace kvstored::command {
namespace {

// Bytes that one run checks or unpacks: about a millisecond.
constexpr uint64_t kSliceBytes = 1 << 20;

struct DumpProgress : shard::Progress {
  store::ChainRef chain;  // the value as it was when the command began
  uint64_t summed_bytes = 0;
  uint64_t crc = 0;
};

struct RestoreProgress : shard::Progress {
  uint64_t summed_bytes = 0;
  uint64_t crc = 0;
  std::optional<LzfUnpacker> unpacker;
};

// Writes "$<n>", the head of a payload and what follows by reference.
void WriteDump(Reply* reply, resp::Writer& out, std::string_view head, store::ChainRef chain,
               uint64_t crc) {
  out.BulkHeader(head.size() + chain.size_bytes() + kDumpFooterBytes);
  reply->bytes += head;
  reply->externals.push_back({reply->bytes.size(), std::move(chain)});
  reply->bytes.append(DumpFooter(crc)).append("\r\n");
}

OpResult DumpChain(ShardCall& call) {
  auto& progress = static_cast<DumpProgress&>(*call.run->progress);
  const std::string head = DumpHead(progress.chain.size_bytes());
  if (progress.summed_bytes == 0) {
    progress.crc = base::Crc64(0, head);
  }
  for (uint64_t left = kSliceBytes; progress.summed_bytes < progress.chain.size_bytes();) {
    if (left == 0) {
      return call.shard->Yield();
    }
    const std::string_view piece = progress.chain.PieceAt(progress.summed_bytes).substr(0, left);
    progress.crc = base::Crc64(progress.crc, piece);
    progress.summed_bytes += piece.size();
    left -= piece.size();
  }
  WriteDump(call.reply, *call.out, head, std::move(progress.chain), progress.crc);
  return OpResult::kOk;
}

struct RestoreOptions {
  bool replace = false;
  bool absolute_expiry = false;
};

// Empty, or the error. How long ago or how often the key was used is checked and not kept.
std::string_view ParseRestoreOptions(std::span<const std::string_view> words,
                                     RestoreOptions* options) {
  bool has_idle = false;
  bool has_frequency = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = UpToNul(words[i]);
    const bool more = i + 1 < words.size();
    int64_t number = 0;
    if (EqualsIgnoreCase(word, "replace")) {
      options->replace = true;
    } else if (EqualsIgnoreCase(word, "absttl")) {
      options->absolute_expiry = true;
    } else if (EqualsIgnoreCase(word, "idletime") && more && !has_frequency) {
      if (!ParseInt64(words[++i], &number)) {
        return kErrNotInteger;
      }
      if (number < 0) {
        return "ERR Invalid IDLETIME value, must be >= 0";
      }
      has_idle = true;
    } else if (EqualsIgnoreCase(word, "freq") && more && !has_idle) {
      constexpr int64_t kFrequencyMax = 255;
      if (!ParseInt64(words[++i], &number)) {
        return kErrNotInteger;
      }
      if (number < 0 || number > kFrequencyMax) {
        return "ERR Invalid FREQ value, must be >= 0 and <= 255";
      }
      has_frequency = true;
    } else {
      return kErrSyntax;
    }
  }
  return {};
}

// kOk: the payload is whole. kMiss: it is not. kWait: there is more to check.
OpResult CheckPayload(ShardCall& call, std::string_view payload, RestoreProgress* progress) {
  if (!HasDumpVersion(payload)) {
    return OpResult::kMiss;
  }
  const std::string_view summed = ChecksummedBytes(payload);
  if (progress->summed_bytes < summed.size()) {
    const std::string_view slice = summed.substr(progress->summed_bytes, kSliceBytes);
    progress->crc = base::Crc64(progress->crc, slice);
    progress->summed_bytes += slice.size();
    if (progress->summed_bytes < summed.size()) {
      return call.shard->Yield();
    }
  }
  return ChecksumHolds(payload, progress->crc) ? OpResult::kOk : OpResult::kMiss;
}

// The same for packed values: then progress->unpacker has the value.
OpResult Unpack(ShardCall& call, const DumpedString& string, RestoreProgress* progress) {
  if (string.value_bytes > kValueBytesMax) {
    return OpResult::kMiss;
  }
  if (!progress->unpacker) {
    if (!call.force) {
      if (const OpResult room = call.shard->AskRoom(string.value_bytes); room != OpResult::kOk) {
        return room;
      }
    }
    progress->unpacker.emplace(string.bytes, string.value_bytes);
  }
  switch (progress->unpacker->Step(string.bytes, kSliceBytes)) {
    case LzfUnpacker::Result::kMore:
      return call.shard->Yield();
    case LzfUnpacker::Result::kDone:
      return OpResult::kOk;
    case LzfUnpacker::Result::kDamaged:
      break;
  }
  return OpResult::kMiss;
}

OpResult ErrorReply(ShardCall& call, std::string_view error) {
  call.out->Error(error);
  return OpResult::kOk;
}

// The common end: the value is known. 0 of expiry_ms: none.
OpResult Restore(ShardCall& call, std::string_view value, uint64_t expiry_ms) {
  OpResult result = OpResult::kOk;
  if (expiry_ms != 0 && expiry_ms <= call.shard->now_ms()) {
    // Expired already: nothing comes, but what was there goes.
    result = call.shard->Peek(call.keys[0]) != nullptr ? DeleteKey(call) : OpResult::kOk;
  } else {
    result = PrepareValue(call, value);
    result = result == OpResult::kOk ? FinishValue(call, value, expiry_ms) : result;
  }
  if (result == OpResult::kOk) {
    call.out->Simple("OK");
  }
  return result;
}

}  // namespace

OpResult HandleDump(ShardCall& call) {
  const store::Item* item = call.run->progress == nullptr ? call.shard->Find(call.keys[0])
                                                          : call.shard->Peek(call.keys[0]);
  if (call.run->progress != nullptr) {
    return DumpChain(call);
  }
  if (item == nullptr) {
    call.out->Null();
    return OpResult::kOk;
  }
  if (!item->is_chain()) {
    const std::string body = DumpSmall(item->value());
    call.out->Bulk(body + DumpFooter(base::Crc64(0, body)));
    return OpResult::kOk;
  }
  auto progress = std::make_unique<DumpProgress>();
  progress->chain = item->chain();
  call.run->progress = std::move(progress);
  return DumpChain(call);
}

OpResult HandleRestore(ShardCall& call) {
  RestoreOptions options;
  if (const auto error = ParseRestoreOptions(call.args.subspan(4), &options); !error.empty()) {
    return ErrorReply(call, error);
  }
  if (call.shard->Peek(call.keys[0]) != nullptr && !options.replace) {
    return ErrorReply(call, "BUSYKEY Target key name already exists.");
  }
  int64_t expiry_ms = 0;
  if (!ParseInt64(call.args[2], &expiry_ms)) {
    return ErrorReply(call, kErrNotInteger);
  }
  if (expiry_ms < 0) {
    return ErrorReply(call, "ERR Invalid TTL value, must be >= 0");
  }
  if (expiry_ms != 0 && !options.absolute_expiry &&
      !AddInt64(expiry_ms, static_cast<int64_t>(call.shard->now_ms()), &expiry_ms)) {
    expiry_ms = 1;  // Redis' sum overflows into the past
  }
  if (call.run->progress == nullptr) {
    call.run->progress = std::make_unique<RestoreProgress>();
  }
  auto& progress = static_cast<RestoreProgress&>(*call.run->progress);
  OpResult result = CheckPayload(call, call.args[3], &progress);
  if (result == OpResult::kMiss) {
    return ErrorReply(call, "ERR DUMP payload version or checksum are wrong");
  }
  if (result != OpResult::kOk) {
    return result;
  }
  const std::optional<DumpedString> string = ParseDump(call.args[3]);
  if (string && string->packed) {
    result = Unpack(call, *string, &progress);
  }
  if (!string || result == OpResult::kMiss) {
    return ErrorReply(call, "ERR Bad data format");
  }
  if (result != OpResult::kOk) {
    return result;
  }
  const std::string_view value =
      string->packed ? std::string_view(progress.unpacker->value()) : string->plain();
  return Restore(call, value, static_cast<uint64_t>(expiry_ms));
}

uint64_t RestoreBytes(std::span<const std::string_view> args) {
  const std::optional<DumpedString> string =
      args.size() > 3 ? ParseDump(args[3]) : std::optional<DumpedString>();
  return string && string->packed ? std::min<uint64_t>(string->value_bytes, kValueBytesMax) : 0;
}

}  // namespace kvstored::command
