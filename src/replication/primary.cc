#include "replication/primary.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::replication {

Primary::Primary(EngineContext* context, const std::atomic<Seq>* committed,
                 const std::atomic<uint64_t>* clock_us, std::vector<Seq> ends, MemberSet members)
    : context_(context),
      committed_(committed),
      record_clock_us_(clock_us),
      backlog_(std::move(ends), context->options.backlog_bytes, context->options.charge),
      members_(context, std::move(members), &links_),
      lanes_(context->options.lanes) {
}

Primary::~Primary() {
  const absl::Status why = absl::CancelledError("this node is no longer primary");
  members_.Abort(why);
  for (ReplicaLink* link : links_) {
    members_.SetConnected(link->row(), false);
    link->Detach();
    link->Close(why);
  }
}

void Primary::AddBatch(record::BatchRef batch) {
  batch_clock_us_ = std::max(batch_clock_us_, batch->clock_us);
  backlog_.Add(std::move(batch), !links_.empty());
}

uint64_t Primary::clock_us() const {
  return std::max(batch_clock_us_, record_clock_us_->load(std::memory_order_relaxed));
}

void Primary::Admit(Link* link, const Hello& hello, const std::string& peer_host) {
  const NodeFacts facts = context_->facts();
  const auto refuse = [&](Refusal refusal, std::string text) {
    ++context_->counters->links_refused;
    base::LogWarning(absl::StrFormat("refused replica %s: %s", peer_host, text));
    if (refusal == Refusal::kForked || refusal == Refusal::kPrimaryIsOlder ||
        refusal == Refusal::kLosesCommitted || refusal == Refusal::kLongerThanPrimary) {
      context_->state->OnAlarm(refusal, text);
    }
    link->RefuseAndLinger({refusal, std::move(text), ""});
  };
  if (!facts.serving) {
    refuse(Refusal::kBusy, "this primary has not opened its epoch yet");
    return;
  }
  if (hello.facts.store_id == facts.store_id || hello.facts.store_id.empty()) {
    refuse(Refusal::kMalformed, "a node cannot follow itself (equal store ids)");
    return;
  }
  NodeFacts asking = hello.facts;
#ifdef KVS_TEST_SWITCHES
  if (context_->options.plant_no_epoch_check) {
    asking.epochs = facts.epochs;
  }
#endif
  JoinPlan plan = PlanJoin(facts, asking, hello.discard);
  if (plan.mode == JoinMode::kRefused) {
    refuse(plan.refusal, plan.text);
    return;
  }
  // The old link of a replica that came back is dead or about to be found so.
  const std::vector<ReplicaLink*> links = links_;
  for (ReplicaLink* old : links) {
    if (old->store_id() == hello.facts.store_id) {
      OnReplicaClosed(old, absl::OkStatus());
      old->Detach();
      old->Close(absl::AbortedError("the replica opened a newer link"));
    }
  }
  const std::optional<uint32_t> row = members_.RowFor(hello.facts.store_id);
  if (!row) {
    refuse(Refusal::kTooManyReplicas,
           absl::StrFormat("%d replicas are connected already", ProgressTable::kRows));
    return;
  }
  auto replica = std::make_unique<ReplicaLink>(context_, this, &backlog_, hello, peer_host, *row);
  ReplicaLink* const borrowed = replica.get();
  links_.push_back(borrowed);
  members_.SetConnected(*row, true);
  context_->host->Replace(link->id(), std::move(replica));
  borrowed->Begin(std::move(plan));
}

bool Primary::MayFullSync(const ReplicaLink* link) const {
  return std::none_of(links_.begin(), links_.end(), [link](const ReplicaLink* other) {
    return other != link && other->syncing();
  });
}

bool Primary::Pump(int64_t now_us) {
  bool moved = false;
  for (size_t i = 0; i < links_.size(); ++i) {
    moved |= links_[i]->Pump(now_us);
  }
  members_.Evaluate(now_us);
  return moved;
}

void Primary::OnMembersPersisted(ReplicaLink* link, const MembersPersisted& message) {
  members_.OnMembersPersisted(link, message);
}

void Primary::OnPromotablePersisted(ReplicaLink* link, const PromotablePersisted& message) {
  members_.OnPromotablePersisted(link, message);
}

void Primary::OnReplicaClosed(ReplicaLink* link, const absl::Status& /*why*/) {
  std::erase(links_, link);
  members_.SetConnected(link->row(), false);
  members_.OnClosed(link);
}

std::vector<ReplicaStatus> Primary::Statuses() const {
  std::vector<ReplicaStatus> statuses;
  const int64_t now_us = context_->now_us();
  for (const ReplicaLink* link : links_) {
    statuses.push_back(link->Status(now_us));
    statuses.back().member = members_.IsMember(link->store_id());
  }
  for (const Member& member : members_.set().members) {
    const bool connected = std::any_of(
        links_.begin(), links_.end(),
        [&member](const ReplicaLink* link) { return link->store_id() == member.store_id; });
    if (!connected) {
      ReplicaStatus status;
      status.store_id = member.store_id;
      status.address = member.address;
      status.front_port = member.front_port;
      status.member = true;
      statuses.push_back(status);
    }
  }
  return statuses;
}

Seq Primary::NeededFrom(ShardId shard) const {
  Seq needed = ProgressTable::kUnbounded;
  for (const ReplicaLink* link : links_) {
    if (shard < link->streams().size() && link->streams()[shard]->next_seq() != 0) {
      needed = std::min(needed, link->streams()[shard]->next_seq());
    }
  }
  return needed;
}

}  // namespace kvstored::replication
