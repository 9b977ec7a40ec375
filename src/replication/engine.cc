#include "replication/engine.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace kvstored::replication {
namespace {

constexpr int64_t kNeededPeriodUs = 100'000;

}  // namespace

void Replication::Engine::Mail::Post(std::function<void()> item) {
  if (work.Push(std::move(item))) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (fabric != nullptr) {
      fabric->Wake();
    }
  }
}

Replication::Engine::Engine(ReplicationOptions options, Fabric* fabric, Clock* clock,
                            NodeState* state, ApplySink* sink, RecordSource* source,
                            std::function<void(ShardId)> progress_moved)
    : mail_(std::make_shared<Mail>()),
      random_(options.random_seed != 0 ? options.random_seed : base::SystemRandom()),
      progress_(options.shard_count),
      local_persisted_(std::make_unique<std::atomic<Seq>[]>(options.shard_count)),
      committed_(std::make_unique<std::atomic<Seq>[]>(options.shard_count)),
      needed_from_(std::make_unique<std::atomic<Seq>[]>(options.shard_count)) {
  KVS_CHECK(options.shard_count >= 1 && options.shard_count <= kShardCountMax &&
                options.ring_bytes == RingBytesFor(options.ring_bytes) &&
                2 * options.ring_bytes <= kAdvanceBytesMax && options.lane_credits >= 4 &&
                options.lane_count_max >= 1 && options.lanes >= 1,
            "shards=%u ring_bytes=%zu lane_credits=%u", options.shard_count, options.ring_bytes,
            options.lane_credits);
  mail_->fabric = fabric;
  for (ShardId shard = 0; shard < options.shard_count; ++shard) {
    needed_from_[shard].store(ProgressTable::kUnbounded, std::memory_order_relaxed);
  }
  context_.options = std::move(options);
  context_.fabric = fabric;
  context_.clock = clock;
  context_.state = state;
  context_.sink = sink;
  context_.source = source;
  context_.host = this;
  context_.progress = &progress_;
  context_.counters = &counters_;
  context_.random = &random_;
  context_.progress_moved = std::move(progress_moved);
  context_.post = [mail = mail_](std::function<void()> work) {
    mail->Post(std::move(work));
  };
  context_.facts = [this] {
    return Facts();
  };
}

Replication::Engine::~Engine() {
  primary_.reset();
  follower_.reset();
  for (auto& [id, link] : links_) {
    link->Close(absl::CancelledError("this node stops"));
  }
  // Rings and sources belong to the fabric until OnClosed.
  for (int round = 0; round < 1000 && !links_.empty(); ++round) {
    context_.fabric->Poll(0, this);
  }
  const std::lock_guard<std::mutex> lock(mail_->mutex);
  mail_->fabric = nullptr;
}

absl::StatusOr<std::string> Replication::Engine::Start() {
  if (context_.options.listen_address.empty()) {
    return std::string();
  }
  absl::StatusOr<std::string> bound = context_.fabric->Listen(context_.options.listen_address);
  if (!bound.ok()) {
    return absl::Status(bound.status().code(),
                        absl::StrFormat("replication cannot listen on %s: %s",
                                        context_.options.listen_address, bound.status().message()));
  }
  if (context_.options.secret.empty()) {
    base::LogInfo(
        absl::StrFormat("replication listens on %s; no shared secret is configured: "
                        "loopback peers only",
                        *bound));
  }
  return bound;
}

void Replication::Engine::Post(std::function<void()> work) {
  mail_->Post(std::move(work));
}

// Without a replica nobody waits for the batch: the next Step, some milliseconds later, takes it.
void Replication::Engine::SubmitBatch(record::BatchRef batch) {
  if (batches_.Push(std::move(batch)) && sends_.load(std::memory_order_relaxed)) {
    context_.fabric->Wake();
  }
}

// Only a replica tells anybody what its log has confirmed.
void Replication::Engine::SetLocalPersisted(ShardId shard, Seq seq) {
  local_persisted_[shard].store(seq, std::memory_order_release);  // partner: ReceiveStream::Report
  if (reports_.load(std::memory_order_relaxed)) {
    context_.fabric->Wake();
  }
}

// Not worth a wake-up: the next batch carries it, or the timer of an idle stream does (P10).
void Replication::Engine::SetCommitted(ShardId shard, Seq seq) {
  committed_[shard].store(seq, std::memory_order_release);  // partner: Primary::committed
}

void Replication::Engine::SetRecordClock(uint64_t clock_us) {
  record_clock_us_.store(clock_us, std::memory_order_relaxed);
}

