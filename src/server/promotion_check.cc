#include "server/promotion_check.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "replication/join_plan.h"

namespace kvstored::server {
namespace {

using replication::NodeFacts;
using replication::PeerAnswer;

// Who may be promoted holds all that was acknowledged, so what others have beyond is worth less
// than a promotion that nobody is refused: of two nodes that each have a longer shard, the one
// with more records in all may go on.
Seq RecordsOf(const NodeFacts& facts) {
  Seq count = 0;
  for (const replication::ShardEnd& end : facts.ends) {
    count += end.end;
  }
  return count;
}

absl::Status JudgePeer(const NodeFacts& own, const PeerAnswer& answer, bool accept_loss) {
  const NodeFacts& peer = answer.facts;
  if (peer.opening_epoch) {
    // Both said so before they asked, so at least one of two hears of the other. Without a
    // tie-break: who is right is the operator's to say.
    return absl::UnavailableError(absl::StrFormat(
        "%s is being promoted, or goes on as primary after a restart; try again when it has ended: "
        "two nodes that open an epoch beside each other are two histories",
        answer.address));
  }
  if (accept_loss) {
    return absl::OkStatus();
  }
  if (peer.epochs.size() > own.epochs.size() &&
      replication::ContainsNewestOf(peer.epochs, own.epochs)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s knows a newer epoch (%d); promote that node or follow it",
                        answer.address, peer.epochs.back().epoch.number));
  }
  const Seq here = RecordsOf(own);
  const Seq there = RecordsOf(peer);
  if (peer.epochs == own.epochs && there > here) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s has a longer log (%d records, here %d); promote that node, or demote it first if it is "
        "the primary",
        answer.address, there, here));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status JudgePromotion(const NodeFacts& own, const std::vector<PeerAnswer>& answers,
                            bool accept_loss) {
  for (const PeerAnswer& answer : answers) {
    // It may know its own address from an earlier owner of it.
    if (answer.status.ok() && answer.facts.data_set_id == own.data_set_id &&
        answer.facts.store_id != own.store_id) {
      const absl::Status judged = JudgePeer(own, answer, accept_loss);
      if (!judged.ok()) {
        return judged;
      }
    }
  }
  return absl::OkStatus();
}

uint32_t HighestEpochOf(const Id128& data_set, const std::vector<PeerAnswer>& answers) {
  uint32_t highest = 0;
  for (const PeerAnswer& answer : answers) {
    if (answer.status.ok() && answer.facts.data_set_id == data_set) {
      highest = std::max(highest, answer.facts.promised);
      for (const replication::EpochEntry& entry : answer.facts.epochs) {
        highest = std::max(highest, entry.epoch.number);
      }
    }
  }
  return highest;
}

}  // namespace kvstored::server
