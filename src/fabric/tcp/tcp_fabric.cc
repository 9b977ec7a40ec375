#include "fabric/tcp/tcp_fabric.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvstored::fabric {
namespace {

constexpr size_t kScratchBytes = size_t{256} << 10;

}  // namespace

TcpFabric::TcpFabric(const TcpOptions& options, Clock* clock)
    : resolver_([this] {
        names_resolved_.store(true, std::memory_order_release);  // partner: TakeResolved
        context_.poller.Wake();
      }),
      acceptor_(&context_, [this](int fd, const Introduction& introduction) {
        return OnIntroduced(fd, introduction);
      }) {
  KVS_CHECK(options.send_queue_depth > 0, "send_queue_depth=0");
  context_.options = options;
  context_.clock = clock;
  context_.scratch.resize(kScratchBytes);
}

TcpFabric::~TcpFabric() {
  links_.clear();
}

TcpLink* TcpFabric::LiveLink(LinkId id) {
  const auto found = links_.find(id);
  return found != links_.end() && found->second->is_live() ? found->second.get() : nullptr;
}

TcpLink* TcpFabric::AddLink(bool is_accepted) {
  const LinkId id = next_link_++;
  auto link = std::make_unique<TcpLink>(&context_, id, is_accepted);
  return links_.emplace(id, std::move(link)).first->second.get();
}

absl::StatusOr<std::string> TcpFabric::Listen(const std::string& address) {
  return acceptor_.Listen(address);
}

LinkId TcpFabric::Connect(const std::string& address) {
  TcpLink* link = AddLink(/*is_accepted=*/false);
  const absl::StatusOr<HostPort> where = SplitAddress(address);
  if (!where.ok()) {
    link->Fail(where.status());
    return link->id();
  }
  auto addresses = Resolve(*where, /*numeric_only=*/true);
  link->AwaitAddresses(address);
  if (addresses.ok()) {
    link->ConnectTo(*std::move(addresses));
  } else {
    resolver_.Start(link->id(), *where);
  }
  return link->id();
}

void TcpFabric::Send(LinkId link_id, std::span<const uint8_t> message) {
  if (TcpLink* link = LiveLink(link_id); link != nullptr) {
    link->Send(message);
  }
}

void TcpFabric::OpenLanes(LinkId link_id, LaneId lane_count) {
  if (TcpLink* link = LiveLink(link_id); link != nullptr) {
    link->OpenLanes(lane_count);
  }
}

RingKey TcpFabric::RegisterRing(LinkId link_id, std::span<uint8_t> memory) {
  TcpLink* link = LiveLink(link_id);
  return link != nullptr ? link->RegisterRing(memory) : RingKey{};
}

void TcpFabric::PostReceives(LinkId link_id, LaneId lane, uint32_t count) {
  if (TcpLink* link = LiveLink(link_id); link != nullptr) {
    link->PostReceives(lane, count);
  }
}

OpResult TcpFabric::PostWrite(LinkId link_id, LaneId lane, RingKey ring, uint64_t offset,
                              std::span<const iovec> pieces, uint32_t immediate, uint64_t wr_id) {
  TcpLink* link = LiveLink(link_id);
  return link != nullptr ? link->PostWrite(lane, ring, offset, pieces, immediate, wr_id)
                         : OpResult::kOk;
}

void TcpFabric::Close(LinkId link_id, const absl::Status& why) {
  if (TcpLink* link = LiveLink(link_id); link != nullptr) {
    link->Shut(why);
  }
}

bool TcpFabric::OnIntroduced(int fd, const Introduction& introduction) {
  if (introduction.kind == kControlConnection) {
    if (accepted_link_count_ >= context_.options.accepted_link_count_max) {
      return false;
    }
    ++accepted_link_count_;
    AddLink(/*is_accepted=*/true)->Accept(fd);
    return true;
  }
  if (introduction.kind != kLaneConnection) {
    return false;
  }
  return std::any_of(links_.begin(), links_.end(), [&](const auto& entry) {
    return entry.second->AcceptLane(fd, introduction.lane, introduction.token);
  });
}

void TcpFabric::TakeResolved() {
  if (!names_resolved_.exchange(false, std::memory_order_acquire)) {  // partner: the constructor
    return;
  }
  for (ResolvedName& name : resolver_.TakeResolved()) {
    TcpLink* link = LiveLink(name.link);
    if (link == nullptr) {
      continue;
    }
    if (name.addresses.ok()) {
      link->ConnectTo(*std::move(name.addresses));
    } else {
      link->Fail(name.addresses.status());
    }
  }
}

void TcpFabric::RunDeadlines() {
  const int64_t now_us = context_.clock->MonotonicUs();
  acceptor_.OnDeadline();
  for (const auto& [id, link] : links_) {
    if (link->deadline_us() <= now_us) {
      link->OnDeadline();  // makes no upcall, so the map stays as it is
    }
  }
}

int64_t TcpFabric::WaitUs(int64_t timeout_us) const {
  if (timeout_us == 0 || !context_.dirty.empty() || !context_.closed.empty()) {
    return 0;
  }
  int64_t deadline_us = acceptor_.deadline_us();
  for (const auto& [id, link] : links_) {
    deadline_us = std::min(deadline_us, link->deadline_us());
  }
  if (deadline_us == INT64_MAX) {
    return timeout_us;
  }
  const int64_t left_us = std::max<int64_t>(0, deadline_us - context_.clock->MonotonicUs());
  return timeout_us < 0 ? left_us : std::min(timeout_us, left_us);
}

// Upcalls (OnPosted) may post again: that goes out with the next round.
void TcpFabric::FlushDirty() {
  std::vector<TcpLink*> dirty;
  dirty.swap(context_.dirty);
  for (TcpLink* link : dirty) {
    link->ClearDirty();
    if (link->is_live()) {
      link->Flush();
    }
  }
  if (context_.dirty.empty()) {
    dirty.clear();
    context_.dirty.swap(dirty);  // keeps the capacity: no allocation in the steady state
  }
}

void TcpFabric::TellClosed() {
  while (!context_.closed.empty()) {
    std::vector<TcpLink*> closed;
    closed.swap(context_.closed);
    for (TcpLink* link : closed) {
      ++context_.progress_count;
      context_.handler->OnClosed(link->id(), link->why());
      accepted_link_count_ -= link->is_accepted() ? 1 : 0;
      std::erase(context_.dirty, link);
      links_.erase(link->id());
    }
  }
}

bool TcpFabric::Poll(int64_t timeout_us, FabricHandler* handler) {
  KVS_CHECK(context_.handler == nullptr, "Poll inside an upcall");
  context_.handler = handler;
  const uint64_t before = context_.progress_count;
  FlushDirty();
  TakeResolved();
  RunDeadlines();
  TellClosed();
  const bool has_moved = context_.progress_count != before;
  context_.poller.Poll(has_moved ? 0 : WaitUs(timeout_us));
  FlushDirty();
  TellClosed();
  context_.handler = nullptr;
  return context_.progress_count != before;
}

void TcpFabric::Wake() {
  context_.poller.Wake();
}

}  // namespace kvstored::fabric
