// The plan of a transaction: which command has which part on which shard, in which phase, and how
// much all of them may write. On the session's thread, before anything runs.
#include <algorithm>
#include <utility>

#include "command/front_thread.h"
#include "command/multi_key.h"
#include "command/transaction.h"

namespace kvstored::command {

CommandPart* TransactionCommand::PartOf(ShardId shard) {
  const auto found =
      std::lower_bound(parts.begin(), parts.end(), shard,
                       [](const CommandPart& part, ShardId wanted) { return part.shard < wanted; });
  return found != parts.end() && found->shard == shard ? &*found : nullptr;
}

// Digests of the command's keys, and one part for each of their shards.
void Transaction::SplitKeys(TransactionCommand* command) {
  const std::span<const std::string_view> args = command->pack.args();
  const base::Digester& digester = *session_->front().set().options().digester;
  const uint32_t shard_count = session_->front().thread().shard_count();
  for (const uint32_t at : KeyPositions(*command->spec, args.size())) {
    const Key key{args[at], digester.Of(args[at])};
    command->keys.push_back(key);
    command->key_shards.push_back(base::ShardOf(key.digest, shard_count));
  }
  std::vector<ShardId> shards = command->key_shards;
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  for (const ShardId shard : shards) {
    command->parts.emplace_back().shard = shard;
  }
  for (uint32_t i = 0; i < command->keys.size(); ++i) {
    CommandPart* part = command->PartOf(command->key_shards[i]);
    part->key_indices.push_back(i);
    part->keys.push_back(command->keys[i]);
  }
}

void Transaction::PlanCommand(TransactionCommand* command) {
  const CommandSpec& spec = *command->spec;
  const std::span<const std::string_view> args = command->pack.args();
  resp::Writer error(&command->error, op_->protocol);
  const bool writes = (spec.flags & kFlagWrite) != 0;
  if (spec.reach == Reach::kSession ||
      (spec.reach == Reach::kKey && args.size() <= static_cast<size_t>(spec.first_key))) {
    return;
  }
  if (spec.reach == Reach::kShards) {
    const uint32_t shard_count = session_->front().thread().shard_count();
    int32_t only_shard = kAllShards;
    bool planned = true;
    if (spec.plan_handler != nullptr) {
      session_->WriteInto(
          op_, [&] { planned = spec.plan_handler(*session_, args, shard_count, &only_shard); });
      std::swap(command->error, op_->reply.bytes);
      op_->reply.bytes.clear();
    }
    for (uint32_t i = 0; planned && i < shard_count; ++i) {
      if (only_shard == kAllShards || static_cast<uint32_t>(only_shard) == i) {
        CommandPart& part = command->parts.emplace_back();
        part.shard = static_cast<ShardId>(i);
        part.record_count = writes ? 1 : 0;
      }
    }
    return;
  }
  SplitKeys(command);
  if (spec.reach == Reach::kAtomic) {
    if (!spec.atomic->plan(*command, error)) {
      command->parts.clear();
    }
    return;
  }
  PlanKeyCommand(command);
}

Transaction::ShardPart* Transaction::PartOf(ShardId shard) {
  FrontThread& home = session_->front();
  FrontThread& owner = home.set().thread(home.thread().OwnerOf(shard));
  auto thread = std::find_if(threads_.begin(), threads_.end(),
                             [&owner](const auto& part) { return part->front == &owner; });
  if (thread == threads_.end()) {
    auto part = std::make_unique<ThreadPart>();
    part->transaction = this;
    part->front = &owner;
    thread = threads_.insert(threads_.end(), std::move(part));
  }
  for (const auto& part : (*thread)->shards) {
    if (part->shard == shard) {
      return part.get();
    }
  }
  auto part = std::make_unique<ShardPart>();
  part->shard = shard;
  part->owner = thread->get();
  part->gated.release = &Released;
  (*thread)->shards.push_back(std::move(part));
  return (*thread)->shards.back().get();
}

void Transaction::BuildParts() {
  uint32_t phase = 0;
  for (size_t i = 0; i < commands_.size(); ++i) {
    TransactionCommand* command = commands_[i].get();
    PlanCommand(command);
    // A command of several phases ends them where the next one may begin: on a shard, steps of one
    // phase run in the order of commands.
    command->first_phase = phase;
    phase += command->phase_count - 1;
    writes_ = writes_ || (command->spec->flags & kFlagWrite) != 0;
    changes_session_ = changes_session_ || command->spec->reach == Reach::kSession;
    for (CommandPart& part : command->parts) {
      part.command = static_cast<uint32_t>(i);
      ShardPart* shard = PartOf(part.shard);
      shard->steps.push_back(&part);
      bounds_.AddPart(*command, part, &shard->bounds);
    }
    bounds_.AddCommand(*command);
  }
  phase_count_ = phase + 1;
  for (const WatchedKey& watched : watched_) {
    PartOf(watched.shard)->watched.push_back(&watched);
  }
  // One order for all transactions, by thread and then by number, so that two never wait for each
  // other; by thread first, because then each thread is visited once.
  std::sort(threads_.begin(), threads_.end(),
            [](const auto& a, const auto& b) { return a->front->index() < b->front->index(); });
  for (const auto& thread : threads_) {
    shard_count_ += thread->shards.size();
    std::sort(thread->shards.begin(), thread->shards.end(),
              [](const auto& a, const auto& b) { return a->shard < b->shard; });
  }
}

}  // namespace kvstored::command
