#include "tests/sim/sim_network.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"

namespace kvstored::sim {
namespace {

size_t Index(int side) {
  return static_cast<size_t>(side);
}

}  // namespace

SimLink* SimNetworkState::LinkOf(LinkId id) {
  const auto found = links.find(id / 2);
  return found == links.end() ? nullptr : found->second.get();
}

SimEnd* SimNetworkState::LiveEnd(const SimFabric* fabric, LinkId id) {
  SimLink* link = LinkOf(id);
  if (link == nullptr) {
    return nullptr;
  }
  SimEnd* end = &link->ends[id % 2];
  return end->fabric == fabric && IsUp(*end) ? end : nullptr;
}

SimLane* SimNetworkState::LaneOf(SimEnd* end, LaneId lane) {
  if (end->lanes.size() <= lane) {
    end->lanes.resize(lane + size_t{1});
  }
  return &end->lanes[lane];
}

int64_t SimNetworkState::Delay() {
  if (random.Chance(faults.long_delay_rate)) {
    Count("long_delay");
    return random.Between(faults.delay_min_us, faults.long_delay_max_us);
  }
  return random.Between(faults.delay_min_us, faults.delay_max_us);
}

void SimNetworkState::SendOn(SimChannel* channel, SimMessage message) {
  message.due_us = std::max(channel->last_due_us, clock->now_us() + Delay());
  channel->last_due_us = message.due_us;
  channel->wire.push_back(std::move(message));
}

void SimNetworkState::Post(SimLink* link, int side, LaneId lane_id, SimTransfer transfer) {
  SimEnd& end = link->ends[Index(side)];
  const SimEnd& peer = link->ends[Index(1 - side)];
  SimLane& lane = *LaneOf(&end, lane_id);
  const int64_t now_us = clock->now_us();
  transfer.dma_us = std::max(lane.last_dma_us, now_us + random.Between(0, faults.delay_max_us));
  transfer.land_us = std::max(lane.last_land_us, transfer.dma_us + Delay());
  if (const auto limit = bandwidth.find(peer.node); limit != bandwidth.end()) {
    Count("slow_peer");
    int64_t& free_us = ingress_free_us[peer.node];
    transfer.land_us =
        std::max(transfer.land_us, free_us) +
        static_cast<int64_t>(static_cast<double>(transfer.size_bytes) / limit->second) + 1;
    free_us = transfer.land_us;
  }
  lane.last_dma_us = transfer.dma_us;
  lane.last_land_us = transfer.land_us;
  ++lane.outstanding_count;
  if (link->early_posted) {
    const int64_t posted_us =
        std::max(lane.last_posted_us, transfer.dma_us + random.Between(0, faults.delay_max_us));
    lane.last_posted_us = posted_us;
    lane.posted.push_back({posted_us, transfer.wr_id});
  }
  // A broken link that does not know it yet takes posts and never does anything with them.
  if (!link->is_broken) {
    lane.wire.push_back(std::move(transfer));
    if (random.Chance(faults.write_error_rate)) {
      link->break_due_us = std::min(link->break_due_us, now_us + Delay());
    }
  } else if (link->early_posted) {
    lane.posted.pop_back();
  }
}

void SimNetworkState::ReadSource(SimTransfer* transfer) {
  transfer->was_read = true;
  transfer->bytes.reserve(transfer->size_bytes);
  for (const iovec& piece : transfer->pieces) {
    const auto* from = static_cast<const uint8_t*>(piece.iov_base);
    transfer->bytes.insert(transfer->bytes.end(), from, from + piece.iov_len);
  }
  transfer->pieces.clear();
}

bool SimNetworkState::Land(SimLink* link, int side, LaneId lane_id, SimTransfer* transfer,
                           int64_t now_us) {
  SimEnd& peer = link->ends[Index(1 - side)];
  if (!IsUp(peer)) {
    return true;  // fenced or gone: the bytes have nowhere to land
  }
  const auto ring = peer.rings.find(transfer->ring.remote_key);
  if (ring == peer.rings.end() || transfer->ring.address != 0) {
    Count("stale_ring_key");
    Break(link, absl::AbortedError("remote access error: the ring key names no registered ring"));
    return false;
  }
  if (random.Chance(faults.stale_key_rate)) {
    Count("stale_ring_key_injected");
    Break(link, absl::AbortedError("remote access error: the ring key was given back (injected)"));
    return false;
  }
  const std::span<uint8_t> memory = ring->second;
  if (transfer->offset > memory.size() ||
      transfer->bytes.size() > memory.size() - transfer->offset) {
    Count("ring_bounds");
    Break(link, absl::AbortedError("remote access error: a write past the end of the ring"));
    return false;
  }
  SimLane& peer_lane = *LaneOf(&peer, lane_id);
  if (peer_lane.receive_count == 0) {
    Count("rnr");
    Break(link, absl::AbortedError("RNR retries exceeded: a write met no posted receive"));
    return false;
  }
  if (random.Chance(faults.rnr_rate)) {
    Count("rnr_injected");
    Break(link, absl::AbortedError("RNR retries exceeded (injected)"));
    return false;
  }
  --peer_lane.receive_count;
  if (transfer->bytes.size() >= 64 && random.Chance(faults.corrupt_rate)) {
    Count("corrupt_landing");
    transfer->bytes[random.Below(transfer->bytes.size())] ^=
        static_cast<uint8_t>(1U << random.Below(8));
  }
  if (!transfer->bytes.empty()) {
    std::memcpy(memory.data() + transfer->offset, transfer->bytes.data(), transfer->bytes.size());
  }
  if (peer_lane.completions_lost) {
    Count("landed_completion_lost");
    return true;
  }
  const int64_t arrived_us =
      std::max(peer_lane.last_arrived_us, now_us + random.Between(0, faults.delay_max_us));
  peer_lane.last_arrived_us = arrived_us;
  peer_lane.arrived.push_back({arrived_us, transfer->immediate});
  if (!link->early_posted && IsUp(link->ends[Index(side)])) {
    SimLane& lane = *LaneOf(&link->ends[Index(side)], lane_id);
    const int64_t posted_us = std::max(lane.last_posted_us, now_us + Delay());
    lane.last_posted_us = posted_us;
    lane.posted.push_back({posted_us, transfer->wr_id});
  }
  return true;
}

void SimNetworkState::RunLane(SimLink* link, int side, LaneId lane_id, int64_t now_us) {
  SimEnd& end = link->ends[Index(side)];
  SimLane& lane = end.lanes[lane_id];
  for (SimTransfer& transfer : lane.wire) {
    if (transfer.dma_us > now_us) {
      break;
    }
    if (!transfer.was_read) {
      ReadSource(&transfer);
    }
  }
  while (!lane.wire.empty() && lane.wire.front().land_us <= now_us) {
    if (IsBlocked(end, link->ends[Index(1 - side)])) {
      Count("partition_stall");
      return;
    }
    SimTransfer transfer = std::move(lane.wire.front());
    lane.wire.pop_front();
    if (!Land(link, side, lane_id, &transfer, now_us)) {
      lane.wire.clear();  // a lane in error carries nothing more
      return;
    }
  }
}

void SimNetworkState::RunChannel(SimLink* link, int side, SimChannel SimEnd::*channel,
                                 int64_t now_us) {
  SimEnd& end = link->ends[Index(side)];
  SimEnd& peer = link->ends[Index(1 - side)];
  SimChannel& from = end.*channel;
  while (!from.wire.empty() && from.wire.front().due_us <= now_us && !IsBlocked(end, peer)) {
    if (IsUp(peer)) {
      (peer.*channel).inbox.push_back(std::move(from.wire.front()));
    }
    from.wire.pop_front();
  }
}

void SimNetworkState::RunConnect(SimLink* link, int64_t now_us) {
  SimEnd& caller = link->ends[0];
  if (caller.state != EndState::kConnecting || link->syn_due_us == kNever) {
    return;
  }
  if (now_us >= link->connect_deadline_us) {
    Count("connect_timeout");
    CloseEnd(link, 0, absl::DeadlineExceededError("connecting to " + link->target + " timed out"));
    return;
  }
  const auto listener = listeners.find(link->target);
  if (now_us < link->syn_due_us) {
    return;
  }
  if (listener == listeners.end() || random.Chance(faults.refuse_rate)) {
    Count("connect_refused");
    CloseEnd(link, 0, absl::UnavailableError(link->target + ": connection refused"));
    return;
  }
  SimEnd& accepter = link->ends[1];
  accepter.node = listener->second->node();
  if (IsBlocked(caller, accepter) || IsBlocked(accepter, caller)) {
    return;  // the deadline decides
  }
  accepter.fabric = listener->second;
  accepter.address = link->target;
  accepter.state = EndState::kOpen;
  accepter.hello_due_us = now_us;
  caller.state = EndState::kOpen;
  caller.hello_due_us = now_us + Delay();
  link->syn_due_us = kNever;
}

// A blocked direction stops the acknowledgements too, so both ends time out, each in its own time.
void SimNetworkState::RunPartition(SimLink* link, int64_t now_us) {
  const bool blocked_now =
      IsBlocked(link->ends[0], link->ends[1]) || IsBlocked(link->ends[1], link->ends[0]);
  for (int side = 0; side < 2; ++side) {
    SimEnd& end = link->ends[Index(side)];
    if (end.state != EndState::kOpen || !blocked_now) {
      end.partition_deadline_us = kNever;
    } else if (end.partition_deadline_us == kNever) {
      end.partition_deadline_us =
          now_us + random.Between(faults.link_timeout_us, 2 * faults.link_timeout_us);
    } else if (now_us >= end.partition_deadline_us) {
      Count("partition_break");
      FlushWire(link, side, true);
      CloseEnd(link, side, absl::DeadlineExceededError("the peer did not acknowledge in time"));
    }
  }
}

void SimNetworkState::RunLink(SimLink* link, int64_t now_us) {
  RunConnect(link, now_us);
  RunPartition(link, now_us);
  if (link->break_due_us <= now_us) {
    Break(link, absl::AbortedError("link error (injected)"));
  }
  for (int side = 0; side < 2; ++side) {
    SimEnd& end = link->ends[Index(side)];
    for (size_t lane = 0; lane < end.lanes.size(); ++lane) {
      RunLane(link, side, static_cast<LaneId>(lane), now_us);
    }
    RunChannel(link, side, &SimEnd::messages, now_us);
    RunChannel(link, side, &SimEnd::setup, now_us);
  }
  for (int side = 0; side < 2; ++side) {
    SimEnd& end = link->ends[Index(side)];
    const SimEnd& peer = link->ends[Index(1 - side)];
    if (end.notice_due_us <= now_us && IsUp(end) && !IsBlocked(peer, end)) {
      CloseEnd(link, side, absl::UnavailableError("the peer closed the link"));
    }
    if (end.close_due_us <= now_us && IsUp(end)) {
      CloseEnd(link, side, end.close_why);
    }
  }
}

void SimNetworkState::Run() {
  const int64_t now_us = clock->now_us();
  for (auto it = links.begin(); it != links.end();) {
    SimLink* link = it->second.get();
    RunLink(link, now_us);
    const auto is_over = [](const SimEnd& end) {
      return end.state == EndState::kGone || end.state == EndState::kAbsent;
    };
    it = is_over(link->ends[0]) && is_over(link->ends[1]) ? links.erase(it) : std::next(it);
  }
}

// What is on the wire of one end, at an error: per lane a random number of writes is beyond recall
// and will still land, the others never happen. `may_read`: the source memory is still there.
void SimNetworkState::FlushWire(SimLink* link, int side, bool may_read) {
  for (SimLane& lane : link->ends[Index(side)].lanes) {
    size_t keep = lane.wire.empty() ? 0 : random.Below(lane.wire.size() + 1);
    for (size_t i = 0; i < keep; ++i) {
      if (!lane.wire[i].was_read && !may_read) {
        keep = i;
      } else if (!lane.wire[i].was_read) {
        ReadSource(&lane.wire[i]);
      }
    }
    for (size_t i = keep; i < lane.wire.size(); ++i) {
      Count("flushed_write");
    }
    lane.wire.resize(keep);
  }
}

void SimNetworkState::LoseCompletions(SimEnd* end) {
  for (SimLane& lane : end->lanes) {
    if (random.Chance(faults.completion_lost_rate)) {
      lane.completions_lost = true;
      const size_t keep = random.Below(lane.arrived.size() + 1);
      for (size_t i = keep; i < lane.arrived.size(); ++i) {
        Count("landed_completion_lost");
      }
      lane.arrived.resize(keep);
    }
  }
}

void SimNetworkState::Break(SimLink* link, const absl::Status& why) {
  link->break_due_us = kNever;
  if (link->is_broken) {
    return;
  }
  link->is_broken = true;
  Count("link_error");
  for (int side = 0; side < 2; ++side) {
    FlushWire(link, side, true);
    SimEnd& end = link->ends[Index(side)];
    LoseCompletions(&end);
    // A flushed queue pair completes nothing more; what was acknowledged before still may.
    end.close_due_us = clock->now_us() + Delay();
    end.close_why = why;
  }
}

void SimNetworkState::CloseEnd(SimLink* link, int side, const absl::Status& why) {
  SimEnd& end = link->ends[Index(side)];
  SimEnd& peer = link->ends[Index(1 - side)];
  if (!link->is_broken) {
    link->is_broken = true;
    FlushWire(link, side, true);
  } else {
    // Whatever this end had not read yet it never reads: the caller gets its buffers back now.
    for (SimLane& lane : end.lanes) {
      const auto unread = std::find_if(lane.wire.begin(), lane.wire.end(),
                                       [](const SimTransfer& t) { return !t.was_read; });
      lane.wire.erase(unread, lane.wire.end());
    }
  }
  for (SimLane& lane : end.lanes) {
    for (size_t i = 0; i < lane.arrived.size(); ++i) {
      Count("landed_completion_lost");
    }
    lane.arrived.clear();
    lane.posted.clear();
  }
  end.state = EndState::kClosing;
  end.rings.clear();
  end.messages.inbox.clear();
  end.setup.inbox.clear();
  end.close_due_us = clock->now_us();
  end.close_why = why;
  end.partition_deadline_us = kNever;
  if (IsUp(peer) && peer.notice_due_us == kNever) {
    // Behind everything that this end had sent, as a FIN is.
    peer.notice_due_us = std::max(end.messages.last_due_us, clock->now_us() + Delay());
  }
}

void SimNetworkState::Crash(SimFabric* fabric) {
  bool had_links = false;
  for (auto& [number, link] : links) {
    for (int side = 0; side < 2; ++side) {
      SimEnd& end = link->ends[Index(side)];
      SimEnd& peer = link->ends[Index(1 - side)];
      if (end.fabric != fabric || end.state == EndState::kGone) {
        continue;
      }
      had_links = true;
      FlushWire(link.get(), side, false);
      link->is_broken = true;
      end.state = EndState::kGone;
      end.fabric = nullptr;
      end.rings.clear();
      if (IsUp(peer) && peer.notice_due_us == kNever) {
        peer.notice_due_us =
            clock->now_us() + random.Between(faults.delay_min_us, faults.crash_notice_max_us);
      }
    }
  }
  if (had_links) {
    Count("node_crash");
  }
  std::erase_if(listeners, [fabric](const auto& entry) { return entry.second == fabric; });
}

}  // namespace kvstored::sim
