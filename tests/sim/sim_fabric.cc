#include "tests/sim/sim_fabric.h"

#include <algorithm>

#include "base/check.h"
#include "tests/sim/sim_network.h"

namespace kvstored::sim {

SimNetwork::SimNetwork(uint64_t seed, SimClock* clock)
    : state_(std::make_unique<SimNetworkState>(seed, clock)) {
}

SimNetwork::~SimNetwork() = default;

SimFaults& SimNetwork::faults() {
  return state_->faults;
}

void SimNetwork::Calm() {
  SimFaults& faults = state_->faults;
  faults.long_delay_rate = 0;
  faults.write_error_rate = 0;
  faults.message_error_rate = 0;
  faults.rnr_rate = 0;
  faults.stale_key_rate = 0;
  faults.corrupt_rate = 0;
  faults.refuse_rate = 0;
  state_->bandwidth.clear();
  Heal();
}

void SimNetwork::Block(const std::string& from, const std::string& to) {
  state_->blocked.insert({from, to});
}

void SimNetwork::Unblock(const std::string& from, const std::string& to) {
  state_->blocked.erase({from, to});
}

void SimNetwork::Partition(const std::string& a, const std::string& b) {
  Block(a, b);
  Block(b, a);
}

void SimNetwork::Heal() {
  state_->blocked.clear();
}

void SimNetwork::LimitBandwidth(const std::string& node, double bytes_per_us) {
  if (bytes_per_us > 0) {
    state_->bandwidth[node] = bytes_per_us;
  } else {
    state_->bandwidth.erase(node);
  }
}

bool SimNetwork::BreakLink(LinkId link_id) {
  SimLink* link = state_->LinkOf(link_id);
  if (link == nullptr || link->is_broken || link->ends[1].state != EndState::kOpen) {
    return false;
  }
  state_->Break(link, absl::AbortedError("link error (injected)"));
  return true;
}

bool SimNetwork::BreakRandomLink() {
  std::vector<uint64_t> live;
  for (const auto& [number, link] : state_->links) {
    if (!link->is_broken && link->ends[1].state == EndState::kOpen) {
      live.push_back(number);
    }
  }
  return !live.empty() && BreakLink(live[state_->random.Below(live.size())] * 2);
}

int64_t SimNetwork::NextEventUs() const {
  return state_->NextEventUs();
}

const std::map<std::string, uint64_t>& SimNetwork::counters() const {
  return state_->counters;
}

uint64_t SimNetwork::trace_hash() const {
  return state_->trace_hash;
}

SimFabric::SimFabric(SimNetwork* network, std::string node, std::string ip)
    : state_(network->state_.get()), node_(std::move(node)), ip_(std::move(ip)) {
}

SimFabric::~SimFabric() {
  Crash();
}

void SimFabric::Crash() {
  state_->Crash(this);
}

absl::StatusOr<std::string> SimFabric::Listen(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError("listen address \"" + address + "\": must be ip:port");
  }
  std::string bound = address;
  if (address.substr(colon + 1) == "0") {
    bound = address.substr(0, colon + 1) + std::to_string(state_->next_port++);
  }
  if (!state_->listeners.emplace(bound, this).second) {
    return absl::AlreadyExistsError("listen address " + bound + " is in use");
  }
  return bound;
}

LinkId SimFabric::Connect(const std::string& address) {
  auto link = std::make_unique<SimLink>();
  link->number = state_->next_link_number++;
  link->target = address;
  link->syn_due_us = state_->clock->now_us() + state_->Delay();
  link->connect_deadline_us = state_->clock->now_us() + state_->faults.connect_timeout_us;
  link->early_posted = state_->random.Chance(state_->faults.early_posted_rate);
  SimEnd& end = link->ends[0];
  end.fabric = this;
  end.node = node_;
  end.address = ip_ + ":" + std::to_string(state_->next_port++);
  end.state = EndState::kConnecting;
  const LinkId id = link->number * 2;
  state_->links.emplace(link->number, std::move(link));
  return id;
}

