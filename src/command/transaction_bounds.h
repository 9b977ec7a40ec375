// How much a transaction may write at most, told before it writes anything: once it has begun,
// nothing fails (P27).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvstored/op_result.h"
#include "shard/shard.h"

namespace kvstored::command {

struct CommandPart;
struct TransactionCommand;

// Gives each part of a command of Reach::kKey or Reach::kFanSum its arguments and its bounds.
void PlanKeyCommand(TransactionCommand* command);

// What all the parts on one shard write there.
struct ShardBounds {
  uint32_t record_count = 0;
  uint64_t record_bytes = 0;
  uint32_t move_count = 0;  // of those that move a value: its size is not in record_bytes
};

// Not thread-safe: built by the session's thread, then handed from thread to thread with the
// transaction. A value inside EXEC is never larger than the largest that a moving command found
// (known once all shards are held) and all that EXEC's own words add.
class TransactionBounds {
 public:
  explicit TransactionBounds(bool is_exec) : is_exec_(is_exec) {
  }

  void AddCommand(const TransactionCommand& command);
  void AddPart(const TransactionCommand& command, const CommandPart& part, ShardBounds* shard);
  // Does a command of EXEC move a value? Then all shards are held before Reserve().
  bool has_moves() const {
    return move_count_ > 0;
  }
  // A value that may move.
  void SeeValue(uint64_t value_bytes) {
    value_bytes_max_ = std::max(value_bytes_max_, value_bytes);
  }
  // The shards are given back: values may change until they are seen again.
  void ForgetValues() {
    value_bytes_max_ = 0;
  }
  // Asks the shard for all of its bounds and the closing record of `participant_count` shards.
  OpResult Reserve(shard::Shard* shard, const ShardBounds& bounds,
                   uint64_t participant_count) const;

 private:
  const bool is_exec_;
  uint64_t memory_bytes_ = 0;
  uint64_t added_bytes_ = 0;  // by the words of EXEC
  uint64_t value_bytes_max_ = 0;
  uint64_t moved_key_bytes_max_ = 0;
  uint32_t move_count_ = 0;  // commands that move a value, of EXEC
  uint32_t copy_count_ = 0;  // of those, the ones that take memory
};

}  // namespace kvstored::command
