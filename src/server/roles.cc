// What this node tells of itself and persists for others; taking up a role at start; the gate's
// flags.
#include "server/roles.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::server {

using replication::MemberSet;
using replication::NodeFacts;
using replication::PeerAnswer;
using replication::PeerQuestion;

NodeFacts Roles::Facts() {
  const log::Meta meta = core_->identity->meta();
  const log::Manifest manifest = core_->identity->manifest();
  NodeFacts facts;
  facts.store_id = meta.store;
  facts.data_set_id = meta.data_set;
  facts.data_seed = manifest.seed;
  facts.incarnation = core_->identity->incarnation();
  facts.role = meta.role;
  facts.serving = core_->gate.writable.load(std::memory_order_relaxed);
  facts.promotable = meta.promotable;
  facts.opening_epoch = opening_epoch_;
  facts.shard_count = core_->shard_count();
  facts.promised = meta.promise;
  facts.front_port = core_->config.Get()->server.port;
  facts.replication_port = core_->config.Get()->replication.port;
  facts.following = meta.role == Role::kReplica ? meta.primary_address : "";
  facts.epochs = ToReplication(manifest.epochs);
  facts.members = MembersFromMeta();
  const log::Log* log = core_->log();
  for (ShardId shard = 0; shard < core_->shard_count(); ++shard) {
    const Seq end = log != nullptr ? log->appended(shard) : 0;
    facts.ends.push_back(
        {.end = end, .last_checksum = core_->last_checksum[shard].load(std::memory_order_relaxed)});
    facts.committed.push_back(core_->threads->shard(shard)->committed());
    facts.log_start.push_back(log != nullptr ? log->segments().OldestStart()[shard] + 1 : 1);
  }
  return facts;
}

MemberSet Roles::MembersFromMeta() const {
  const log::Meta meta = core_->identity->meta();
  // Its version counts within one epoch of one process: from 0.
  MemberSet set{.version = 0, .ack = meta.ack, .ack_replicas = meta.ack_replicas, .members = {}};
  for (const log::Member& member : meta.members) {
    set.members.push_back({.store_id = member.store, .address = member.address, .front_port = 0});
  }
  return set;
}

void Roles::PersistMembers(const MemberSet& members, replication::NodeState::Done done) {
  const absl::Status saved = core_->identity->Update([&](log::Meta* meta) {
    meta->ack = members.ack;
    meta->ack_replicas = members.ack_replicas;
    meta->members.clear();
    for (const replication::Member& member : members.members) {
      meta->members.push_back({.store = member.store_id, .address = member.address});
      const bool known =
          std::any_of(meta->known_nodes.begin(), meta->known_nodes.end(),
                      [&](const log::Member& node) { return node.store == member.store_id; });
      if (!known) {
        meta->known_nodes.push_back({.store = member.store_id, .address = member.address});
      }
    }
  });
  if (saved.ok()) {
    core_->gate.ack.store(static_cast<uint8_t>(members.ack), std::memory_order_release);
    if (core_->log() != nullptr) {
      core_->log()->SetPersistEachRound(core_->CountsPersisted());
    }
  }
  done(saved);
}

void Roles::PersistPromotable(bool promotable, replication::NodeState::Done done) {
  done(core_->identity->Update([&](log::Meta* meta) { meta->promotable = promotable; }));
}

void Roles::PersistPromise(uint32_t epoch_number, replication::NodeState::Done done) {
  if (core_->gate.writable.load(std::memory_order_relaxed)) {
    done(absl::FailedPreconditionError("this node is a serving primary"));
    return;
  }
  if (busy_ && !consulting_) {
    // The epoch that it is about to open would break the promise.
    done(absl::UnavailableError("a change of role is under way at this node"));
    return;
  }
  const uint32_t promised = core_->identity->meta().promise;
  if (promised > epoch_number) {
    done(absl::FailedPreconditionError(
        absl::StrFormat("epoch %d was promised, %d is older", promised, epoch_number)));
    return;
  }
  done(core_->identity->Update([&](log::Meta* meta) { meta->promise = epoch_number; }));
}

void Roles::OnAlarm(replication::Refusal refusal, const std::string& text) {
  static base::LogLimiter limiter(10'000'000);
  limiter.Warning(
      absl::StrFormat("ALARM %s: %s", std::string(replication::RefusalName(refusal)), text));
}

