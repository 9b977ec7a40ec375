#include "tests/sim/nemesis.h"

#include <algorithm>
#include <utility>

#include "base/hex.h"

namespace kvstored::sim {

Nemesis::Nemesis(Cluster* cluster, uint64_t seed) : cluster_(cluster), random_(seed) {
  next_us_ = cluster->clock().now_us() + random_.Between(0, period_us_);
  SimFaults& faults = cluster->network().faults();
  faults.completion_lost_rate = 0.5;
  faults.connect_timeout_us = random_.Between(100'000, 1'000'000);
  if (random_.Chance(0.5)) {
    faults.long_delay_rate = 0.002;
    faults.long_delay_max_us = 30'000;
  }
  if (random_.Chance(0.3)) {
    faults.write_error_rate = 0.002;
  }
  if (random_.Chance(0.3)) {
    faults.message_error_rate = 0.01;
  }
  if (random_.Chance(0.2)) {
    faults.rnr_rate = 0.001;
    faults.stale_key_rate = 0.001;
  }
  if (random_.Chance(0.3)) {
    faults.refuse_rate = 0.1;
  }
  if (random_.Chance(0.3)) {
    faults.corrupt_rate = 0.004;
  }
}

bool Nemesis::Fault(const char* name) {
  ++fault_count_;
  cluster_->Count(std::string("fault_") + name);
  return true;
}

void Nemesis::Later(int64_t after_us, std::function<void()> work) {
  undo_.push_back({cluster_->clock().now_us() + after_us, std::move(work)});
}

SimNode* Nemesis::Any() {
  SimNode* node = &cluster_->node(static_cast<uint32_t>(random_.Below(cluster_->node_count())));
  return node->is_up() ? node : nullptr;
}

SimNode* Nemesis::Primary() {
  SimNode* node = &cluster_->node(cluster_->BelievedPrimary());
  return node->is_up() && cluster_->IsCurrent(node->index) && node->serves_writes() ? node
                                                                                    : nullptr;
}

SimNode* Nemesis::RandomReplica() {
  SimNode* node = Any();
  return node != nullptr && node->meta().role == Role::kReplica ? node : nullptr;
}

SimNode* Nemesis::Expendable() {
  SimNode* node = RandomReplica();
  return node != nullptr && Primary() != nullptr ? node : nullptr;
}

void Nemesis::Step() {
  const int64_t now_us = cluster_->clock().now_us();
  for (size_t i = 0; i < undo_.size();) {
    if (undo_[i].at_us <= now_us) {
      const auto work = std::move(undo_[i].work);
      undo_.erase(undo_.begin() + static_cast<std::ptrdiff_t>(i));
      work();
    } else {
      ++i;
    }
  }
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    node.left_out = node.left_out && !(node.is_up() && !node.meta().promotable);
    // A crash took the answer along: what became of it shows when the node is back.
    node.promoting = node.is_up() && node.life != node.promoting_life ? 0 : node.promoting;
  }
  WatchPrimary();
  if (now_us >= next_us_) {
    next_us_ = now_us + random_.Between(period_us_ / 4, 2 * period_us_);
    Strike();
  }
}

void Nemesis::Strike() {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint64_t kind = random_.Below(7);
    bool struck = false;
    switch (random_.Below(4)) {
      case 0:
        struck = StrikeProcess(kind);
        break;
      case 1:
        struck = StrikeNetwork(kind);
        break;
      case 2:
        struck = StrikeDevice(kind);
        break;
      default:
        struck = StrikeRoles(kind);
        break;
    }
    if (struck) {
      return;
    }
  }
}

void Nemesis::Promote() {
  std::vector<SimNode*> candidates;
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (IsCandidate(node)) {
      candidates.push_back(&node);
    }
  }
  if (candidates.empty()) {
    cluster_->Count("promote_without_candidate");
    return;
  }
  SimNode* node = candidates[random_.Below(candidates.size())];
  std::vector<std::string> words = {"promote"};
  uint64_t ack_replicas = node->meta().ack_replicas;
  if (random_.Chance(0.6)) {
    ack_replicas = random_.Below(cluster_->node_count());
    words.insert(words.end(), {"ack-replicas", std::to_string(ack_replicas)});
  }
  const std::vector<SimNode*> left_out = LeaveOthersOut(node, ack_replicas);
  node->promoting = node->promoting_life == node->life ? node->promoting + 1 : 1;
  node->promoting_life = node->life;
  cluster_->Control(node, std::move(words), [node, left_out](bool ok) {
    --node->promoting;
    for (SimNode* other : left_out) {
      other->left_out = other->left_out && (ok || node->meta().role == Role::kPrimary);
    }
  });
}