NodeFacts Replication::Engine::Facts() {
  NodeFacts facts = context_.state->Facts();
  if (primary_ == nullptr) {
    return facts;
  }
  facts.members = primary_->members()->set();
  for (ShardId shard = 0; shard < facts.shard_count && shard < facts.ends.size(); ++shard) {
    const Seq end = std::max(facts.ends[shard].end, primary_->backlog().end(shard));
    if (end != facts.ends[shard].end) {
      facts.ends[shard] = {end, 0};
    }
    facts.committed[shard] = std::max(facts.committed[shard], primary_->committed(shard));
  }
  return facts;
}

bool Replication::Engine::DrainMail() {
  bool any = batches_.Drain([this](record::BatchRef& batch) {
    if (primary_ != nullptr) {
      primary_->AddBatch(std::move(batch));
    }
  });
  any |= mail_->work.Drain([](std::function<void()>& work) { work(); });
  return any;
}

bool Replication::Engine::Pump(int64_t now_us) {
  context_.log_awaited = false;
  if (primary_ != nullptr) {
    return primary_->Pump(now_us);
  }
  return follower_ != nullptr && follower_->Pump(now_us);
}

int64_t Replication::Engine::NextTimerUs() const {
  int64_t due = std::numeric_limits<int64_t>::max();
  for (const auto& [id, link] : links_) {
    if (!link->closing()) {
      due = std::min(due, link->timer_us());
    }
  }
  if (follower_ != nullptr) {
    due = std::min(due, follower_->timer_us());
  }
  if (primary_ != nullptr) {
    due =
        std::min(due, context_.now_us() + (context_.log_awaited ? kReadAgainUs : kNeededPeriodUs));
  }
  return due;
}

void Replication::Engine::RunTimers(int64_t now_us) {
  std::vector<Link*> due;
  for (const auto& [id, link] : links_) {
    if (!link->closing() && link->timer_us() <= now_us) {
      due.push_back(link.get());
    }
  }
  for (Link* link : due) {
    link->OnTimer(now_us);
  }
  if (now_us >= next_needed_us_) {
    next_needed_us_ = now_us + kNeededPeriodUs;
    PublishNeeded();
  }
}

void Replication::Engine::PublishNeeded() {
  for (ShardId shard = 0; shard < context_.options.shard_count; ++shard) {
    const Seq needed =
        primary_ == nullptr ? ProgressTable::kUnbounded : primary_->NeededFrom(shard);
    needed_from_[shard].store(needed, std::memory_order_release);  // partner: NeededFrom
  }
}

bool Replication::Engine::Step(int64_t timeout_us) {
  bool moved = DrainMail();
  int64_t now_us = context_.now_us();
  moved |= Pump(now_us);
  int64_t wait_us = 0;
  if (!moved && timeout_us > 0) {
    const int64_t due = NextTimerUs();
    wait_us = std::clamp<int64_t>(due - now_us, 0, timeout_us);
  }
  moved |= context_.fabric->Poll(wait_us, this);
  moved |= DrainMail();
  now_us = context_.now_us();
  RunTimers(now_us);
  moved |= Pump(now_us);
  graveyard_.clear();
  sends_.store(primary_ != nullptr && primary_->has_links(), std::memory_order_relaxed);
  reports_.store(follower_ != nullptr, std::memory_order_relaxed);
  return moved;
}

void Replication::Engine::BecomePrimary(const MemberSet& members) {
  FenceAndStop("the node becomes primary");
  const NodeFacts facts = context_.state->Facts();
  std::vector<Seq> ends;
  for (ShardId shard = 0; shard < context_.options.shard_count; ++shard) {
    ends.push_back(shard < facts.ends.size() ? facts.ends[shard].end : 0);
    committed_[shard].store(shard < facts.committed.size() ? facts.committed[shard] : 0,
                            std::memory_order_release);
  }
  // A promoted member takes the set over minus itself (P19).
  MemberSet others = members;
  std::erase_if(others.members,
                [&facts](const Member& member) { return member.store_id == facts.store_id; });
  primary_ = std::make_unique<Primary>(&context_, committed_.get(), &record_clock_us_,
                                       std::move(ends), std::move(others));
}

void Replication::Engine::FollowPrimary(const std::string& address, bool discard_local_data) {
  FenceAndStop(absl::StrFormat("the node follows %s", address));
  follower_ =
      std::make_unique<Follower>(&context_, local_persisted_.get(), address, discard_local_data);
}

