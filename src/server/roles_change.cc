// Planned and unplanned changes of role on an operator's word.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "server/promotion_check.h"
#include "server/roles.h"

namespace kvstored::server {

namespace {

constexpr int64_t kTargetAnswersUs = 5'000'000;

}  // namespace

using replication::PeerAnswer;
using replication::PeerQuestion;

void Roles::IfAnswered(const std::string& address, const Done& done, std::function<void()> then) {
  auto operation = std::make_shared<Operation>(
      "ask " + address, [done, then = std::move(then)](const absl::Status& answered) {
        if (answered.ok()) {
          then();
        } else {
          done(answered);
        }
      });
  auto answers = std::make_shared<std::vector<PeerAnswer>>();
  operation->Then([this, address, answers] {
    core_->replication->AskPeers(
        {address}, PeerQuestion::kWhoAreYou, 0, kTargetAnswersUs,
        [answers](std::vector<PeerAnswer> got) { *answers = std::move(got); });
    return Progress::Done();
  });
  operation->Then([this, address, answers] {
    if (answers->empty()) {
      return Progress::Again();
    }
    const PeerAnswer& answer = answers->front();
    if (!answer.status.ok()) {
      return Progress::Failed(absl::UnavailableError(absl::StrFormat(
          "nothing has changed: no kvstored answers at %s: %s; give the replication address of a "
          "running node (replication_address in its kvctl status, not its front port)",
          address, std::string(answer.status.message()))));
    }
    if (answer.facts.store_id == core_->identity->meta().store) {
      return Progress::Failed(absl::InvalidArgumentError(
          absl::StrFormat("nothing has changed: %s is this node itself; give the replication "
                          "address of the node to follow",
                          address)));
    }
    return Progress::Done();
  });
  core_->Run(std::move(operation));
}

Progress Roles::CheckPeers(const std::vector<PeerAnswer>& answers, bool accept_loss) {
  const replication::NodeFacts own = Facts();
  if (const absl::Status judged = JudgePromotion(own, answers, accept_loss); !judged.ok()) {
    return Progress::Failed(judged);
  }
  // P15: the new epoch's number is above all that was heard of.
  const uint32_t highest = HighestEpochOf(own.data_set_id, answers);
  return Progress::From(core_->identity->Update(
      [&](log::Meta* meta) { meta->highest_epoch = std::max(meta->highest_epoch, highest); }));
}

absl::Status Roles::MayPromote(bool accept_loss) const {
  const log::Meta meta = core_->identity->meta();
  if (meta.role == Role::kPrimary) {
    return absl::FailedPreconditionError("this node is the primary already");
  }
  if (busy_) {
    return absl::UnavailableError("another change of role is under way");
  }
  if (core_->log() == nullptr || core_->gate.loading.load(std::memory_order_relaxed)) {
    return absl::FailedPreconditionError(
        "this node holds no complete data set (loading or full sync)");
  }
  if (!meta.promotable && !accept_loss) {
    return absl::FailedPreconditionError(
        "this node may lack acknowledged writes (it is no member of the set whose writes were "
        "acknowledged); --accept-loss promotes it all the same");
  }
  return absl::OkStatus();
}

// Role, set and count are one change: a crash leaves the replica or the primary, never a mixture.
absl::Status Roles::PersistPromotion(std::optional<uint32_t> ack_replicas) {
  return core_->identity->Update([&](log::Meta* m) {
    m->role = Role::kPrimary;
    const auto same_address = [&](const log::Member& node) {
      return node.address == m->primary_address;
    };
    if (!m->primary_address.empty() &&
        std::none_of(m->known_nodes.begin(), m->known_nodes.end(), same_address)) {
      m->known_nodes.push_back({.store = {}, .address = m->primary_address});
    }
    m->primary_address.clear();
    m->ack_replicas = ack_replicas.value_or(m->ack_replicas);
    std::erase_if(m->members, [&](const log::Member& member) { return member.store == m->store; });
    if (m->members.size() > m->ack_replicas) {
      m->members.resize(m->ack_replicas);
    }
    m->promotable = false;
  });
}

void Roles::Promote(std::optional<uint32_t> ack_replicas, bool accept_loss, Done done) {
  if (absl::Status may = MayPromote(accept_loss); !may.ok()) {
    done(std::move(may));
    return;
  }
  busy_ = true;
  opening_epoch_ = true;
  auto operation = std::make_shared<Operation>("promote", [this, done](const absl::Status& status) {
    busy_ = false;
    opening_epoch_ = false;
    const log::Meta now = core_->identity->meta();
    if (!status.ok() && now.role == Role::kReplica && !now.primary_address.empty() &&
        !core_->replication->follow_status().active) {
      // The old stream may be closed already: go on as the replica that meta says we are.
      core_->replication->FollowPrimary(now.primary_address, false);
    }
    if (status.ok() && !KnownAddresses().empty()) {
      base::LogWarning(absl::StrFormat(
          "promoted: of %s, those that are no members of this node's set may still believe in "
          "their "
          "right to be promoted: never promote one before it has followed this node",
          absl::StrJoin(KnownAddresses(), ", ")));
    }
    done(status);
  });
  auto answers = std::make_shared<std::vector<PeerAnswer>>();
  auto answered = std::make_shared<bool>(false);
  operation->Then([this, answers, answered] {
    core_->replication->AskPeers(KnownAddresses(), PeerQuestion::kWhoAreYou, 0, 2'000'000,
                                 [answers, answered](std::vector<PeerAnswer> got) {
                                   *answers = std::move(got);
                                   *answered = true;
                                 });
    return Progress::Done();
  });
  operation->Then([answered] { return *answered ? Progress::Done() : Progress::Again(); });
  operation->Then([this, answers, accept_loss] { return CheckPeers(*answers, accept_loss); });
  operation->Then([this, accept_loss] {
    // While the others were asked the primary may have withdrawn the right and gone on without this
    // node (P19); once the link is fenced it cannot any more.
    if (!accept_loss && !core_->identity->meta().promotable) {
      return Progress::Failed(absl::FailedPreconditionError(
          "the primary has withdrawn this node's right to be promoted meanwhile"));
    }
    core_->replication->FenceAndStop("promotion");
    return Progress::Done();
  });
  AddCut(operation.get());
  operation->Then([this, ack_replicas] { return Progress::From(PersistPromotion(ack_replicas)); });
  AddOpenEpoch(operation.get());
  core_->Run(std::move(operation));
}

void Roles::Demote(const std::string& address, Done done) {
  if (address.empty()) {
    Drain(address, done);
    return;
  }
  IfAnswered(address, done, [this, address, done] { Drain(address, done); });
}

void Roles::Drain(const std::string& address, const Done& done) {
  if (core_->identity->meta().role != Role::kPrimary || !started_ || busy_) {
    done(absl::FailedPreconditionError("this node is not a serving primary"));
    return;
  }
  busy_ = true;
  core_->gate.writable.store(false, std::memory_order_release);
  auto operation = std::make_shared<Operation>("demote", [this, done](const absl::Status& status) {
    busy_ = false;
    if (!status.ok()) {
      core_->gate.writable.store(true, std::memory_order_release);
    }
    done(status);
    if (status.ok()) {
      RequestRestart();
    }
  });
  const int64_t deadline_us = core_->now_us() + 10'000'000;
  operation->Then([this, deadline_us] {
    for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
      const Seq committed = core_->threads->shard(shard)->committed();
      if (committed < core_->log()->appended(shard)) {
        return core_->now_us() < deadline_us
                   ? Progress::Again()
                   : Progress::Failed(absl::DeadlineExceededError(
                         "the members have not acknowledged all writes; still primary"));
      }
    }
    return Progress::Done();
  });
  operation->Then([this, address] {
    core_->replication->FenceAndStop("demotion");
    return Progress::From(core_->identity->Update([&](log::Meta* meta) {
      meta->role = Role::kReplica;
      meta->primary_address = address;
      // Everything here is committed: this node lacks nothing until another one writes.
      meta->promotable = true;
    }));
  });
  core_->Run(std::move(operation));
}

