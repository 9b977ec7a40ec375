// RENAME, RENAMENX, COPY: the first phase looks at both keys, the second writes the destination,
// the third removes the source. `flag` of the destination's part: it is there already.
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "command/multi_key.h"
#include "command/numbers.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

CommandPart& SourceOf(TransactionCommand& command) {
  return *command.PartOf(command.key_shards[0]);
}
CommandPart& DestinationOf(TransactionCommand& command) {
  return *command.PartOf(command.key_shards[1]);
}

bool IsSameKey(const TransactionCommand& command) {
  return command.keys[0].bytes == command.keys[1].bytes;
}

bool PlanRename(TransactionCommand& command, resp::Writer& /*out*/) {
  command.phase_count = 3;
  SourceOf(command).record_count += 1;
  SourceOf(command).record_bytes += command.keys[0].bytes.size();
  DestinationOf(command).record_count += 1;
  DestinationOf(command).record_bytes += command.keys[1].bytes.size();
  DestinationOf(command).moves_value = true;
  DestinationOf(command).runs.resize(1);
  SourceOf(command).values.resize(1);
  return true;
}

bool PlanCopy(TransactionCommand& command, resp::Writer& out) {
  const std::span<const std::string_view> args = command.pack.args();
  bool replace = false;
  for (size_t i = 3; i < args.size(); ++i) {
    if (EqualsIgnoreCase(args[i], "replace")) {
      replace = true;
    } else if (EqualsIgnoreCase(args[i], "db") && i + 1 < args.size()) {
      int64_t database = 0;
      if (const std::string_view error = ParseInt32(args[++i], &database); !error.empty()) {
        out.Error(error);
        return false;
      }
      if (database != 0) {
        out.Error("ERR DB index is out of range");
        return false;
      }
    } else {
      out.Error(kErrSyntax);
      return false;
    }
  }
  if (IsSameKey(command)) {
    out.Error("ERR source and destination objects are the same");
    return false;
  }
  command.phase_count = 2;
  DestinationOf(command).record_count = 1;
  DestinationOf(command).record_bytes = command.keys[1].bytes.size();
  DestinationOf(command).moves_value = true;
  DestinationOf(command).runs.resize(1);
  SourceOf(command).values.resize(1);
  command.option = replace;
  return true;
}

// A chain belongs to its store: within the shard it is shared, otherwise copied.
OpResult TakeChain(AtomicStep& step, const store::ChainRef& chain, bool moves, shard::Run* run) {
  if (step.command->key_shards[0] == step.command->key_shards[1]) {
    run->chain = chain;
    return OpResult::kOk;
  }
  return step.shard->CopyRun(chain, run, step.force || moves);
}

// Writes the captured value to the destination. kWait is possible until the value is linked. What
// moves (RENAME) needs no budget: it leaves another place.
OpResult WriteDestination(AtomicStep& step, const CapturedValue& value, bool moves) {
  const Key& key = step.command->keys[1];
  const uint64_t bytes = SizeOf(value);
  if (NeedsRun(bytes)) {
    shard::Run& run = step.part->runs[0];
    if (!run.chain) {
      const OpResult made = TakeChain(step, value.chain, moves, &run);
      if (made != OpResult::kOk) {
        return made;
      }
    }
    const OpResult emitted = step.shard->EmitRun(&run, key, step.force);
    if (emitted != OpResult::kOk) {
      return emitted;
    }
    return step.shard->SetRun(key, std::move(run), value.expiry_ms);
  }
  const OpResult reserved = moves ? step.shard->ReserveLog(1, key.bytes.size() + bytes, step.force)
                                  : step.shard->Reserve(1, key.bytes.size() + bytes, step.force);
  if (reserved != OpResult::kOk) {
    return reserved;
  }
  if (!value.chain) {
    return step.shard->Set(key, value.bytes, value.expiry_ms);
  }
  std::string copied(bytes, '\0');
  value.chain.CopyTo(0, copied.data(), bytes);
  return step.shard->Set(key, copied, value.expiry_ms);
}

// Must the destination be written? Known after the first phase.
bool Moves(TransactionCommand& command, bool only_if_absent) {
  return SourceOf(command).values[0].present && !IsSameKey(command) &&
         !(only_if_absent && DestinationOf(command).flag);
}

OpResult StepMove(AtomicStep& step, bool only_if_absent, bool remove_source) {
  TransactionCommand& command = *step.command;
  CommandPart* source = &SourceOf(command);
  CommandPart* destination = &DestinationOf(command);
  if (step.phase == 0) {
    if (step.part == source) {
      const Key& key = command.keys[0];
      // COPY reads its source, RENAME takes it away.
      const store::Item* item = remove_source ? step.shard->Peek(key) : step.shard->Find(key);
      source->values[0] = item == nullptr ? CapturedValue{} : Capture(*item);
    }
    if (step.part == destination) {
      destination->flag = step.shard->Peek(command.keys[1]) != nullptr;
    }
    return OpResult::kOk;
  }
  if (!Moves(command, only_if_absent)) {
    return OpResult::kOk;
  }
  if (step.phase == 1 && step.part == destination) {
    return WriteDestination(step, source->values[0], remove_source);
  }
  if (step.phase == 2 && remove_source && step.part == source &&
      destination->result == OpResult::kOk) {
    step.shard->Delete(command.keys[0]);
  }
  return OpResult::kOk;
}

OpResult StepRename(AtomicStep& step) {
  return StepMove(step, false, true);
}

OpResult StepRenameNx(AtomicStep& step) {
  return StepMove(step, true, true);
}

OpResult StepCopy(AtomicStep& step) {
  return StepMove(step, !step.command->option, false);
}

void FinishRename(TransactionCommand& command, Reply* /*reply*/, resp::Writer& out) {
  if (!SourceOf(command).values[0].present) {
    out.Error("ERR no such key");
  } else {
    out.Simple("OK");
  }
}

void FinishRenameNx(TransactionCommand& command, Reply* /*reply*/, resp::Writer& out) {
  if (!SourceOf(command).values[0].present) {
    out.Error("ERR no such key");
  } else {
    out.Integer(Moves(command, true) ? 1 : 0);
  }
}

void FinishCopy(TransactionCommand& command, Reply* /*reply*/, resp::Writer& out) {
  out.Integer(Moves(command, !command.option) ? 1 : 0);
}

constexpr AtomicSpec kRename{&PlanRename, nullptr, &StepRename, &FinishRename};
constexpr AtomicSpec kRenameNx{&PlanRename, nullptr, &StepRenameNx, &FinishRenameNx};
constexpr AtomicSpec kCopy{&PlanCopy, nullptr, &StepCopy, &FinishCopy};

constexpr std::array<CommandSpec, 3> kMoveCommands = {
    AtomicCommand("rename", 3, kFlagWrite, 2, 1, &kRename),
    AtomicCommand("renamenx", 3, kFlagWrite | kFlagFast, 2, 1, &kRenameNx),
    AtomicCommand("copy", -3, kFlagWrite | kFlagDenyOom, 2, 1, &kCopy),
};

}  // namespace

std::span<const CommandSpec> MoveCommands() {
  return kMoveCommands;
}

}  // namespace kvstored::command
