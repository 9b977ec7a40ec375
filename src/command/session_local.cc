// MGET and MSET whose keys all live on the connection's thread: one call, no transaction object.
#include <algorithm>
#include <memory>
#include <vector>

#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/session.h"
#include "kvstored/limits.h"
#include "record/record.h"

namespace kvstored::command {
namespace {

// The keys of one shard: [begin, end) of Scratch::key_order.
struct KeyRange {
  shard::Shard* shard = nullptr;
  size_t begin = 0;
  size_t end = 0;
};

// Sets the keys of one shard. kOutOfMemory ends it early.
OpResult SetRange(const Scratch& scratch, const KeyRange& range,
                  std::span<const std::string_view> args) {
  for (size_t i = range.begin; i < range.end; ++i) {
    const uint32_t key = scratch.key_order[i].second;
    const OpResult set = range.shard->Set(scratch.keys[key], args[2 + 2 * key], 0);
    if (set != OpResult::kOk) {
      return set;
    }
  }
  return OpResult::kOk;
}

// May every shard take its keys now? kWait also for what needs the long way (large values).
OpResult ReserveAll(const Scratch& scratch, std::span<const KeyRange> ranges,
                    std::span<const std::string_view> args) {
  uint64_t memory_bytes = 0;
  for (const KeyRange& range : ranges) {
    uint64_t bytes = 0;
    for (size_t i = range.begin; i < range.end; ++i) {
      const uint32_t key = scratch.key_order[i].second;
      const size_t value_bytes = args[2 + 2 * key].size();
      if (value_bytes > kPartBytesMax) {
        return OpResult::kWait;
      }
      bytes += scratch.keys[key].bytes.size() + value_bytes;
    }
    memory_bytes += bytes;
    // One record more: the closing one.
    const OpResult reserved = range.shard->ReserveLog(
        static_cast<uint32_t>(range.end - range.begin) + 1, bytes + 10 * ranges.size());
    if (reserved != OpResult::kOk) {
      return reserved;
    }
  }
  return ranges[0].shard->AskRoom(memory_bytes);
}

}  // namespace

bool Session::AllKeysFree() {
  for (const auto& [shard, key] : front_->scratch().key_order) {
    if (!front_->IsLocal(shard) || front_->thread().shard(shard)->IsHeldByOther(0)) {
      return false;
    }
  }
  return true;
}

bool Session::TryRunMget(std::span<const std::string_view> args) {
  Scratch& scratch = front_->scratch();
  if (!AllKeysFree()) {
    return false;
  }
  for (const Key& key : scratch.keys) {
    const ShardId shard = base::ShardOf(key.digest, front_->thread().shard_count());
    front_->thread().shard(shard)->store()->Prefetch(key.digest);
  }
  const ReplyMark mark = BeginReply();
  TrackedRun tracked(&front_->tracking(), *this);
  out_.Array(args.size() - 1);
  for (const Key& key : scratch.keys) {
    shard::Shard* shard =
        front_->thread().shard(base::ShardOf(key.digest, front_->thread().shard_count()));
    shard->BeginCommand(uses_keys_);
    if (RemembersReads()) {
      tracked.Reads(shard->id(), {&key, 1});
    }
    if (const store::Item* item = shard->Find(key); item != nullptr) {
      mark.reply->AppendValue(*item);
    } else {
      out_.Null();
    }
    NoteDependency(shard);
  }
  EndGatedReply(mark);
  return true;
}

bool Session::TryRunMset(std::span<const std::string_view> args) {
  Scratch& scratch = front_->scratch();
  if (args.size() % 2 == 0 || !AllKeysFree()) {
    return false;
  }
  std::vector<KeyRange> ranges;
  for (size_t i = 0; i < scratch.key_order.size(); ++i) {
    if (i == 0 || scratch.key_order[i].first != scratch.key_order[i - 1].first) {
      ranges.push_back({front_->thread().shard(scratch.key_order[i].first), i, i});
    }
    ranges.back().end = i + 1;
  }
  OpResult result = ReserveAll(scratch, ranges, args);
  if (result == OpResult::kWait) {
    return false;
  }
  const ReplyMark mark = BeginReply();
  if (result != OpResult::kOk) {
    WriteOutcome(out_, result);
    EndReply(mark);
    return true;
  }
  const TrackedRun tracked(&front_->tracking(), *this);
  const uint64_t id = front_->set().NextTransactionId();
  const bool one_record = scratch.keys.size() == 1;
  std::vector<record::TxnPart> closing;
  for (const KeyRange& range : ranges) {
    range.shard->BeginCommand();
    if (!one_record) {
      range.shard->BeginTxn(id);
    }
    if (result == OpResult::kOk) {
      result = SetRange(scratch, range, args);
    }
    if (result == OpResult::kWait) {
      return false;  // one key, no chunk for its size, nothing was changed: the long way waits
    }
    if (!one_record && range.shard->TxnHasRecords()) {
      closing.push_back({range.shard->id(), range.shard->TxnEndSeq()});
    }
  }
  std::shared_ptr<shard::TxnCommit> commit;
  if (closing.size() > 1) {
    commit = std::make_shared<shard::TxnCommit>(closing.size());
  }
  for (const KeyRange& range : ranges) {
    if (!one_record && range.shard->TxnHasRecords()) {
      range.shard->EndTxn(closing, commit);
    } else if (!one_record) {
      range.shard->AbandonTxn();
    }
    NoteWrite(range.shard->id(), range.shard->applied());
    NoteDependency(range.shard);
  }
  if (result == OpResult::kOk) {
    out_.Simple("OK");
  } else {
    WriteOutcome(out_, result);
  }
  EndGatedReply(mark);
  return true;
}

}  // namespace kvstored::command