void Replication::Engine::FenceAndStop(const std::string& why) {
  if (primary_ == nullptr && follower_ == nullptr) {
    return;
  }
  base::LogInfo(absl::StrFormat("replication: the role ends: %s", why));
  primary_.reset();
  follower_.reset();
  // What was not committed in this role never will be by it: a primary that steps aside would tell
  // its clients of writes that its successor does not have. The next role publishes its own set.
  progress_.PublishNoRole();
  progress_.SetSilentSince(0);
}

Link* Replication::Engine::Find(LinkId id) {
  const auto it = links_.find(id);
  return it == links_.end() ? nullptr : it->second.get();
}

void Replication::Engine::Replace(LinkId id, std::unique_ptr<Link> successor) {
  const auto it = links_.find(id);
  KVS_CHECK(it != links_.end(), "link=%llu", static_cast<unsigned long long>(id));
  successor->set_id(id);
  graveyard_.push_back(std::move(it->second));
  it->second = std::move(successor);
}

Link* Replication::Engine::Connect(const std::string& address, std::unique_ptr<Link> owner) {
  const LinkId id = context_.fabric->Connect(address);
  owner->set_id(id);
  return (links_[id] = std::move(owner)).get();
}

void Replication::Engine::Admit(Link* link, const Hello& hello, const std::string& peer_host) {
  if (primary_ != nullptr) {
    primary_->Admit(link, hello, peer_host);
    return;
  }
  const std::string primary = follower_ == nullptr ? "" : follower_->status().address;
  link->RefuseAndLinger(
      {Refusal::kNotPrimary,
       primary.empty() ? "this node is not a primary"
                       : absl::StrFormat("this node is a replica of %s: follow that one", primary),
       primary});
}

void Replication::Engine::OnAccepted(LinkId id, std::string_view peer, bool loopback) {
  ++counters_.links_accepted;
  uint32_t handshakes = 0;
  for (const auto& [other, link] : links_) {
    const auto* accepted = dynamic_cast<const AcceptedLink*>(link.get());
    handshakes += accepted != nullptr && !accepted->admitted() ? 1 : 0;
  }
  auto link = std::make_unique<AcceptedLink>(&context_, std::string(peer), loopback);
  link->set_id(id);
  if (handshakes >= context_.options.handshakes_max) {
    ++counters_.links_refused;
    link->Close(absl::ResourceExhaustedError("too many handshakes under way"));
  }
  links_[id] = std::move(link);
}

void Replication::Engine::OnConnected(LinkId id) {
  if (Link* link = Find(id); link != nullptr && !link->closing()) {
    link->NoteHeard(context_.now_us());
    link->OnConnected();
  }
}

void Replication::Engine::OnMessage(LinkId id, std::span<const uint8_t> bytes) {
  Link* link = Find(id);
  if (link == nullptr || link->closing() || link->lingering()) {
    return;
  }
  std::string error = "longer than a peer may send before it is admitted";
  std::optional<Message> message;
  if (bytes.size() <= link->message_bytes_max()) {
    message = DecodeMessage(bytes, &error);
  }
  if (!message) {
    ++counters_.bad_messages;
    bad_message_log_.Warning(absl::StrFormat("replication: a bad control message: %s", error));
    link->RefuseAndLinger({Refusal::kMalformed, error, ""});
    return;
  }
  link->NoteHeard(context_.now_us());
  link->OnMessage(*message);
}

void Replication::Engine::OnLanesOpen(LinkId id, LaneId lane_count) {
  if (Link* link = Find(id); link != nullptr && !link->closing()) {
    link->NoteHeard(context_.now_us());
    link->OnLanesOpen(lane_count);
  }
}

void Replication::Engine::OnWrite(LinkId id, LaneId lane, uint32_t immediate) {
  if (Link* link = Find(id); link != nullptr && !link->closing()) {
    link->NoteHeard(context_.now_us());
    link->OnWrite(lane, immediate);
  }
}

void Replication::Engine::OnPosted(LinkId id, LaneId lane, uint64_t wr_id) {
  if (Link* link = Find(id)) {
    link->OnPosted(lane, wr_id);
  }
}

void Replication::Engine::OnClosed(LinkId id, const absl::Status& why) {
  const auto it = links_.find(id);
  if (it == links_.end()) {
    return;
  }
  std::unique_ptr<Link> link = std::move(it->second);
  links_.erase(it);
  link->OnClosed(why);
  graveyard_.push_back(std::move(link));
}

}  // namespace kvstored::replication
