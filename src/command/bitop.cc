// BITOP: the first phase reads the sources, the second writes the destination.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "command/bit_commands.h"
#include "command/multi_key.h"
#include "command/numbers.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

enum class BitOp : uint8_t { kAnd, kOr, kXor, kNot };

// False: no such operation.
bool ParseOp(std::string_view word, BitOp* op) {
  constexpr std::pair<std::string_view, BitOp> kNames[] = {
      {"and", BitOp::kAnd}, {"or", BitOp::kOr}, {"xor", BitOp::kXor}, {"not", BitOp::kNot}};
  for (const auto& [name, value] : kNames) {
    if (EqualsIgnoreCase(UpToNul(word), name)) {
      *op = value;
      return true;
    }
  }
  return false;
}

CommandPart& ResultPartOf(TransactionCommand& command) {
  return *command.PartOf(command.key_shards[0]);
}

bool PlanBitOp(TransactionCommand& command, resp::Writer& out) {
  BitOp op = BitOp::kAnd;
  if (!ParseOp(command.pack.args()[1], &op)) {
    out.Error(kErrSyntax);
    return false;
  }
  if (op == BitOp::kNot && command.keys.size() != 2) {
    out.Error("ERR BITOP NOT must be called with a single source key.");
    return false;
  }
  command.phase_count = 2;
  ResultPartOf(command).record_count = 1;
  ResultPartOf(command).record_bytes = command.keys[0].bytes.size();
  ResultPartOf(command).moves_value = true;  // as long as the longest source
  ResultPartOf(command).runs.resize(1);
  return true;
}

// Applies `op` to the bytes from `at` on; where the source has ended it is 0.
void Combine(BitOp op, std::string_view source, size_t at, std::string* result) {
  char* to = result->data() + at;
  for (size_t i = 0; i < source.size(); ++i) {
    switch (op) {
      case BitOp::kAnd:
        to[i] = static_cast<char>(to[i] & source[i]);
        break;
      case BitOp::kOr:
        to[i] = static_cast<char>(to[i] | source[i]);
        break;
      case BitOp::kXor:
        to[i] = static_cast<char>(to[i] ^ source[i]);
        break;
      case BitOp::kNot:
        to[i] = static_cast<char>(~source[i]);
        break;
    }
  }
}

void CombineAll(BitOp op, const CapturedValue& source, std::string* result) {
  const uint64_t size_bytes = SizeOf(source);
  if (!source.chain) {
    Combine(op, source.bytes, 0, result);
  }
  for (uint64_t at = 0; source.chain && at < size_bytes;) {
    const std::string_view piece = source.chain.PieceAt(at);
    Combine(op, piece, at, result);
    at += piece.size();
  }
  if (op == BitOp::kAnd) {
    result->replace(size_bytes, std::string::npos, result->size() - size_bytes, '\0');
  }
}

std::string Result(TransactionCommand& command) {
  std::vector<const CapturedValue*> sources(command.keys.size());
  for (const CommandPart& part : command.parts) {
    for (size_t i = 0; i < part.key_indices.size(); ++i) {
      sources[part.key_indices[i]] = &part.values[i];
    }
  }
  uint64_t size_bytes = 0;
  for (size_t i = 1; i < sources.size(); ++i) {
    size_bytes = std::max(size_bytes, SizeOf(*sources[i]));
  }
  BitOp op = BitOp::kAnd;
  (void)ParseOp(command.pack.args()[1], &op);
  std::string result(size_bytes, '\0');
  CombineAll(op == BitOp::kNot ? op : BitOp::kOr, *sources[1], &result);
  for (size_t i = 2; i < sources.size(); ++i) {
    CombineAll(op, *sources[i], &result);
  }
  return result;
}

OpResult WriteResult(AtomicStep& step, const std::string& value) {
  const Key& key = step.command->keys[0];
  if (value.empty()) {
    if (step.shard->Peek(key) == nullptr) {
      return OpResult::kOk;
    }
    const OpResult reserved = step.shard->ReserveLog(1, key.bytes.size(), step.force);
    if (reserved == OpResult::kOk) {
      step.shard->Delete(key);
    }
    return reserved;
  }
  if (!NeedsRun(value.size())) {
    const OpResult reserved = step.shard->Reserve(1, key.bytes.size() + value.size(), step.force);
    return reserved == OpResult::kOk ? step.shard->Set(key, value, 0) : reserved;
  }
  shard::Run& run = step.part->runs[0];
  if (!run.chain) {
    if (const OpResult made = step.shard->MakeRun(value, &run, step.force); made != OpResult::kOk) {
      return made;
    }
  }
  const OpResult emitted = step.shard->EmitRun(&run, key, step.force);
  return emitted == OpResult::kOk ? step.shard->SetRun(key, std::move(run), 0) : emitted;
}

OpResult StepBitOp(AtomicStep& step) {
  CommandPart& part = *step.part;
  if (step.phase == 0) {
    for (const Key& key : part.keys) {
      const store::Item* item = step.shard->Find(key);
      part.values.push_back(item == nullptr ? CapturedValue{} : Capture(*item));
    }
    return OpResult::kOk;
  }
  if (&part != &ResultPartOf(*step.command)) {
    return OpResult::kOk;
  }
  if (!step.command->option) {
    step.command->option = true;  // computed once, however often the step waits
    part.blob = Result(*step.command);
  }
  return WriteResult(step, part.blob);
}

void FinishBitOp(TransactionCommand& command, Reply* /*reply*/, resp::Writer& out) {
  out.Integer(static_cast<int64_t>(ResultPartOf(command).blob.size()));
}

constexpr AtomicSpec kBitOp{&PlanBitOp, nullptr, &StepBitOp, &FinishBitOp};

constexpr std::array<CommandSpec, 1> kBitOpCommands = {{
    {.name = "bitop",
     .arity = -4,
     .flags = kFlagWrite | kFlagDenyOom,
     .first_key = 2,
     .last_key = -1,
     .key_step = 1,
     .reach = Reach::kAtomic,
     .shard_handler = nullptr,
     .session_handler = nullptr,
     .atomic = &kBitOp},
}};

}  // namespace

std::span<const CommandSpec> BitOpCommands() {
  return kBitOpCommands;
}

}  // namespace kvstored::command
