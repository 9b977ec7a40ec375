// Why a command is refused before it runs, in the words and order of Redis 7.0.15.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "command/command.h"
#include "command/subcommand.h"
#include "kvstored/op_result.h"
#include "shard/node_gate.h"

namespace kvstored::command {

// Bytes that one connection may queue behind MULTI.
inline constexpr uint64_t kMultiBytesMax = uint64_t{1} << 30;

// The record's key length has 16 bits: is a key among `args` too long for it?
bool HasLongKey(const CommandSpec& spec, std::span<const std::string_view> args);
// Is RefusalOf() empty?
inline bool IsWellFormed(const CommandSpec& spec, std::span<const std::string_view> args) {
  return IsArity(spec.arity, args.size()) && !HasLongKey(spec, args) &&
         ((spec.flags & kFlagSubcommands) == 0 || SubcommandRefusal(spec.name, args).empty());
}
// May a command with these flags run as the node is now? What only a shard can know (log space,
// memory) its Reserve tells later.
inline OpResult GateOutcome(const shard::NodeGate& gate, uint32_t flags) {
  if ((flags & kFlagLoading) == 0 && gate.loading.load(std::memory_order_relaxed)) {
    return OpResult::kLoading;
  }
  return (flags & kFlagWrite) != 0 ? gate.JudgeWrite() : OpResult::kOk;
}
// "READONLY You can't write against a read only replica.", ...
std::string_view OutcomeText(OpResult outcome);
void WriteOutcome(resp::Writer& out, OpResult outcome);
// "-ERR message": what an operation of the node failed with.
void WriteStatus(resp::Writer& out, const absl::Status& status);
// Unknown command or wrong number of arguments: the error; otherwise empty.
std::string RefusalOf(const CommandSpec* spec, std::span<const std::string_view> args);

bool IsExec(const CommandSpec& spec);
// Runs at once between MULTI and EXEC instead of being queued.
bool RunsInsideMulti(const CommandSpec& spec);
// A browser was made to speak to us ("POST /...", "Host: ...").
bool IsHttp(std::string_view command);

}  // namespace kvstored::command
