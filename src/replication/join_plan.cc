#include "replication/join_plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/hex.h"

namespace kvstored::replication {
namespace {

std::string Describe(const std::vector<EpochEntry>& epochs) {
  if (epochs.empty()) {
    return "no epoch";
  }
  return absl::StrFormat("epoch %d (%016x)", epochs.back().epoch.number, epochs.back().epoch.id);
}

JoinPlan Refuse(Refusal refusal, std::string text) {
  JoinPlan plan;
  plan.refusal = refusal;
  plan.text = std::move(text);
  return plan;
}

// First entry of `epochs` that is newer than the one with this id; end if there is none.
std::vector<EpochEntry>::const_iterator After(const std::vector<EpochEntry>& epochs, uint64_t id) {
  const auto it = std::find_if(epochs.begin(), epochs.end(),
                               [id](const EpochEntry& entry) { return entry.epoch.id == id; });
  return it == epochs.end() ? it : it + 1;
}

JoinPlan PlanEmpty(const NodeFacts& primary, uint64_t dropped) {
  JoinPlan plan;
  plan.adopt = true;
  plan.primary = primary;
  plan.dropped_records = dropped;
  plan.common.assign(primary.shard_count, 0);
  const bool whole_log = std::all_of(primary.log_start.begin(), primary.log_start.end(),
                                     [](Seq start) { return start <= 1; });
  plan.mode = whole_log ? JoinMode::kCatchUp : JoinMode::kFullSync;
  return plan;
}

}  // namespace

std::string_view RefusalName(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return "none";
    case Refusal::kNotPrimary:
      return "not_primary";
    case Refusal::kDataSet:
      return "other_data_set";
    case Refusal::kShardCount:
      return "shard_count";
    case Refusal::kForked:
      return "forked_history";
    case Refusal::kPrimaryIsOlder:
      return "primary_is_older";
    case Refusal::kLosesCommitted:
      return "loses_committed";
    case Refusal::kPromised:
      return "promised";
    case Refusal::kLongerThanPrimary:
      return "longer_than_primary";
    case Refusal::kBusy:
      return "busy";
    case Refusal::kAuthentication:
      return "authentication";
    case Refusal::kNotLoopback:
      return "not_loopback";
    case Refusal::kVersion:
      return "version";
    case Refusal::kMalformed:
      return "malformed";
    case Refusal::kTooManyReplicas:
      return "too_many_replicas";
    case Refusal::kDiverged:
      return "diverged";
  }
  return "unknown";
}

bool ContainsNewestOf(const std::vector<EpochEntry>& list, const std::vector<EpochEntry>& other) {
  return other.empty() || std::any_of(list.begin(), list.end(), [&other](const EpochEntry& entry) {
           return entry.epoch.id == other.back().epoch.id;
         });
}

uint32_t EpochNumberAt(const std::vector<EpochEntry>& epochs, ShardId shard, Seq seq) {
  for (auto it = epochs.rbegin(); it != epochs.rend(); ++it) {
    if (it->first_seq[shard] <= seq) {
      return it->epoch.number;
    }
  }
  return 0;
}

JoinPlan PlanJoin(const NodeFacts& primary, const NodeFacts& replica, bool discard) {
  if (!primary.epochs.empty() && replica.promised > primary.epochs.back().epoch.number &&
      !discard) {
    return Refuse(
        Refusal::kPromised,
        absl::StrFormat("the replica promised to follow no epoch below %d, the primary is at %s: "
                        "start the node that asked for it, or kvctl join --discard-local-data",
                        replica.promised, Describe(primary.epochs)));
  }
  uint64_t held = 0;
  for (const ShardEnd& end : replica.ends) {
    held += end.end;
  }
  if (replica.data_set_id.empty() || discard) {
    return PlanEmpty(primary, held);
  }
  if (replica.data_set_id != primary.data_set_id) {
    return Refuse(
        Refusal::kDataSet,
        absl::StrFormat("the replica holds data set %s, the primary has %s; to give up the "
                        "replica's data: kvctl join --discard-local-data",
                        base::ToHex(replica.data_set_id), base::ToHex(primary.data_set_id)));
  }
  if (replica.shard_count != primary.shard_count) {
    return Refuse(Refusal::kShardCount, absl::StrFormat("the replica has %d shards, the primary %d",
                                                        replica.shard_count, primary.shard_count));
  }
  if (!ContainsNewestOf(primary.epochs, replica.epochs)) {
    const bool older = ContainsNewestOf(replica.epochs, primary.epochs);
    return Refuse(older ? Refusal::kPrimaryIsOlder : Refusal::kForked,
                  absl::StrFormat("%s: the primary is at %s, the replica at %s; %s",
                                  older ? "the replica's history continues the primary's"
                                        : "the histories forked",
                                  Describe(primary.epochs), Describe(replica.epochs),
                                  older ? "the primary must follow the newer one"
                                        : "kvctl join --discard-local-data on the one to give up"));
  }
  JoinPlan plan;
  plan.mode = JoinMode::kCatchUp;
  plan.primary = primary;
  plan.common.resize(primary.shard_count);
  const auto next = replica.epochs.empty() ? primary.epochs.begin()
                                           : After(primary.epochs, replica.epochs.back().epoch.id);
  for (ShardId shard = 0; shard < primary.shard_count; ++shard) {
    Seq& common = plan.common[shard];
    common = replica.ends[shard].end;
    if (next != primary.epochs.end()) {
      common = std::min(common, next->first_seq[shard] - 1);
    } else if (common > primary.ends[shard].end) {
      return Refuse(
          Refusal::kLongerThanPrimary,
          absl::StrFormat("shard %d: the replica ends at %d, the primary at %d, both in %s; "
                          "the primary lost records: promote the replica, or kvctl join "
                          "--discard-local-data there",
                          shard, common, primary.ends[shard].end, Describe(primary.epochs)));
    }
    if (common < replica.committed[shard]) {
      return Refuse(
          Refusal::kLosesCommitted,
          absl::StrFormat("shard %d: the replica holds committed records up to %d, its "
                          "history and the primary's part after %d; to give them up: kvctl "
                          "join --discard-local-data",
                          shard, replica.committed[shard], common));
    }
    plan.dropped_records += replica.ends[shard].end - common;
    if (common + 1 < primary.log_start[shard]) {
      plan.mode = JoinMode::kFullSync;  // the log no longer has what comes next
    }
  }
  return plan;
}

}  // namespace kvstored::replication