void Roles::RequestRestart() {
  core_->gate.writable.store(false, std::memory_order_release);
  core_->restart_wanted.store(true, std::memory_order_release);
}

bool Roles::StepAside(const NodeFacts& newer, const std::string& address) {
  const std::vector<replication::EpochEntry> own =
      ToReplication(core_->identity->manifest().epochs);
  if (newer.data_set_id != core_->identity->meta().data_set || newer.epochs.size() <= own.size() ||
      !replication::ContainsNewestOf(newer.epochs, own)) {
    return false;
  }
  base::LogWarning(absl::StrFormat(
      "%s is primary of epoch %d, which continues this node's history: following it", address,
      newer.epochs.back().epoch.number));
  core_->gate.writable.store(false, std::memory_order_release);
  core_->replication->FenceAndStop("a newer primary exists");
  const absl::Status saved = core_->identity->Update([&](log::Meta* meta) {
    meta->role = Role::kReplica;
    meta->primary_address = address;
    meta->members.clear();
    meta->promotable = false;
    meta->highest_epoch = std::max(meta->highest_epoch, newer.epochs.back().epoch.number);
  });
  if (!saved.ok()) {
    StepDown(saved);
    return true;
  }
  RequestRestart();
  return true;
}

void Roles::OnNewerPrimary(const NodeFacts& facts, const std::string& address) {
  // The engine is in the middle of a link's message: roles change after it has returned.
  core_->replication->Post([this, facts, address] { JudgeNewerPrimary(facts, address); });
}

void Roles::JudgeNewerPrimary(const NodeFacts& facts, const std::string& address) {
  const log::Meta meta = core_->identity->meta();
  if (meta.role == Role::kPrimary) {
    StepAside(facts, address);
    return;
  }
  const std::vector<replication::EpochEntry> own =
      ToReplication(core_->identity->manifest().epochs);
  if (meta.primary_address != address && facts.data_set_id == meta.data_set &&
      replication::ContainsNewestOf(facts.epochs, own)) {
    base::LogInfo(absl::StrFormat("%s is the new primary: following it", address));
    const absl::Status saved =
        core_->identity->Update([&](log::Meta* m) { m->primary_address = address; });
    if (saved.ok() && started_) {
      core_->replication->FenceAndStop("the primary has changed");
      core_->replication->FollowPrimary(address, false);
    }
  }
}

void Roles::StepDown(const absl::Status& why) {
  core_->gate.writable.store(false, std::memory_order_release);
  core_->gate.stepped_down.store(true, std::memory_order_release);
  core_->replication->FenceAndStop("stepped down");
  state_text_ = absl::StrFormat("stepped down: %s", std::string(why.message()));
  base::LogError(absl::StrFormat("this node gives up its role until it is restarted: %s",
                                 std::string(why.message())));
}

bool Roles::ReadsAllowed() const {
  const log::Meta meta = core_->identity->meta();
  return core_->config.Get()->log.sync == LogSync::kAlways || meta.ack == AckLevel::kPersisted ||
         core_->identity->same_boot();
}

void Roles::Start(const LoadResult* loaded) {
  started_ = true;
  const log::Meta meta = core_->identity->meta();
  core_->gate.ack.store(static_cast<uint8_t>(meta.ack), std::memory_order_release);
  core_->gate.role.store(static_cast<uint8_t>(meta.role), std::memory_order_release);
  if (loaded != nullptr) {
    core_->log()->SetPersistEachRound(core_->CountsPersisted());
  }
  if (meta.role == Role::kPrimary) {
    StartPrimary();
  } else {
    StartReplica();
  }
}

Progress Roles::AwaitRoom(bool for_cut) {
  constexpr uint64_t kFrameBytesMax = 256;        // of an epoch_begin
  constexpr uint64_t kTextsBytesMax = 256 << 10;  // of meta and manifest, in blocks
  const log::Log* log = core_->log();
  const bool has_log_room =
      for_cut ? log->HasRoomForCut() : log->HasRoomFor(core_->shard_count() * kFrameBytesMax);
  const absl::StatusOr<uint64_t> free_bytes = core_->seams.device->FreeBytes();
  const bool has_text_room = !free_bytes.ok() || *free_bytes >= kTextsBytesMax;
  if (has_log_room && has_text_room) {
    return Progress::Done();
  }
  core_->background_event.Set();
  if (has_text_room && !core_->gate.disk_full.load(std::memory_order_relaxed)) {
    return Progress::Again();  // a segment is being made
  }
  if (core_->identity->meta().members.empty()) {
    // Nobody else has a say in what is committed here: reads go on.
    core_->gate.loading.store(false, std::memory_order_release);
  }
  state_text_ = "waiting for room for the log";
  static base::LogLimiter limiter(10'000'000);
  limiter.Warning(absl::StrFormat(
      "the log has no room for a new epoch: writes are refused until there is some below %s",
      core_->seams.device->Describe()));
  return Progress::Again();
}

