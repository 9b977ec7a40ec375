// Op: a command, or one shard's part of a command, that could not be answered on the spot: it
// travels to another thread, waits for a commit, or waits at its shard. Pooled: in the steady state
// sending one allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "command/command.h"
#include "command/reply.h"
#include "shard/shard.h"

namespace kvstored::command {

class FrontThread;
class Session;
class Transaction;
struct Op;

// A command's words and keys, copied out of the connection's input.
class ArgPack {
 public:
  // `keys` must point into `args`, in their order.
  void Assign(std::span<const std::string_view> args, std::span<const Key> keys);
  void Clear();
  std::span<const std::string_view> args() const {
    return args_;
  }
  std::span<const Key> keys() const {
    return keys_;
  }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
  std::vector<std::string_view> args_;
  std::vector<Key> keys_;
};

// One shard's gate of an op. `gated` is first: the shard hands back its address.
struct GateSlot {
  shard::Gated gated;
  Op* op = nullptr;
};

enum class OpKind : uint8_t {
  kGroup,        // replies of local commands that wait for local shards to commit
  kKey,          // one command on one shard
  kFanPart,      // part of kFanSum on one shard
  kShardsPart,   // part of Reach::kShards on one shard
  kWatchPart,    // WATCH on one shard
  kFan,          // parent of fan parts
  kShards,       // parent of parts of Reach::kShards
  kWatch,        // parent of WATCH's parts
  kTransaction,  // its transaction says when it is done
  kControl,      // NodeApi::Control
  kWait,         // WAIT, WAITAOF
  kGather,       // asks all front threads (CLIENT LIST, CLIENT KILL)
  kPush,         // a message that no command asked for
};

// Owner: the session's thread, except between Post and the post back, and while parked or gated at
// a shard: then that shard's thread.
struct Op : base::Task {
  Op();
  ~Op();
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  OpKind kind = OpKind::kGroup;
  bool done = false;        // the reply is complete: it leaves when it is the queue's first
  bool silent = false;      // CLIENT REPLY OFF or SKIP: the reply is dropped
  bool parked = false;      // waits at its shard, listed in FrontThread::parked_
  bool redirected = false;  // kPush: for another client, when its turn has come
  bool tracked = false;     // its keys are remembered (tracking.h)
  bool remote = false;      // runs on another thread than the session's
  bool uses = true;         // no CLIENT NO-TOUCH
  uint8_t protocol = 2;
  OpResult result = OpResult::kOk;  // kShardsPart
  ShardId shard = 0;
  uint32_t part = 0;        // index among the parent's parts
  uint32_t parts_left = 0;  // parent: parts that have not come back
  uint32_t gates_left = 0;
  Session* session = nullptr;
  FrontThread* here = nullptr;  // the thread where it runs
  Op* parent = nullptr;
  Op* queue_next = nullptr;  // in the session's queue of replies
  const CommandSpec* spec = nullptr;
  int64_t queued_us = 0;  // when it became the queue's first; 0 = it has not
  int64_t sum = 0;
  int64_t elapsed_us = 0;  // of a command that runs at shards: the time of its parts together
  Seq written = 0;         // newest seq of its shard when it wrote; 0 = it wrote nothing
  ArgPack pack;
  Reply reply;
  std::string error;                     // parent: the first error of a part
  std::vector<std::string> parts;        // parent of kShards and kGather; a part's own is parts[0]
  std::vector<shard::KeyWatch> watches;  // kWatchPart: of its keys
  shard::Run value_run;                  // a large value on its way (ShardCall::run)
  GateSlot gate;
  std::vector<GateSlot> gates;               // kGroup
  std::unique_ptr<Transaction> transaction;  // kTransaction
  size_t index = 0;                          // in FrontThread::ops_

  // Back to what a fresh one is, keeping small buffers.
  void Clear();
};

}  // namespace kvstored::command
