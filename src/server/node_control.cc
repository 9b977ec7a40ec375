// The node's side of commands: operations that change roles, members, configuration.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/hex.h"
#include "server/node.h"
#include "store/eviction.h"

namespace kvstored::server {
namespace {

using Verb = ControlRequest::Verb;

// Answers OK or the error.
replication::Replication::Done Answer(std::function<void(absl::StatusOr<std::string>)> done) {
  return [done = std::move(done)](const absl::Status& status) {
    if (status.ok()) {
      done(std::string("OK"));
    } else {
      done(status);
    }
  };
}

// Keys that are decided with the members and persisted, not only set.
bool NeedsMembers(const std::vector<std::string>& changed) {
  return std::any_of(changed.begin(), changed.end(), [](const std::string& name) {
    return name == "replication.ack" || name == "replication.ack_replicas";
  });
}

}  // namespace

void Node::Control(std::vector<std::string> words, ControlDone done) {
  const absl::StatusOr<ControlRequest> request = ParseControl(words);
  if (!request.ok()) {
    done(request.status());
    return;
  }
  switch (request->verb) {
    case Verb::kStatus:
      done(StatusJson());
      return;
    case Verb::kMemberList:
      done(MembersJson());
      return;
    case Verb::kBgSave:
      checkpoints_->Request([](const absl::Status&) {});
      done(std::string("OK"));
      return;
    case Verb::kSave:
    case Verb::kCheckpoint:
      checkpoints_->Request(Answer(std::move(done)));
      return;
    case Verb::kShutdown:
      done(std::string("OK"));
      if (on_shutdown) {
        on_shutdown(!request->nosave);
      }
      return;
    case Verb::kReplicaOf:
      ControlReplicaOf(*request, done);
      return;
    case Verb::kPromote:
    case Verb::kDemote:
    case Verb::kJoin:
    case Verb::kMemberDrop:
    case Verb::kMemberReplace:
      core_->replication->Post([this, request = *request, done = std::move(done)] {
        ControlOnReplication(request, done);
      });
      return;
  }
}

void Node::ControlOnReplication(const ControlRequest& request, const ControlDone& done) {
  switch (request.verb) {
    case Verb::kPromote:
      roles_->Promote(request.ack_replicas, request.accept_loss, Answer(done));
      return;
    case Verb::kDemote:
      roles_->Demote(request.address, Answer(done));
      return;
    case Verb::kJoin:
      roles_->Join(request.address, request.discard_local_data, Answer(done));
      return;
    default:
      ControlMembers(request, done);
      return;
  }
}

Id128 Node::FindStore(const std::string& name) const {
  Id128 id;
  if (base::FromHex(name, &id)) {
    return id;
  }
  for (const replication::Member& member : core_->replication->members().members) {
    if (member.address == name) {
      return member.store_id;
    }
  }
  for (const log::Member& member : core_->identity->meta().members) {
    if (member.address == name) {
      return member.store;
    }
  }
  for (const replication::ReplicaStatus& replica : core_->replication->replicas()) {
    if (replica.address == name) {
      return replica.store_id;
    }
  }
  return {};
}

void Node::ControlMembers(const ControlRequest& request, const ControlDone& done) {
  const Id128 member = FindStore(request.member);
  if (member.empty()) {
    done(absl::NotFoundError(
        absl::StrFormat("no member or replica '%s'; see kvctl member list", request.member)));
    return;
  }
  if (request.verb == Verb::kMemberReplace) {
    const Id128 fresh = FindStore(request.new_member);
    if (fresh.empty()) {
      done(absl::NotFoundError(
          absl::StrFormat("no replica '%s'; see kvctl status", request.new_member)));
      return;
    }
    core_->replication->ReplaceMember(member, fresh, request.force, Answer(done));
    return;
  }
  roles_->DropMember(member, request.force, Answer(done));
}

void Node::ControlReplicaOf(const ControlRequest& request, const ControlDone& done) {
  if (!ask_front) {
    done(absl::UnimplementedError("REPLICAOF needs a front port; use kvctl join"));
    return;
  }
  const std::lock_guard lock(background_mutex_);
  background_.push_back([this, address = request.address, done] {
    const absl::StatusOr<std::string> replication_address = ask_front(address);
    if (!replication_address.ok()) {
      done(replication_address.status());
      return;
    }
    core_->replication->Post(
        [this, target = *replication_address, done] { roles_->Join(target, false, Answer(done)); });
  });
}

std::vector<std::pair<std::string, std::string>> Node::ConfigGet(std::string_view pattern) {
  Config shown = *core_->config.Get();
  // The persisted decisions count, not what the file said once.
  const log::Meta meta = core_->identity->meta();
  shown.replication.ack = meta.ack;
  shown.replication.ack_replicas = meta.ack_replicas;
  return server::ConfigGet(shown, pattern);
}

absl::StatusOr<Config> Node::PlanConfig(
    const std::vector<std::pair<std::string, std::string>>& pairs,
    std::vector<std::string>* changed) const {
  Config next = *core_->config.Get();
  const log::Meta meta = core_->identity->meta();
  next.replication.ack = meta.ack;
  next.replication.ack_replicas = meta.ack_replicas;
  KVS_RETURN_IF_ERROR(server::ConfigSet(pairs, &next, changed));
  // As at the start: "half of the machine" becomes a number, and keys must fit each other.
  if (const absl::Status resolved = ResolveConfig(ThisMachine(), &next); !resolved.ok()) {
    return absl::InvalidArgumentError("CONFIG SET failed - " + std::string(resolved.message()));
  }
  return next;
}

absl::Status Node::ConfigSet(const std::vector<std::pair<std::string, std::string>>& pairs) {
  const std::lock_guard lock(config_mutex_);
  std::vector<std::string> changed;
  KVS_ASSIGN_OR_RETURN(const Config next, PlanConfig(pairs, &changed));
  if (NeedsMembers(changed)) {
    return absl::FailedPreconditionError(
        "CONFIG SET failed - replication.ack and replication.ack_replicas need the members' "
        "consent, for which a transaction cannot wait");
  }
  ApplyConfig(next, changed);
  core_->config.Set(next);
  if (on_config) {
    on_config(next);
  }
  return absl::OkStatus();
}

void Node::ConfigSet(std::vector<std::pair<std::string, std::string>> pairs,
                     std::function<void(const absl::Status&)> done) {
  std::vector<std::string> changed;
  const absl::StatusOr<Config> next = PlanConfig(pairs, &changed);
  if (!next.ok() || !NeedsMembers(changed)) {
    done(next.ok() ? ConfigSet(pairs) : next.status());
    return;
  }
  // First what can still be refused. Then the same pairs find the acknowledgement as they want it.
  core_->replication->Post([this, pairs = std::move(pairs), done = std::move(done),
                            ack = next->replication.ack,
                            ack_replicas = next->replication.ack_replicas] {
    core_->replication->SetAck(
        ack, ack_replicas, false, [this, pairs, done](const absl::Status& status) {
          done(status.ok()
                   ? ConfigSet(pairs)
                   : absl::Status(status.code(), absl::StrFormat("CONFIG SET failed - %s",
                                                                 std::string(status.message()))));
        });
  });
}

void Node::ApplyConfig(const Config& next, const std::vector<std::string>& changed) {
  const auto has = [&changed](const char* name) {
    return std::find(changed.begin(), changed.end(), name) != changed.end();
  };
  if (has("memory.max_memory")) {
    core_->pool.SetMaxBytes(next.memory.max_memory_bytes);
  }
  if (has("memory.eviction")) {
    core_->gate.eviction.store(static_cast<uint8_t>(store::EvictionOf(next.memory.eviction)),
                               std::memory_order_relaxed);
    core_->threads->WakeAll();
  }
  log::Log* log = core_->log();
  if (has("log.sync") || has("log.interval")) {
    core_->log_sync.store(static_cast<uint8_t>(next.log.sync), std::memory_order_relaxed);
    if (log != nullptr) {
      log->SetSync(next.log.sync, static_cast<int64_t>(next.log.interval_us));
      log->SetPersistEachRound(core_->CountsPersisted());
    }
    // What was written under the old policy may count under the new one, and nobody says so again.
    core_->threads->WakeAll();
  }
  if (has("log.retain") && log != nullptr) {
    log->SetRetainBytes(next.log.retain_bytes);
  }
}

uint32_t Node::ReplicasAt(const std::vector<std::pair<ShardId, Seq>>& positions, bool persisted) {
  const replication::ProgressTable& progress = core_->replication->progress();
  uint32_t count = 0;
  for (uint32_t row = 0; row < replication::ProgressTable::kRows; ++row) {
    const bool reached = progress.IsConnected(row) &&
                         std::all_of(positions.begin(), positions.end(), [&](const auto& at) {
                           return progress.Reached(row, at.first, at.second, persisted);
                         });
    count += reached ? 1 : 0;
  }
  return count;
}

bool Node::LocallyPersisted(const std::vector<std::pair<ShardId, Seq>>& positions) {
  const log::Log* log = core_->log();
  return log != nullptr && std::all_of(positions.begin(), positions.end(), [&](const auto& at) {
           return log->persisted(at.first) >= at.second;
         });
}

}  // namespace kvstored::server
