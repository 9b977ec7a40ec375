// Commands of several keys that are one: MGET MSET MSETNX (multi_key.cc), RENAME RENAMENX COPY
// (keys_move.cc), BITOP (bitop.cc), LCS (lcs_command.cc), as phases of steps on their shards; a
// Transaction runs them.
#pragma once

#include <cstdint>
#include <vector>

#include "command/command.h"
#include "command/transaction.h"
#include "kvstored/op_result.h"

namespace kvstored::command {

// One step: on the part's shard, held, after every step of the phases before.
struct AtomicStep {
  shard::Shard* shard = nullptr;
  TransactionCommand* command = nullptr;
  CommandPart* part = nullptr;
  uint32_t phase = 0;  // 0-based within the command
  bool force = false;  // inside EXEC: space was reserved, it must not wait
};

struct AtomicSpec {
  // Sets phase_count, prepares and the parts' bounds. False: wrote an error instead.
  bool (*plan)(TransactionCommand& command, resp::Writer& out);
  // Before anything is held, on each part's shard: large values into the log, inert. kWait: call
  // again. May be null.
  OpResult (*prepare)(AtomicStep& step);
  // kWait, inside EXEC: only to let a tick end, since a record of the transaction may hold back the
  // commits that others would wait for. Other errors end this command alone.
  OpResult (*step)(AtomicStep& step);
  // Writes the reply from the parts.
  void (*finish)(TransactionCommand& command, Reply* reply, resp::Writer& out);
  // Before finish, once the shards are given back: long work on what the steps captured, a slice a
  // tick. False: call again in the next one. May be null.
  bool (*compute)(TransactionCommand& command) = nullptr;
};

constexpr CommandSpec AtomicCommand(const char* name, int arity, uint32_t flags, int last_key,
                                    int key_step, const AtomicSpec* atomic) {
  return {name,    arity,   flags,   1,       last_key, key_step, Reach::kAtomic,
          nullptr, nullptr, nullptr, nullptr, nullptr,  atomic};
}

// What the item holds, for another shard or for the reply.
CapturedValue Capture(const store::Item& item);
uint64_t SizeOf(const CapturedValue& value);
// Positions of the keys among `word_count` words.
std::vector<uint32_t> KeyPositions(const CommandSpec& spec, size_t word_count);
bool IsMget(const CommandSpec& spec);
bool IsMset(const CommandSpec& spec);

}  // namespace kvstored::command
