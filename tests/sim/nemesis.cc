#include "tests/sim/nemesis.h"

#include <algorithm>
#include <utility>

namespace kvstored::sim {

Nemesis::Nemesis(Cluster* cluster, uint64_t seed) : cluster_(cluster), random_(seed) {
  next_us_ = cluster->clock().now_us() + random_.Between(0, period_us_);
  SimFaults& faults = cluster->network().faults();
  faults.completion_lost_rate = 0.5;
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

bool Nemesis::StrikeProcess(uint64_t kind) {
  SimNode* node = Any();
  if (node == nullptr) {
    return false;
  }
  const int64_t down_us =
      random_.Chance(0.7) ? random_.Between(0, 60'000) : random_.Between(60'000, 1'500'000);
  switch (kind) {
    case 0:
    case 1:
      cluster_->Crash(node, false, down_us);
      return Fault("process_kill");
    case 2:
    case 3:
      cluster_->Crash(node, true, down_us);
      return Fault("power_cut");
    case 4: {  // the whole room
      for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
        if (cluster_->node(i).is_up()) {
          cluster_->Crash(&cluster_->node(i), true, random_.Between(0, 300'000));
        }
      }
      return Fault("power_cut_everywhere");
    }
    case 5:
      node->paused_until_us = cluster_->clock().now_us() +
                              random_.Between(1'000, random_.Chance(0.3) ? 2'000'000 : 100'000);
      return Fault("pause");
    default:
      cluster_->clock().JumpWall(random_.Between(-3'000'000, 3'000'000));
      return Fault("clock_jump");
  }
}

bool Nemesis::StrikeNetwork(uint64_t kind) {
  SimNetwork& network = cluster_->network();
  const std::string a =
      cluster_->node(static_cast<uint32_t>(random_.Below(cluster_->node_count()))).name;
  const std::string b =
      cluster_->node(static_cast<uint32_t>(random_.Below(cluster_->node_count()))).name;
  const int64_t lasts_us =
      random_.Chance(0.5) ? random_.Between(1'000, 100'000) : random_.Between(100'000, 2'000'000);
  switch (kind) {
    case 0:
    case 1:
    case 2:
      return network.BreakRandomLink() && Fault("link_error");
    case 3:
    case 4:
      if (a == b) {
        return false;
      }
      network.Partition(a, b);
      Later(lasts_us, [&network, a, b] {
        network.Unblock(a, b);
        network.Unblock(b, a);
      });
      return Fault("partition");
    case 5:
      if (a == b) {
        return false;
      }
      network.Block(a, b);
      Later(lasts_us, [&network, a, b] { network.Unblock(a, b); });
      return Fault("partition_one_way");
    default:
      network.LimitBandwidth(a, 0.05 + static_cast<double>(random_.Below(10)));
      Later(lasts_us, [&network, a] { network.LimitBandwidth(a, 0); });
      return Fault("slow_peer");
  }
}

bool Nemesis::StrikeDevice(uint64_t kind) {
  SimNode* node = Any();
  if (node == nullptr) {
    return false;
  }
  const int64_t down_us = random_.Between(0, 60'000);
  switch (kind) {
    case 0:
    case 1:
      // In the middle of whatever it does next.
      node->device->CrashAfter(random_.Below(random_.Chance(0.5) ? 6 : 60));
      return Fault("power_cut_midway");
    case 2: {
      node->device->SetCapacity(node->device->UsedBytesNow() + random_.Below(1 << 16));
      SimNode* full = node;
      Later(random_.Between(20'000, 400'000),
            [full] { full->device->SetCapacity(UINT64_MAX / 2); });
      return Fault("disk_full");
    }
    case 3:
      random_.Chance(0.5) ? node->device->FailNextPersist() : node->device->FailNextWrite();
      // A node without a role until somebody restarts it.
      Later(random_.Between(10'000, 300'000), [this, node] {
        if (node->is_up() && node->node->core()->gate.stepped_down.load()) {
          cluster_->Count("restarted_after_io_error");
          cluster_->Crash(node, random_.Chance(0.5), random_.Between(0, 20'000));
        }
      });
      return Fault("io_error");
    case 4:
      node = Expendable();
      if (node == nullptr) {
        return false;
      }
      cluster_->Crash(node, random_.Chance(0.5), down_us);
      node->device->FlipRandomBit(random_.Chance(0.8) ? "set-" : "");
      node->may_refuse_start = true;
      node->must_not_promote = true;
      return Fault("damage");
    case 5:
      node = Expendable();
      if (node == nullptr) {
        return false;
      }
      cluster_->Wipe(node);
      return Fault("wipe");
    default:
      if (node->node->core()->log() == nullptr) {
        return false;
      }
      cluster_->Control(node, {"checkpoint"});
      return Fault("checkpoint");
  }
}

bool Nemesis::StrikeRoles(uint64_t kind) {
  SimNode* primary = Primary();
  switch (kind) {
    case 0:
    case 1:
      Promote();  // beside a primary that lives, perhaps
      return Fault("promote");
    case 2:  // the primary goes, somebody else takes over
      if (primary == nullptr) {
        return false;
      }
      if (random_.Chance(0.5)) {
        cluster_->Crash(primary, random_.Chance(0.5), random_.Between(200'000, 1'500'000));
      } else {
        primary->paused_until_us = cluster_->clock().now_us() + random_.Between(200'000, 1'500'000);
      }
      Later(random_.Between(1'000, 100'000), [this] { Promote(); });
      return Fault("failover");
    case 3: {
      if (primary == nullptr) {
        return false;
      }
      const replication::MemberSet set = primary->node->core()->replication->members();
      if (set.members.empty()) {
        return false;
      }
      const bool force = random_.Chance(0.5);
      const std::string store = log::ToHex(set.members[random_.Below(set.members.size())].store_id);
      if (force) {
        NoteForcedDrop(store);
      }
      cluster_->Control(primary, force ? std::vector<std::string>{"member", "drop", store, "force"}
                                       : std::vector<std::string>{"member", "drop", store});
      return Fault("member_drop");
    }
    case 4: {
      if (primary == nullptr) {
        return false;
      }
      const auto ack_replicas = static_cast<uint32_t>(random_.Below(cluster_->node_count()));
      (void)primary->node->ConfigSet({{"replication.ack_replicas", std::to_string(ack_replicas)}});
      return Fault("set_ack");
    }
    case 5:
      if (primary == nullptr) {
        return false;
      }
      for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
        SimNode& node = cluster_->node(i);
        if (node.is_up() && &node != primary && node.meta().promotable && !node.must_not_promote) {
          cluster_->Control(primary, {"demote", node.address()});
          Later(random_.Between(5'000, 200'000), [this] { Promote(); });
          return Fault("switchover");
        }
      }
      return false;
    default:
      if (SimNode* node = Any(); node != nullptr && !node->stopping) {
        node->stopping = std::make_shared<std::atomic<bool>>(false);
        node->node->BeginShutdown(random_.Chance(0.5), node->stopping);
        return Fault("orderly_restart");
      }
      return false;
  }
}

void Nemesis::Promote() {
  std::vector<SimNode*> candidates;
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (node.is_up() && node.meta().role == Role::kReplica && node.meta().promotable &&
        !node.must_not_promote) {
      candidates.push_back(&node);
    }
  }
  if (candidates.empty()) {
    cluster_->Count("promote_without_candidate");
    return;
  }
  SimNode* node = candidates[random_.Below(candidates.size())];
  if (random_.Chance(0.4)) {
    cluster_->Control(node, {"promote"});
  } else {
    cluster_->Control(
        node, {"promote", "ack-replicas", std::to_string(random_.Below(cluster_->node_count()))});
  }
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

// The node may be promotable still, and nobody could tell it otherwise.
void Nemesis::NoteForcedDrop(const std::string& store) {
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (!node.is_up() || log::ToHex(node.meta().store) == store) {
      node.must_not_promote = true;
    }
  }
}

// Members whose disks are gone never answer: whoever waits for them is told so.
void Nemesis::DropLostMembers() {
  std::vector<Id128> stores;
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (!node.is_up()) {
      return;  // it may be the one
    }
    stores.push_back(node.meta().store);
  }
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    const log::Meta meta = node.meta();
    if (meta.role != Role::kPrimary) {
      continue;
    }
    for (const log::Member& member : meta.members) {
      if (std::find(stores.begin(), stores.end(), member.store) == stores.end()) {
        cluster_->Control(&node, {"member", "drop", log::ToHex(member.store), "force"});
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
    return;
  }
  for (uint32_t i = 0; i < cluster_->node_count(); ++i) {
    SimNode& node = cluster_->node(i);
    if (node.is_up() && &node != primary && node.meta().role == Role::kReplica &&
        node.meta().primary_address != primary->address()) {
      cluster_->Control(&node, {"join", primary->address()});
    }
  }
}

}  // namespace kvstored::sim
