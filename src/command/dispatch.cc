#include "command/dispatch.h"

#include <array>

#include "command/numbers.h"
#include "kvstored/limits.h"

namespace kvstored::command {

std::string_view OutcomeText(OpResult outcome) {
  switch (outcome) {
    case OpResult::kNoReplicas:
      return "NOREPLICAS Not enough good replicas to write.";
    case OpResult::kReadOnly:
      return "READONLY You can't write against a read only replica.";
    case OpResult::kLoading:
      return "LOADING Redis is loading the dataset in memory";
    case OpResult::kOutOfMemory:
      return "OOM command not allowed when used memory > 'maxmemory'.";
    case OpResult::kDiskFull:
      return "MISCONF Errors writing to the AOF file: No space left on device";
    case OpResult::kTooLarge:
      return "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    case OpResult::kSteppedDown:
      return "MISCONF Errors writing to the AOF file: Input/output error";
    case OpResult::kOk:
    case OpResult::kMiss:
    case OpResult::kWait:
      break;
  }
  return "ERR internal error: unexpected outcome";
}

void WriteOutcome(resp::Writer& out, OpResult outcome) {
  out.Error(OutcomeText(outcome));
}

void WriteStatus(resp::Writer& out, const absl::Status& status) {
  out.Error("ERR " + std::string(status.message()));
}

bool HasLongKey(const CommandSpec& spec, std::span<const std::string_view> args) {
  static_assert(kKeyBytesMax == 65535, "the error below says so");
  if (spec.first_key == 0) {
    return false;
  }
  const int last = LastKeyAt(spec, args.size());
  for (int i = spec.first_key; i <= last; i += spec.key_step) {
    if (args[static_cast<size_t>(i)].size() > kKeyBytesMax) {
      return true;
    }
  }
  return false;
}

std::string RefusalOf(const CommandSpec* spec, std::span<const std::string_view> args) {
  if (spec == nullptr) {
    std::string words;
    for (size_t i = 1; i < args.size() && words.size() < kEchoedBytesMax; ++i) {
      const size_t left = kEchoedBytesMax - words.size();
      words.append("'").append(UpToNul(args[i]).substr(0, left)).append("' ");
    }
    return "ERR unknown command '" + std::string(UpToNul(args[0]).substr(0, kEchoedBytesMax)) +
           "', with args beginning with: " + words;
  }
  if (!IsArity(spec->arity, args.size())) {
    return "ERR wrong number of arguments for '" + std::string(spec->name) + "' command";
  }
  if ((spec->flags & kFlagSubcommands) != 0) {
    if (std::string error = SubcommandRefusal(spec->name, args); !error.empty()) {
      return error;
    }
  }
  if (HasLongKey(*spec, args)) {
    return "ERR key is longer than 65535 bytes";
  }
  return {};
}

bool IsExec(const CommandSpec& spec) {
  return std::string_view(spec.name) == "exec";
}

bool RunsInsideMulti(const CommandSpec& spec) {
  constexpr std::array<std::string_view, 6> kNames = {"exec",  "discard", "multi",
                                                      "watch", "quit",    "reset"};
  for (const std::string_view name : kNames) {
    if (name == spec.name) {
      return true;
    }
  }
  return false;
}

bool IsHttp(std::string_view command) {
  return EqualsIgnoreCase(command, "post") || EqualsIgnoreCase(command, "host:");
}

}  // namespace kvstored::command