void Roles::DropMember(const Id128& store, bool force, Done done) {
  if (core_->gate.writable.load(std::memory_order_relaxed)) {
    core_->replication->DropMember(store, force, std::move(done));
    return;
  }
  if (core_->identity->meta().role != Role::kPrimary) {
    done(absl::FailedPreconditionError("only a primary has members to drop"));
    return;
  }
  if (!force) {
    done(
        absl::FailedPreconditionError("the member does not answer, so it keeps its right to be "
                                      "promoted: --force drops it all the "
                                      "same; never promote it afterwards"));
    return;
  }
  done(core_->identity->Update([&](log::Meta* meta) {
    const size_t dropped = std::erase_if(
        meta->members, [&](const log::Member& member) { return member.store == store; });
    // As at a serving primary: the set asks for one less, or writes would stay refused (P8).
    meta->ack_replicas -= std::min(meta->ack_replicas, static_cast<uint32_t>(dropped));
  }));
}

void Roles::Join(const std::string& address, bool discard_local_data, Done done) {
  const log::Meta meta = core_->identity->meta();
  if (meta.role != Role::kPrimary && !meta.promotable) {
    Follow(address, discard_local_data, done);
    return;
  }
  IfAnswered(address, done, [this, address, discard_local_data, done] {
    Follow(address, discard_local_data, done);
  });
}

void Roles::Follow(const std::string& address, bool discard_local_data, const Done& done) {
  if (busy_ && !consulting_) {
    done(absl::UnavailableError("another change of role is under way"));
    return;
  }
  const auto save = [this, &address] {
    return core_->identity->Update([&](log::Meta* m) {
      m->role = Role::kReplica;
      m->primary_address = address;
      m->promotable = false;
    });
  };
  if (!started_) {
    discard_at_start_ = discard_local_data;
    done(save());
    return;
  }
  const bool was_primary = core_->gate.HasRole(Role::kPrimary);
  // A full sync under way has made a mixture of the memory: start-up has the old data set back.
  const bool in_full_sync =
      core_->log() != nullptr && core_->gate.loading.load(std::memory_order_relaxed);
  core_->gate.writable.store(false, std::memory_order_release);
  core_->replication->FenceAndStop("another primary is followed");
  const absl::Status saved = save();
  done(saved);
  if (!saved.ok()) {
    StepDown(saved);
  } else if (was_primary || in_full_sync) {
    RequestRestart();
  } else {
    core_->replication->FollowPrimary(address, discard_local_data);
  }
}

}  // namespace kvstored::server
