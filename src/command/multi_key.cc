#include "command/multi_key.h"

#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "command/dispatch.h"
#include "command/numbers.h"
#include "command/write_effects.h"
#include "kvstored/limits.h"

namespace kvstored::command {
namespace {

CapturedValue Capture(const store::Item& item) {
  CapturedValue value;
  value.present = true;
  value.expiry_ms = item.expiry_ms();
  if (item.is_chain()) {
    value.chain = item.chain();
  } else {
    value.bytes = item.value();
  }
  return value;
}

uint64_t SizeOf(const CapturedValue& value) {
  return value.chain ? value.chain.size_bytes() : value.bytes.size();
}

void AppendCaptured(Reply* reply, resp::Writer& out, CapturedValue* value) {
  if (!value->present) {
    out.Null();
  } else if (!value->chain) {
    out.Bulk(value->bytes);
  } else {
    const uint64_t bytes = value->chain.size_bytes();
    out.BulkHeader(bytes);
    if (bytes >= kChainBytesMin) {
      reply->externals.push_back({reply->bytes.size(), std::move(value->chain)});
    } else {
      const size_t start = reply->bytes.size();
      reply->bytes.resize(start + bytes);
      value->chain.CopyTo(0, reply->bytes.data() + start, bytes);
    }
    reply->bytes += "\r\n";
  }
}

// --- MGET ---

bool PlanMget(TransactionCommand& /*command*/, resp::Writer& /*out*/) {
  return true;
}

OpResult StepMget(AtomicStep& step) {
  for (const Key& key : step.part->keys) {
    const store::Item* item = step.shard->Find(key);
    step.part->values.push_back(item == nullptr ? CapturedValue{} : Capture(*item));
  }
  return OpResult::kOk;
}

void FinishMget(TransactionCommand& command, Reply* reply, resp::Writer& out) {
  std::vector<CapturedValue*> values(command.keys.size());
  for (CommandPart& part : command.parts) {
    for (size_t i = 0; i < part.key_indices.size(); ++i) {
      values[part.key_indices[i]] = &part.values[i];
    }
  }
  out.Array(values.size());
  for (CapturedValue* value : values) {
    AppendCaptured(reply, out, value);
  }
}

// --- MSET, MSETNX: key 0 value 0 key 1 value 1 ... ---

std::string_view ValueOf(const TransactionCommand& command, uint32_t key_index) {
  return command.pack.args()[2 + 2 * key_index];
}

bool PlanMset(TransactionCommand& command, resp::Writer& out) {
  if (command.pack.args().size() % 2 == 0) {
    out.Error("ERR wrong number of arguments for '" + std::string(command.spec->name) +
              "' command");
    return false;
  }
  for (CommandPart& part : command.parts) {
    part.runs.resize(part.key_indices.size());
    part.record_count = static_cast<uint32_t>(part.key_indices.size());
    for (const uint32_t key : part.key_indices) {
      const std::string_view value = ValueOf(command, key);
      const size_t key_bytes = command.keys[key].bytes.size();
      part.record_bytes += key_bytes + 8;
      if (NeedsRun(value.size())) {
        command.prepares = true;
        part.run_bytes += RunBytesMax(value.size(), key_bytes);
      } else {
        part.record_bytes += value.size();
      }
    }
    part.memory_bytes = part.record_bytes;
  }
  return true;
}

bool PlanMsetNx(TransactionCommand& command, resp::Writer& out) {
  command.phase_count = 2;
  return PlanMset(command, out);
}

// Copies large values into their slabs and emits their parts.
OpResult EmitLarge(AtomicStep& step) {
  for (size_t i = 0; i < step.part->keys.size(); ++i) {
    const std::string_view value = ValueOf(*step.command, step.part->key_indices[i]);
    shard::Run& run = step.part->runs[i];
    if (!NeedsRun(value.size())) {
      continue;
    }
    if (!run.chain) {
      if (const OpResult made = step.shard->MakeRun(value, &run, step.force);
          made != OpResult::kOk) {
        return made;
      }
    }
    const OpResult emitted = step.shard->EmitRun(&run, step.part->keys[i], step.force);
    if (emitted != OpResult::kOk) {
      return emitted;
    }
  }
  return OpResult::kOk;
}

OpResult StepMset(AtomicStep& step) {
  if (const OpResult emitted = EmitLarge(step); emitted != OpResult::kOk) {
    return emitted;
  }
  for (size_t i = 0; i < step.part->keys.size(); ++i) {
    const Key& key = step.part->keys[i];
    const std::string_view value = ValueOf(*step.command, step.part->key_indices[i]);
    const OpResult set = NeedsRun(value.size())
                             ? step.shard->SetRun(key, std::move(step.part->runs[i]), 0)
                             : step.shard->Set(key, value, 0);
    if (set != OpResult::kOk) {
      return set;
    }
  }
  return OpResult::kOk;
}

OpResult StepMsetNx(AtomicStep& step) {
  if (step.phase == 0) {
    for (const Key& key : step.part->keys) {
      step.part->flag = step.part->flag || step.shard->Peek(key) != nullptr;
    }
    return OpResult::kOk;
  }
  for (const CommandPart& part : step.command->parts) {
    if (part.flag) {
      return OpResult::kOk;
    }
  }
  return StepMset(step);
}

void FinishMset(TransactionCommand& /*command*/, Reply* /*reply*/, resp::Writer& out) {
  out.Simple("OK");
}

void FinishMsetNx(TransactionCommand& command, Reply* /*reply*/, resp::Writer& out) {
  for (const CommandPart& part : command.parts) {
    if (part.flag) {
      out.Integer(0);
      return;
    }
  }
  out.Integer(1);
}

// --- RENAME, RENAMENX, COPY: the first phase looks at both keys, the second writes the
// destination, the third removes the source. `flag` of the destination's part: it is there already.
// ---

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

constexpr AtomicSpec kMget{&PlanMget, nullptr, &StepMget, &FinishMget};
constexpr AtomicSpec kMset{&PlanMset, &EmitLarge, &StepMset, &FinishMset};
constexpr AtomicSpec kMsetNx{&PlanMsetNx, &EmitLarge, &StepMsetNx, &FinishMsetNx};
constexpr AtomicSpec kRename{&PlanRename, nullptr, &StepRename, &FinishRename};
constexpr AtomicSpec kRenameNx{&PlanRename, nullptr, &StepRenameNx, &FinishRenameNx};
constexpr AtomicSpec kCopy{&PlanCopy, nullptr, &StepCopy, &FinishCopy};

constexpr CommandSpec AtomicCommand(const char* name, int arity, uint32_t flags, int last_key,
                                    int key_step, const AtomicSpec* atomic) {
  return {name,    arity,   flags,   1,       last_key, key_step, Reach::kAtomic,
          nullptr, nullptr, nullptr, nullptr, nullptr,  atomic};
}

constexpr std::array<CommandSpec, 6> kMultiKeyCommands = {
    AtomicCommand("mget", -2, kFlagReadonly | kFlagFast, -1, 1, &kMget),
    AtomicCommand("mset", -3, kFlagWrite | kFlagDenyOom, -1, 2, &kMset),
    AtomicCommand("msetnx", -3, kFlagWrite | kFlagDenyOom, -1, 2, &kMsetNx),
    AtomicCommand("rename", 3, kFlagWrite, 2, 1, &kRename),
    AtomicCommand("renamenx", 3, kFlagWrite | kFlagFast, 2, 1, &kRenameNx),
    AtomicCommand("copy", -3, kFlagWrite | kFlagDenyOom, 2, 1, &kCopy),
};

}  // namespace

std::vector<uint32_t> KeyPositions(const CommandSpec& spec, size_t word_count) {
  std::vector<uint32_t> positions;
  if (spec.first_key <= 0) {
    return positions;
  }
  const int words = static_cast<int>(word_count);
  int last = spec.last_key >= 0 ? spec.last_key : words + spec.last_key;
  // MSET k v k: the words' count is wrong, which its plan says; no key stands behind the last
  // value.
  for (int at = spec.first_key; at <= last && at < words; at += spec.key_step) {
    positions.push_back(static_cast<uint32_t>(at));
  }
  return positions;
}

bool IsMget(const CommandSpec& spec) {
  return spec.atomic == &kMget;
}

bool IsMset(const CommandSpec& spec) {
  return spec.atomic == &kMset;
}

std::span<const CommandSpec> MultiKeyCommands() {
  return kMultiKeyCommands;
}

}  // namespace kvstored::command
