// The faults themselves, one by one.
#include <utility>

#include "base/hex.h"
#include "tests/sim/nemesis.h"

namespace kvstored::sim {

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
      switch (random_.Below(3)) {
        case 0:
          node->device->FailNextPersist();
          break;
        case 1:
          node->device->FailNextWrite();
          break;
        default:  // while it starts
          cluster_->Crash(node, random_.Chance(0.5), down_us);
          node->device->FailReadAfter(random_.Below(12));
          return Fault("read_error");
      }
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
      const Id128 member = set.members[random_.Below(set.members.size())].store_id;
      const std::string store = base::ToHex(member);
      const bool force = random_.Chance(0.5) && MayBeDropped(member);
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
      primary->node->ConfigSet({{"replication.ack_replicas", std::to_string(ack_replicas)}},
                               [](const absl::Status&) {});
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

}  // namespace kvstored::sim