void Roles::StartReplica() {
  const log::Meta meta = core_->identity->meta();
  if (meta.ack == AckLevel::kReceived && meta.promotable) {
    // What was received but not persisted may be gone with the last life of this process (P19).
    const absl::Status saved = core_->identity->Update([](log::Meta* m) { m->promotable = false; });
    if (!saved.ok()) {
      StepDown(saved);
      return;
    }
  }
  if (core_->identity->has_data_set()) {
    core_->gate.loading.store(false, std::memory_order_release);
  }
  state_text_ = meta.primary_address.empty()
                    ? "replica without a primary: kvctl join HOST:PORT or kvctl promote"
                    : "replica of " + meta.primary_address;
  base::LogInfo(state_text_);
  if (!meta.primary_address.empty()) {
    core_->replication->FollowPrimary(meta.primary_address, discard_at_start_);
  }
}

void Roles::Tick() {
  const bool primary = core_->gate.HasRole(Role::kPrimary);
  if (primary && core_->gate.writable.load(std::memory_order_relaxed)) {
    // P8: writes wait for a replica that is about to join, as for a member that is silent.
    const bool incomplete = !core_->replication->HasOrAwaitsMembers();
    const int64_t since_us = core_->replication->progress().silent_since_us();
    const bool silent =
        since_us != 0 &&
        core_->now_us() - since_us >=
            static_cast<int64_t>(core_->config.Get()->replication.commit_timeout_us);
    if (core_->gate.no_replicas.exchange(incomplete || silent, std::memory_order_relaxed) !=
        (incomplete || silent)) {
      core_->threads->WakeAll();
    }
    core_->replication->SetRecordClock(core_->record_clock.NowUs());
    Announce();
  } else if (core_->gate.HasRole(Role::kReplica)) {
    SeekPrimary();
  }
}

// A primary announces itself until it was heard, but this node may have died before it noted whom
// it heard of.
void Roles::SeekPrimary() {
  if (!started_ || seeking_ || busy_ || core_->now_us() < seek_us_) {
    return;
  }
  seek_us_ = core_->now_us() + 5'000'000;
  const std::vector<std::string> addresses = KnownAddresses();
  if (addresses.empty() || !core_->identity->meta().primary_address.empty()) {
    return;
  }
  seeking_ = true;
  core_->replication->AskPeers(addresses, PeerQuestion::kWhoAreYou, 0, 2'000'000,
                               [this](std::vector<PeerAnswer> answers) {
                                 seeking_ = false;
                                 for (const PeerAnswer& answer : answers) {
                                   if (answer.status.ok() && answer.facts.serving && !busy_ &&
                                       core_->identity->meta().primary_address.empty()) {
                                     JudgeNewerPrimary(answer.facts, answer.address);
                                   }
                                 }
                               });
}

void Roles::Announce() {
  if (unannounced_.empty() || announcing_ || core_->now_us() < announce_us_) {
    return;
  }
  announcing_ = true;
  announce_us_ = core_->now_us() + 1'000'000;
  core_->replication->AskPeers(unannounced_, PeerQuestion::kAnnounce, 0, 2'000'000,
                               [this](std::vector<PeerAnswer> answers) {
                                 announcing_ = false;
                                 for (const PeerAnswer& answer : answers) {
                                   if (answer.status.ok()) {
                                     std::erase(unannounced_, answer.address);
                                   }
                                 }
                               });
}

std::vector<std::string> Roles::KnownAddresses() const {
  const log::Meta meta = core_->identity->meta();
  std::vector<std::string> addresses;
  const auto add = [&](const Id128& store, const std::string& address) {
    if (!address.empty() && store != meta.store &&
        std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(address);
    }
  };
  add({}, meta.primary_address);
  for (const log::Member& member : meta.members) {
    add(member.store, member.address);
  }
  for (const log::Member& node : meta.known_nodes) {
    add(node.store, node.address);
  }
  return addresses;
}

}  // namespace kvstored::server