bool Nemesis::IsCandidate(const SimNode& node) {
  return node.is_up() && node.meta().role == Role::kReplica && node.meta().promotable &&
         !node.must_not_promote && !node.left_out;
}

// Who is not in the new primary's set may lack what it acknowledges from now on, and believes in
// its right to be promoted until it has followed that primary.
std::vector<SimNode*> Nemesis::LeaveOthersOut(SimNode* promoted, uint64_t ack_replicas) {
  std::vector<SimNode*> left_out;
  std::vector<log::Member> members = promoted->meta().members;
  std::erase_if(members, [promoted](const log::Member& member) {
    return member.store == promoted->meta().store;
  });
  members.resize(std::min<size_t>(members.size(), ack_replicas));
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    const bool is_member =
        node.is_up() && std::any_of(members.begin(), members.end(), [&](const log::Member& member) {
          return member.store == node.meta().store;
        });
    if (&node != promoted && !is_member && !node.left_out) {
      node.left_out = true;
      left_out.push_back(&node);
    }
  }
  return left_out;
}

// Two nodes were promoted beside each other and each waits for the other as its member: the newer
// one is told to go on alone, the other one then joins it.
void Nemesis::DropForkedMembers() {
  SimNode* newest = nullptr;
  uint32_t highest = 0;
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (!node.is_up() || node.stopping) {
      return;
    }
    highest = std::max(highest, NewestEpoch(node));
    if (node.meta().role == Role::kPrimary &&
        (newest == nullptr || NewestEpoch(node) > NewestEpoch(*newest))) {
      newest = &node;
    }
  }
  if (newest == nullptr || NewestEpoch(*newest) < highest) {
    return;  // a replica has a newer history: that one is to be promoted
  }
  for (const log::Member& member : newest->meta().members) {
    for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
      const SimNode& node = cluster_->node(i);
      if (node.meta().store == member.store &&
          !replication::ContainsNewestOf(Epochs(*newest), Epochs(node)) &&
          !replication::ContainsNewestOf(Epochs(node), Epochs(*newest))) {
        cluster_->Count("forked_member_dropped");
        cluster_->Control(newest, {"member", "drop", base::ToHex(member.store), "force"});
      }
    }
  }
}

// Nobody may be promoted without a doubt (P19), and all nodes are there to be compared: the one
// with the longest history lacks nothing.
void Nemesis::PromoteLongest() {
  SimNode* longest = nullptr;
  std::vector<const SimNode*> primaries;
  std::pair<uint32_t, Seq> longest_end;
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (node.is_up() && !node.node->core()->identity->has_data_set()) {
      continue;  // a new disk: nothing is there that could be lost
    }
    if (node.is_up() && node.meta().role == Role::kPrimary) {
      primaries.push_back(&node);
      continue;
    }
    if (!node.is_up() || node.node->core()->gate.loading.load() || node.stopping ||
        IsCandidate(node)) {
      return;
    }
    const server::NodeCore* core = node.node->core();
    if (core->log() == nullptr) {
      return;
    }
    std::pair<uint32_t, Seq> end{NewestEpoch(node), 0};
    for (ShardId shard = 0; shard < core->shard_count(); ++shard) {
      end.second += core->log()->appended(shard);
    }
    if (longest == nullptr || end > longest_end) {
      longest = &node;
      longest_end = end;
    }
  }
  if (longest == nullptr) {
    return;
  }
  for (const SimNode* primary : primaries) {
    // Unless it was left behind with a history of its own, it is the one to go on.
    if (NewestEpoch(*primary) >= NewestEpoch(*longest) ||
        replication::ContainsNewestOf(Epochs(*longest), Epochs(*primary))) {
      return;
    }
  }
  cluster_->Count("promoted_with_accept_loss");
  cluster_->Control(longest, {"promote", "accept-loss"});
}

