#include "command/multi_key.h"

#include <array>
#include <string>
#include <utility>

#include "command/write_effects.h"

namespace kvstored::command {
namespace {

void AppendCaptured(Reply* reply, resp::Writer& out, CapturedValue* value) {
  if (!value->present) {
    out.Null();
  } else if (!value->chain) {
    out.Bulk(value->bytes);
  } else {
    reply->AppendChain(std::move(value->chain));
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

constexpr AtomicSpec kMget{&PlanMget, nullptr, &StepMget, &FinishMget};
constexpr AtomicSpec kMset{&PlanMset, &EmitLarge, &StepMset, &FinishMset};
constexpr AtomicSpec kMsetNx{&PlanMsetNx, &EmitLarge, &StepMsetNx, &FinishMsetNx};

constexpr std::array<CommandSpec, 3> kMultiKeyCommands = {
    AtomicCommand("mget", -2, kFlagReadonly | kFlagFast, -1, 1, &kMget),
    AtomicCommand("mset", -3, kFlagWrite | kFlagDenyOom, -1, 2, &kMset),
    AtomicCommand("msetnx", -3, kFlagWrite | kFlagDenyOom, -1, 2, &kMsetNx),
};

}  // namespace

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

std::vector<uint32_t> KeyPositions(const CommandSpec& spec, size_t word_count) {
  std::vector<uint32_t> positions;
  if (spec.first_key <= 0) {
    return positions;
  }
  // MSET k v k: the words' count is wrong, which its plan says; no key stands behind the last
  // value.
  for (int at = spec.first_key; at <= LastKeyAt(spec, word_count); at += spec.key_step) {
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
