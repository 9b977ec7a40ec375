#include "replication/replication.h"

#include "replication/engine.h"
#include "replication/peers.h"

namespace kvstored::replication {

std::string_view StreamStateName(StreamState state) {
  switch (state) {
    case StreamState::kConnecting:
      return "connecting";
    case StreamState::kFullSync:
      return "full_sync";
    case StreamState::kCatchUp:
      return "catch_up";
    case StreamState::kStreaming:
      return "streaming";
  }
  return "unknown";
}

Replication::Replication(ReplicationOptions options, Fabric* fabric, Clock* clock, NodeState* state,
                         ApplySink* sink, RecordSource* source,
                         std::function<void(ShardId shard)> progress_moved)
    : engine_(std::make_unique<Engine>(std::move(options), fabric, clock, state, sink, source,
                                       std::move(progress_moved))) {
}
Replication::~Replication() = default;

absl::StatusOr<std::string> Replication::Start() {
  return engine_->Start();
}
bool Replication::Step(int64_t timeout_us) {
  return engine_->Step(timeout_us);
}
int64_t Replication::NextTimerUs() const {
  return engine_->NextTimerUs();
}

void Replication::Post(std::function<void()> work) {
  engine_->Post(std::move(work));
}
void Replication::SubmitBatch(record::BatchRef batch) {
  engine_->SubmitBatch(std::move(batch));
}
void Replication::SetLocalPersisted(ShardId shard, Seq seq) {
  engine_->SetLocalPersisted(shard, seq);
}
void Replication::SetCommitted(ShardId shard, Seq seq) {
  engine_->SetCommitted(shard, seq);
}
void Replication::SetRecordClock(uint64_t clock_us) {
  engine_->SetRecordClock(clock_us);
}
void Replication::FinishFullSync(absl::Status status) {
  engine_->Post([engine = engine_.get(), status = std::move(status)] {
    if (engine->follower() != nullptr) {
      engine->follower()->FinishFullSync(status);
    }
  });
}
const ProgressTable& Replication::progress() const {
  return engine_->progress();
}
Seq Replication::NeededFrom(ShardId shard) const {
  return engine_->NeededFrom(shard);
}
void Replication::Wake() {
  engine_->fabric()->Wake();
}

void Replication::BecomePrimary(const MemberSet& members) {
  engine_->BecomePrimary(members);
}
void Replication::FollowPrimary(const std::string& address, bool discard_local_data) {
  engine_->FollowPrimary(address, discard_local_data);
}
void Replication::FenceAndStop(const std::string& why) {
  engine_->FenceAndStop(why);
}
void Replication::SetLanes(uint16_t lanes) {
  engine_->context()->options.lanes = lanes == 0 ? uint16_t{1} : lanes;
  if (engine_->primary() != nullptr) {
    engine_->primary()->SetLanes(engine_->context()->options.lanes);
  }
}

MemberSet Replication::members() const {
  return engine_->primary() == nullptr ? MemberSet() : engine_->primary()->members()->set();
}
bool Replication::HasOrAwaitsMembers() const {
  return engine_->primary() == nullptr || engine_->primary()->members()->HasOrAwaits();
}
void Replication::SetAck(AckLevel ack, uint32_t ack_replicas, bool force, Done done) {
  if (engine_->primary() == nullptr) {
    done(absl::FailedPreconditionError("this node is not a primary"));
    return;
  }
  engine_->primary()->members()->SetAck(ack, ack_replicas, force, std::move(done));
}
void Replication::DropMember(const Id128& store_id, bool force, Done done) {
  if (engine_->primary() == nullptr) {
    done(absl::FailedPreconditionError("this node is not a primary"));
    return;
  }
  engine_->primary()->members()->Drop(store_id, force, std::move(done));
}
void Replication::ReplaceMember(const Id128& old_store, const Id128& new_store, bool force,
                                Done done) {
  if (engine_->primary() == nullptr) {
    done(absl::FailedPreconditionError("this node is not a primary"));
    return;
  }
  engine_->primary()->members()->Replace(old_store, new_store, force, std::move(done));
}

void Replication::AskPeers(const std::vector<std::string>& addresses, PeerQuestion question,
                           uint32_t number, int64_t timeout_us,
                           std::function<void(std::vector<PeerAnswer>)> done) {
  EngineContext* context = engine_->context();
  AskAll(context, addresses, question, number, context->now_us() + timeout_us, std::move(done));
}
void Replication::FetchTail(const std::string& address, ShardId shard, Seq from_seq,
                            int64_t timeout_us, std::function<bool(record::BatchRef)> next,
                            Done done) {
  EngineContext* context = engine_->context();
  context->host->Connect(
      address, std::make_unique<TailLink>(context, shard, from_seq, context->now_us() + timeout_us,
                                          std::move(next), std::move(done)));
}

std::vector<ReplicaStatus> Replication::replicas() const {
  return engine_->primary() == nullptr ? std::vector<ReplicaStatus>()
                                       : engine_->primary()->Statuses();
}
FollowStatus Replication::follow_status() const {
  return engine_->follower() == nullptr ? FollowStatus() : engine_->follower()->status();
}
const ReplicationCounters& Replication::counters() const {
  return engine_->counters();
}
bool Replication::streaming() const {
  return engine_->follower() != nullptr &&
         engine_->follower()->status().state == StreamState::kStreaming;
}

}  // namespace kvstored::replication
