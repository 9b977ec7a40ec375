// What is due at whom: upcalls of a node, and when the next thing happens.
#include <algorithm>

#include "tests/sim/sim_network.h"

namespace kvstored::sim {
namespace {

using Kind = SimCandidate::Kind;

}  // namespace

int64_t SimNetworkState::NextEndEventUs(const SimLink& link, size_t side) const {
  const SimEnd& end = link.ends[side];
  const SimEnd& peer = link.ends[1 - side];
  int64_t next_us = kNever;
  const auto consider = [&next_us](int64_t due_us) {
    next_us = std::min(next_us, due_us);
  };
  const bool out_blocked = IsBlocked(end, peer);
  const bool in_blocked = IsBlocked(peer, end);
  for (const SimLane& lane : end.lanes) {
    if (!lane.wire.empty() && !out_blocked) {
      consider(lane.wire.front().land_us);
    }
    if (!lane.posted.empty() && IsUp(end) && (link.early_posted || !in_blocked)) {
      consider(lane.posted.front().due_us);
    }
    if (!lane.arrived.empty() && IsUp(end) && end.lanes_told) {
      consider(lane.arrived.front().due_us);
    }
  }
  for (const SimChannel* channel : {&end.messages, &end.setup}) {
    if (!channel->wire.empty() && !out_blocked) {
      consider(channel->wire.front().due_us);
    }
    if (!channel->inbox.empty() && IsUp(end) && end.hello_told) {
      consider(channel->inbox.front().due_us);
    }
  }
  if (end.state == EndState::kClosing) {
    consider(end.close_due_us);
  } else if (IsUp(end)) {
    consider(end.hello_told ? kNever : end.hello_due_us);
    consider(end.close_due_us);
    consider(in_blocked ? kNever : end.notice_due_us);
    if (end.state == EndState::kOpen && (in_blocked || out_blocked)) {
      // Not armed yet: the next Run does it.
      consider(end.partition_deadline_us == kNever ? clock->now_us() : end.partition_deadline_us);
    }
  }
  return next_us;
}

int64_t SimNetworkState::NextEventUs() const {
  int64_t next_us = kNever;
  for (const auto& [number, link] : links) {
    next_us = std::min(next_us, link->break_due_us);
    if (link->syn_due_us != kNever && link->ends[0].state == EndState::kConnecting) {
      const bool waits = link->syn_due_us <= clock->now_us();
      next_us = std::min(next_us, waits ? link->connect_deadline_us : link->syn_due_us);
    }
    next_us = std::min({next_us, NextEndEventUs(*link, 0), NextEndEventUs(*link, 1)});
  }
  return next_us;
}

void SimNetworkState::AddCandidates(SimLink* link, int side,
                                    std::vector<SimCandidate>* candidates) {
  const SimEnd& end = link->ends[static_cast<size_t>(side)];
  const int64_t now_us = clock->now_us();
  const auto offer = [&](Kind kind, size_t lane = 0) {
    candidates->push_back({link, side, kind, static_cast<LaneId>(lane)});
  };
  if (end.state == EndState::kClosing) {
    offer(Kind::kClosed);
    return;
  }
  if (!end.hello_told) {
    if (end.hello_due_us <= now_us) {
      offer(Kind::kHello);
    }
    return;
  }
  if (!end.messages.inbox.empty()) {
    offer(Kind::kMessage);
  }
  if (!end.setup.inbox.empty()) {
    offer(Kind::kSetup);
  }
  if (!end.lanes_told) {
    return;
  }
  const bool acks_blocked =
      !link->early_posted && IsBlocked(link->ends[static_cast<size_t>(1 - side)], end);
  for (size_t lane = 0; lane < end.lanes.size(); ++lane) {
    const SimLane& queues = end.lanes[lane];
    if (!queues.posted.empty() && queues.posted.front().due_us <= now_us && !acks_blocked) {
      offer(Kind::kPosted, lane);
    }
    if (!queues.arrived.empty() && queues.arrived.front().due_us <= now_us) {
      offer(Kind::kWrite, lane);
    }
  }
}

bool SimNetworkState::DeliverOne(SimFabric* fabric, FabricHandler* handler) {
  std::vector<SimCandidate> candidates;
  for (auto& [number, link] : links) {
    for (int side = 0; side < 2; ++side) {
      const SimEnd& end = link->ends[static_cast<size_t>(side)];
      if (end.fabric == fabric && end.state != EndState::kGone) {
        AddCandidates(link.get(), side, &candidates);
      }
    }
  }
  if (candidates.empty()) {
    return false;
  }
  const size_t pick = candidates.size() == 1 ? 0 : random.Below(candidates.size());
  if (pick != 0) {
    Count("reordered_across_lanes");
  }
  Deliver(candidates[pick], handler);
  return true;
}

// Everything is taken out of the queues before the upcall: it may post, send, close or connect.
void SimNetworkState::Deliver(const SimCandidate& chosen, FabricHandler* handler) {
  SimEnd& end = chosen.link->ends[static_cast<size_t>(chosen.side)];
  const SimEnd& peer = chosen.link->ends[static_cast<size_t>(1 - chosen.side)];
  const LinkId id = chosen.link->number * 2 + static_cast<uint64_t>(chosen.side);
  Trace(id * 8 + static_cast<uint64_t>(chosen.kind));
  Trace(static_cast<uint64_t>(clock->now_us()));
  switch (chosen.kind) {
    case Kind::kHello:
      end.hello_told = true;
      if (chosen.side == 0) {
        handler->OnConnected(id);
      } else {
        const std::string address = peer.address;
        const bool is_loopback = address.starts_with("127.") || address.starts_with("[::1]");
        handler->OnAccepted(id, address, is_loopback);
      }
      break;
    case Kind::kMessage: {
      const SimMessage message = std::move(end.messages.inbox.front());
      end.messages.inbox.pop_front();
      Trace(message.bytes.size());
      handler->OnMessage(id, message.bytes);
      break;
    }
    case Kind::kSetup: {
      const SimMessage message = std::move(end.setup.inbox.front());
      end.setup.inbox.pop_front();
      end.lanes_told = true;
      end.lane_count = message.lane_count;
      if (!message.is_answer) {
        SendOn(&end.setup, {0, {}, message.lane_count, true});
      }
      handler->OnLanesOpen(id, message.lane_count);
      break;
    }
    case Kind::kPosted: {
      SimLane& lane = end.lanes[chosen.lane];
      const uint64_t wr_id = lane.posted.front().value;
      lane.posted.pop_front();
      --lane.outstanding_count;
      Trace(wr_id);
      handler->OnPosted(id, chosen.lane, wr_id);
      break;
    }
    case Kind::kWrite: {
      SimLane& lane = end.lanes[chosen.lane];
      const auto immediate = static_cast<uint32_t>(lane.arrived.front().value);
      lane.arrived.pop_front();
      Trace(immediate);
      handler->OnWrite(id, chosen.lane, immediate);
      break;
    }
    case Kind::kClosed: {
      end.state = EndState::kGone;
      const absl::Status why = end.close_why;
      if (end.hello_told || chosen.side == 0) {  // an accept that was never told ends unseen
        handler->OnClosed(id, why);
      }
      break;
    }
  }
}

}  // namespace kvstored::sim
