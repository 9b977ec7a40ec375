// The command table's shape: one entry a command drives dispatch, arity, flags, key positions and
// COMMAND's replies. Handlers run on the thread that owns their shard and never block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command/reply.h"
#include "kvstored/op_result.h"
#include "kvstored/types.h"
#include "resp/writer.h"
#include "shard/shard.h"

namespace kvstored::command {

class Session;
struct AtomicSpec;  // command/multi_key.h

// How a command finds the shards it needs.
enum class Reach : uint8_t {
  kSession,  // no shard: runs in the session (PING, CLIENT, CONFIG, MULTI, ...)
  kKey,      // one key: runs whole on its shard (GET, SET, INCR, ...)
  // The next two run as a transaction if they write and there are several shards.
  kFanSum,  // keys split by shard, integer replies added (DEL, UNLINK, EXISTS, TOUCH)
  kShards,  // every shard, parts merged by the command (DBSIZE, KEYS, FLUSHALL, SCAN, RANDOMKEY)
  kAtomic,  // several keys as one, shards held (MGET, MSET, MSETNX, RENAME, COPY)
};

// Flags as COMMAND INFO names them.
inline constexpr uint32_t kFlagWrite = 1u << 0;
inline constexpr uint32_t kFlagReadonly = 1u << 1;
inline constexpr uint32_t kFlagDenyOom = 1u << 2;
inline constexpr uint32_t kFlagAdmin = 1u << 3;
inline constexpr uint32_t kFlagNoScript = 1u << 4;
inline constexpr uint32_t kFlagLoading = 1u << 5;  // runs while loading
inline constexpr uint32_t kFlagStale = 1u << 6;
inline constexpr uint32_t kFlagFast = 1u << 7;
inline constexpr uint32_t kFlagNoMulti = 1u << 8;
inline constexpr uint32_t kFlagNoAuth = 1u << 9;
// Not told to clients: args[1] is a subcommand, checked before the command runs (subcommand.h).
inline constexpr uint32_t kFlagSubcommands = 1u << 10;

// One run of a handler of Reach::kKey or kFanSum on one shard. `args` is the whole command for
// kKey; for kFanSum only args[0] and the keys of this shard. Everything is borrowed for the call.
struct ShardCall {
  shard::Shard* shard = nullptr;
  std::span<const std::string_view> args;
  std::span<const Key> keys;  // the keys among args, in order, digests computed
  Reply* reply = nullptr;
  resp::Writer* out = nullptr;  // writes to reply->bytes
  // A large value on its way: kept between two runs of the same command when the first ended in
  // kWait.
  shard::Run* run = nullptr;
  bool force = false;  // inside a transaction: pass to Reserve and EmitRun
};

// kOk: exactly one reply was written (an error reply counts). kWait: nothing was changed or
// written, run again later. Other results: nothing changed or written; the dispatcher words the
// error.
using ShardHandler = OpResult (*)(ShardCall& call);
// Reach::kSession. Writes exactly one reply to session.out(), or calls session.Control() which
// will.
using SessionHandler = void (*)(Session& session, std::span<const std::string_view> args);

// Reach::kShards: one part on each shard, then the parts are merged where the connection lives.
// The part of one shard, run on its owner's thread. `part` is a private format between the
// command's part and merge functions. Dependencies are noted as in any command (Shard::NoteApplied,
// ...).
struct PartCall {
  shard::Shard* shard = nullptr;
  std::span<const std::string_view> args;  // the whole command
  std::string* part = nullptr;
  bool force = false;  // inside a transaction: pass to Reserve
};
// kOk, kWait (nothing was changed or written, run again later) or an error, as ShardHandler.
using PartHandler = OpResult (*)(PartCall& call);
// Optional: looks at the arguments before any part runs. False: it wrote an error to session.out().
// *only_shard is kAllShards on entry; set it to a shard's number for a part on that one only
// (SCAN).
inline constexpr int32_t kAllShards = -1;
using PlanHandler = bool (*)(Session& session, std::span<const std::string_view> args,
                             uint32_t shard_count, int32_t* only_shard);
// Writes the reply to session.out(). parts[i] is that of shard i (with only_shard: parts[0] alone).
using MergeHandler = void (*)(Session& session, std::span<const std::string_view> args,
                              std::span<const std::string> parts);

struct CommandSpec {
  const char* name;  // lower case
  int arity;         // as Redis: counts the name; negative = at least
  uint32_t flags;
  int first_key;  // 0 = none
  int last_key;   // negative counts from the end
  int key_step;
  Reach reach;
  ShardHandler shard_handler;
  // Reach::kSession; of kKey: runs instead when the arguments end before first_key (OBJECT HELP).
  SessionHandler session_handler;
  // Reach::kShards only.
  PartHandler part_handler = nullptr;
  MergeHandler merge_handler = nullptr;
  PlanHandler plan_handler = nullptr;  // may be null: all shards
  // Reach::kAtomic only.
  const AtomicSpec* atomic = nullptr;
  // Reach::kKey: bytes that a value may get beside those of the words; null: of a number.
  uint64_t (*added_bytes)(std::span<const std::string_view> args) = nullptr;
  bool writes_in_place = false;  // it changes a part of a value, the rest stays
};

// Where the last key stands among so many words.
inline int LastKeyAt(const CommandSpec& spec, size_t word_count) {
  const int count = static_cast<int>(word_count);
  return std::min(spec.last_key < 0 ? count + spec.last_key : spec.last_key, count - 1);
}

// The families of this room that are not data commands; command/table.cc joins them with its own.
std::span<const CommandSpec>
ConnectionCommands();  // PING, HELLO, CLIENT, ... (connection_commands.cc)
std::span<const CommandSpec>
TransactionCommands();  // MULTI, EXEC, WATCH, ... (transaction_commands.cc)
std::span<const CommandSpec> MultiKeyCommands();  // MGET, MSET, MSETNX (multi_key.cc)
std::span<const CommandSpec> MoveCommands();      // RENAME, RENAMENX, COPY (keys_move.cc)
std::span<const CommandSpec> LcsCommands();       // LCS (lcs_command.cc)

// The table, sorted by name. One file per family registers its entries (command/table.cc lists
// them).
std::span<const CommandSpec> CommandTable();
// Case-insensitive; null if unknown.
const CommandSpec* FindCommand(std::string_view name);

}  // namespace kvstored::command