void SimFabric::Send(LinkId link_id, std::span<const uint8_t> message) {
  SimEnd* end = state_->LiveEnd(this, link_id);
  if (end == nullptr) {
    return;
  }
  KVS_CHECK(message.size() <= size_t{1} << 20, "size=%zu", message.size());
  KVS_CHECK(end->hello_told, "a message on link %llu, which is not connected",
            static_cast<unsigned long long>(link_id));
  SimLink* link = state_->LinkOf(link_id);
  if (link->is_broken) {
    return;
  }
  state_->SendOn(&end->messages, {0, {message.begin(), message.end()}, 0, false});
  if (state_->random.Chance(state_->faults.message_error_rate)) {
    link->break_due_us = std::min(link->break_due_us, state_->clock->now_us() + state_->Delay());
  }
}

void SimFabric::OpenLanes(LinkId link_id, LaneId lane_count) {
  SimEnd* end = state_->LiveEnd(this, link_id);
  if (end == nullptr) {
    return;
  }
  KVS_CHECK(link_id % 2 == 0 && end->hello_told && end->lane_count == 0 && lane_count > 0,
            "link=%llu lane_count=%u", static_cast<unsigned long long>(link_id), lane_count);
  end->lane_count = lane_count;
  state_->SendOn(&end->setup, {0, {}, lane_count, false});
}

RingKey SimFabric::RegisterRing(LinkId link_id, std::span<uint8_t> memory) {
  SimEnd* end = state_->LiveEnd(this, link_id);
  if (end == nullptr) {
    return RingKey{};
  }
  KVS_CHECK(!memory.empty() && (memory.size() & (memory.size() - 1)) == 0 &&
                reinterpret_cast<uintptr_t>(memory.data()) % 4096 == 0,
            "ring of %zu bytes at %p", memory.size(), static_cast<const void*>(memory.data()));
  const uint32_t key = state_->next_ring_key;
  state_->next_ring_key += 1 + static_cast<uint32_t>(state_->random.Below(16));
  end->rings[key] = memory;
  return RingKey{0, key};
}

void SimFabric::PostReceives(LinkId link_id, LaneId lane, uint32_t count) {
  if (SimEnd* end = state_->LiveEnd(this, link_id); end != nullptr) {
    state_->LaneOf(end, lane)->receive_count += count;
  }
}

OpResult SimFabric::PostWrite(LinkId link_id, LaneId lane_id, RingKey ring, uint64_t offset,
                              std::span<const iovec> pieces, uint32_t immediate, uint64_t wr_id) {
  SimEnd* end = state_->LiveEnd(this, link_id);
  if (end == nullptr) {
    return OpResult::kOk;  // flushed: OnClosed gives the pieces back
  }
  KVS_CHECK(end->lanes_told && lane_id < end->lane_count, "link=%llu lane=%u lane_count=%u",
            static_cast<unsigned long long>(link_id), lane_id, end->lane_count);
  SimLane* lane = state_->LaneOf(end, lane_id);
  if (lane->outstanding_count >= state_->faults.send_queue_depth) {
    state_->Count("send_queue_full");
    return OpResult::kWait;
  }
  SimTransfer transfer;
  transfer.ring = ring;
  transfer.offset = offset;
  transfer.immediate = immediate;
  transfer.wr_id = wr_id;
  transfer.pieces.assign(pieces.begin(), pieces.end());
  for (const iovec& piece : pieces) {
    transfer.size_bytes += piece.iov_len;
  }
  state_->Post(state_->LinkOf(link_id), static_cast<int>(link_id % 2), lane_id,
               std::move(transfer));
  return OpResult::kOk;
}

void SimFabric::Close(LinkId link_id, const absl::Status& why) {
  if (state_->LiveEnd(this, link_id) != nullptr) {
    state_->CloseEnd(state_->LinkOf(link_id), static_cast<int>(link_id % 2), why);
  }
}

bool SimFabric::Poll(int64_t /*timeout_us*/, FabricHandler* handler) {
  state_->Run();
  uint32_t upcall_count = 0;
  while (upcall_count < state_->faults.poll_upcall_count_max && state_->DeliverOne(this, handler)) {
    ++upcall_count;
  }
  return upcall_count > 0;
}

}  // namespace kvstored::sim
