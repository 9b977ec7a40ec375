// What must hold of the cluster: of a node at every step, of all of them once the faults are over.
#include "base/log.h"
#include "tests/sim/cluster.h"

namespace kvstored::sim {

void Cluster::CheckInvariants(SimNode* node) {
  server::NodeCore* core = node->node->core();
  const log::Log* log = core->log();
  if (log == nullptr) {
    return;
  }
  if (node->serves_writes() && node->epoch() > newest_epoch_) {
    newest_epoch_ = node->epoch();
    believed_primary_ = node->index;
    base::LogInfo(node->name + " opened epoch " + std::to_string(newest_epoch_));
  }
  const bool primary = node->serves_writes();
  for (ShardId s = 0; s < core->shard_count(); ++s) {
    const shard::Shard& shard = *core->threads->shard(s);
    const Seq committed = shard.committed();
    if (log->persisted(s) > log->written(s) || log->written(s) > log->appended(s)) {
      Fail(node->name + ": persisted, written, appended out of order in shard " +
           std::to_string(s));
    }
    if (committed > shard.applied()) {
      Fail(node->name + ": committed above applied in shard " + std::to_string(s));
    }
    if (node->committed_seen.size() <= s) {
      node->committed_seen.resize(core->shard_count(), 0);
    }
    Seq& seen = node->committed_seen[s];
    if (committed < seen && !core->gate.loading.load()) {
      Fail(node->name + ": committed went back from " + std::to_string(seen) + " to " +
           std::to_string(committed) + " in shard " + std::to_string(s));
    }
    seen = committed;
    if (primary && core->CountsPersisted() && !log->failed() && committed > log->persisted(s)) {
      Fail(node->name + ": committed " + std::to_string(committed) + " of shard " +
           std::to_string(s) + " before it was persistent (" + std::to_string(log->persisted(s)) +
           ")");
    }
  }
}

bool Cluster::Equal(SimNode* primary, SimNode* replica, std::string* why) {
  server::NodeCore* a = primary->node->core();
  server::NodeCore* b = replica->node->core();
  for (ShardId s = 0; s < a->shard_count(); ++s) {
    shard::Shard* of_a = a->threads->shard(s);
    shard::Shard* of_b = b->threads->shard(s);
    if (of_a->applied() != of_b->applied() || of_a->committed() != of_a->applied() ||
        b->log()->persisted(s) != of_a->applied()) {
      *why = replica->name + " shard " + std::to_string(s) + ": primary applied " +
             std::to_string(of_a->applied()) + " committed " + std::to_string(of_a->committed()) +
             ", replica applied " + std::to_string(of_b->applied()) + " persisted " +
             std::to_string(b->log()->persisted(s));
      return false;
    }
    if (of_a->store()->StateHash() != of_b->store()->StateHash()) {
      Fail(replica->name + " shard " + std::to_string(s) + " differs from " + primary->name +
           " at the same seq " + std::to_string(of_a->applied()));
      return false;
    }
  }
  return true;
}

bool Cluster::Converged(std::string* why) {
  SimNode* primary = nullptr;
  for (auto& node : nodes_) {
    if (!node->is_up() || node->stopping) {
      *why = node->name + " is down";
      return false;
    }
    if (node->serves_writes() && IsCurrent(node->index)) {
      primary = node.get();
    }
  }
  if (primary == nullptr) {
    *why = "no primary serves";
    for (const auto& node : nodes_) {
      const log::Meta meta = node->meta();
      const std::vector<log::EpochEntry> epochs = node->node->core()->identity->manifest().epochs;
      *why += "; " + node->name + (meta.role == Role::kPrimary ? " primary" : " replica") +
              ", epoch " + std::to_string(epochs.empty() ? 0 : epochs.back().epoch.number) + ", " +
              std::to_string(meta.members.size()) + " members" +
              (meta.promotable ? ", promotable" : "") + (node->left_out ? ", left out" : "") +
              (node->must_not_promote ? ", must not be promoted" : "") + ", " +
              node->node->report().state_text;
    }
    return false;
  }
  if (primary->node->core()->gate.no_replicas.load()) {
    *why = primary->name + ": the member set is incomplete or silent";
    return false;
  }
  for (auto& node : nodes_) {
    if (node.get() == primary) {
      continue;
    }
    if (node->serves_writes() || !node->node->core()->replication->streaming() ||
        node->node->core()->gate.loading.load() || node->node->core()->log() == nullptr) {
      *why = node->name + " does not stream: " + node->node->report().state_text;
      return false;
    }
    if (!Equal(primary, node.get(), why)) {
      return false;
    }
  }
  return true;
}

}  // namespace kvstored::sim