void Nemesis::WatchPrimary() {
  const int64_t now_us = cluster_->clock().now_us();
  if (Primary() != nullptr) {
    no_primary_since_us_ = 0;
    return;
  }
  if (no_primary_since_us_ == 0) {
    no_primary_since_us_ = now_us;
    patience_us_ = random_.Between(100'000, 3'000'000);
  }
  if (now_us - no_primary_since_us_ > patience_us_) {
    no_primary_since_us_ = now_us;
    Promote();
    DropLostMembers();
  }
}

std::vector<replication::EpochEntry> Nemesis::Epochs(const SimNode& node) {
  return server::ToReplication(node.node->core()->identity->manifest().epochs);
}

uint32_t Nemesis::NewestEpoch(const SimNode& node) {
  const std::vector<replication::EpochEntry> epochs = Epochs(node);
  return epochs.empty() ? 0 : epochs.back().epoch.number;
}

// An operator forces nobody out whose promotion is under way or who is primary already.
bool Nemesis::MayBeDropped(const Id128& store) {
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    const SimNode& node = cluster_->node(i);
    if (node.promoting != 0 ||
        (node.is_up() && node.meta().store == store && node.meta().role == Role::kPrimary)) {
      return false;
    }
  }
  return true;
}

// The node may be promotable still, and nobody could tell it otherwise.
void Nemesis::NoteForcedDrop(const std::string& store) {
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (!node.is_up() || base::ToHex(node.meta().store) == store) {
      node.must_not_promote = true;
    }
  }
}

// Members whose disks are gone never answer: the newest primary is told so. (An older one would go
// on alone beside it.)
void Nemesis::DropLostMembers() {
  std::vector<Id128> stores;
  uint32_t newest = 0;
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (!node.is_up()) {
      return;  // it may be the one
    }
    if (!Epochs(node).empty()) {  // else it lost its data set to damage, or gave it up
      stores.push_back(node.meta().store);
    }
    newest = std::max(newest, NewestEpoch(node));
  }
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    const log::Meta meta = node.meta();
    if (meta.role != Role::kPrimary || NewestEpoch(node) != newest) {
      continue;
    }
    for (const log::Member& member : meta.members) {
      if (std::find(stores.begin(), stores.end(), member.store) == stores.end()) {
        cluster_->Control(&node, {"member", "drop", base::ToHex(member.store), "force"});
        cluster_->Count("lost_member_dropped");
      }
    }
  }
}

void Nemesis::Calm() {
  calm_ = true;
  undo_.clear();
  cluster_->network().Calm();
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    node.paused_until_us = 0;
    node.device->SetCapacity(UINT64_MAX / 2);
    node.device->Disarm();
    node.restart_at_us = std::min(node.restart_at_us, cluster_->clock().now_us());
  }
}

// A primary of an epoch that its successor never heard of, or a replica that was told so.
bool Nemesis::IsForked(const SimNode& node, const SimNode& primary) {
  if (node.meta().role == Role::kPrimary) {
    return !node.serves_writes() || !replication::ContainsNewestOf(Epochs(primary), Epochs(node));
  }
  const replication::Refusal refusal = node.node->core()->replication->follow_status().refusal;
  // A promise to a node that gave up its role meanwhile (P17) binds until the operator lifts it.
  return refusal == replication::Refusal::kForked || refusal == replication::Refusal::kPromised;
}

void Nemesis::Repair() {
  const int64_t now_us = cluster_->clock().now_us();
  if (now_us < next_repair_us_) {
    return;
  }
  next_repair_us_ = now_us + 500'000;
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (node.refused) {
      cluster_->Wipe(&node);
    } else if (node.is_up() && node.node->core()->gate.stepped_down.load()) {
      cluster_->Crash(&node, false, 0);
    }
  }
  DropLostMembers();
  SimNode* primary = Primary();
  if (primary == nullptr) {
    WatchPrimary();
    PromoteLongest();
    DropForkedMembers();
    return;
  }
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (node.is_up() && &node != primary && node.meta().role == Role::kReplica &&
        node.meta().primary_address != primary->address()) {
      cluster_->Control(&node, {"join", primary->address()});
    } else if (node.is_up() && &node != primary && IsForked(node, *primary)) {
      // Histories that fork are the operator's to end: what the serving primary lacks was never
      // acknowledged, the history of the clients proves it afterwards.
      cluster_->Count("fork_discarded");
      cluster_->Control(&node, {"join", primary->address(), "discard-local-data"});
    }
  }
}

}  // namespace kvstored::sim
