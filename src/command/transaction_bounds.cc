#include "command/transaction_bounds.h"

#include <span>
#include <string_view>

#include "command/transaction.h"
#include "command/write_effects.h"
#include "kvstored/limits.h"

namespace kvstored::command {
namespace {

// What a value may get that is in no word of the command: its own number at least.
uint64_t AddedBytesOf(const CommandSpec& spec, std::span<const std::string_view> args) {
  constexpr uint64_t kNumberBytesMax = 64;
  return kNumberBytesMax + (spec.added_bytes != nullptr ? spec.added_bytes(args) : 0);
}

}  // namespace

void PlanKeyCommand(TransactionCommand* command) {
  const CommandSpec& spec = *command->spec;
  const std::span<const std::string_view> args = command->pack.args();
  for (CommandPart& part : command->parts) {
    if (spec.reach == Reach::kFanSum) {
      part.args.push_back(args[0]);
      for (const Key& key : part.keys) {
        part.args.push_back(key.bytes);
      }
    } else {
      part.args.assign(args.begin(), args.end());
    }
    part.runs.resize(1);
    if ((spec.flags & kFlagWrite) == 0) {
      continue;
    }
    // A key's command writes one record, or two where a value replaces an expired item.
    part.record_count = 2 * static_cast<uint32_t>(part.keys.size());
    uint64_t bytes = AddedBytesOf(spec, args) * part.keys.size();
    for (const std::string_view& arg : part.args) {
      bytes += arg.size();
    }
    part.record_bytes = NeedsRun(bytes)
                            ? RunBytesMax(bytes, part.keys.empty() ? 0 : part.keys[0].bytes.size())
                            : bytes;
    part.memory_bytes = (spec.flags & kFlagDenyOom) != 0 ? bytes : 0;
    // Too much for a delta: the whole value is written anew, with what was there.
    part.moves_value = NeedsRun(bytes) && spec.writes_in_place;
  }
}

void TransactionBounds::AddCommand(const TransactionCommand& command) {
  if (!is_exec_) {
    return;
  }
  const std::span<const std::string_view> args = command.pack.args();
  for (const std::string_view& arg : args) {
    added_bytes_ += arg.size();
  }
  added_bytes_ += AddedBytesOf(*command.spec, args);
}

void TransactionBounds::AddPart(const TransactionCommand& command, const CommandPart& part,
                                ShardBounds* shard) {
  shard->record_count += part.record_count;
  shard->record_bytes += part.record_bytes;
  memory_bytes_ += part.memory_bytes;
  if (!is_exec_) {
    return;  // large values are in the log when the shards are taken; what moves is reserved then
  }
  shard->record_bytes += part.run_bytes;
  memory_bytes_ += part.run_bytes;
  if (part.moves_value) {
    ++shard->move_count;
    ++move_count_;
    for (const Key& key : part.keys) {
      moved_key_bytes_max_ = std::max<uint64_t>(moved_key_bytes_max_, key.bytes.size());
    }
    copy_count_ += (command.spec->flags & kFlagDenyOom) != 0 ? 1 : 0;
  }
}

OpResult TransactionBounds::Reserve(shard::Shard* shard, const ShardBounds& bounds,
                                    uint64_t participant_count) const {
  if (bounds.record_count == 0) {
    return OpResult::kOk;
  }
  const uint64_t value_bytes = std::min<uint64_t>(value_bytes_max_ + added_bytes_, kValueBytesMax);
  const uint64_t moved_bytes = NeedsRun(value_bytes)
                                   ? RunBytesMax(value_bytes, moved_key_bytes_max_)
                                   : value_bytes + moved_key_bytes_max_;
  // The closing record comes on top: 10 bytes for each participant.
  const OpResult reserved =
      shard->ReserveLog(bounds.record_count + 1, bounds.record_bytes + 10 * participant_count +
                                                     bounds.move_count * moved_bytes);
  if (reserved != OpResult::kOk) {
    return reserved;
  }
  const uint64_t memory_bytes = memory_bytes_ + copy_count_ * value_bytes;
  return memory_bytes == 0 ? OpResult::kOk : shard->AskRoom(memory_bytes);
}

}  // namespace kvstored::command
