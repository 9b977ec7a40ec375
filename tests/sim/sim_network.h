// Inside of SimNetwork: links, their two ends and what travels between them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/sim_fabric.h"
#include "tests/sim/sim_random.h"

namespace kvstored::sim {

inline constexpr int64_t kNever = INT64_MAX;

// A write on the wire: posted, not landed.
struct SimTransfer {
  int64_t dma_us = 0;   // source memory is read
  int64_t land_us = 0;  // bytes are in the peer's ring
  RingKey ring;
  uint64_t offset = 0;
  uint32_t immediate = 0;
  uint64_t wr_id = 0;
  size_t size_bytes = 0;
  bool was_read = false;
  std::vector<iovec> pieces;   // the poster's, until was_read
  std::vector<uint8_t> bytes;  // from then on
};

// Something for an upcall: not before due_us.
struct SimUpcall {
  int64_t due_us = 0;
  uint64_t value = 0;  // immediate or wr_id
};

// One lane as one end sees it.
struct SimLane {
  std::deque<SimTransfer> wire;
  std::deque<SimUpcall> posted;   // OnPosted to come
  std::deque<SimUpcall> arrived;  // OnWrite to come
  uint32_t outstanding_count = 0;
  uint64_t receive_count = 0;
  bool completions_lost = false;  // link error: what lands from now on is never told
  // Nothing overtakes inside a lane.
  int64_t last_dma_us = 0;
  int64_t last_land_us = 0;
  int64_t last_posted_us = 0;
  int64_t last_arrived_us = 0;
};

struct SimMessage {
  int64_t due_us = 0;
  std::vector<uint8_t> bytes;
  LaneId lane_count = 0;  // set-up channel only
  bool is_answer = false;
};

// An ordered channel from one end: `wire` is on its way to the peer, `inbox` came from there.
struct SimChannel {
  std::deque<SimMessage> wire;
  std::deque<SimMessage> inbox;
  int64_t last_due_us = 0;
};

enum class EndState : uint8_t {
  kAbsent,  // the accepting end before the connect arrived
  kConnecting,
  kOpen,
  kClosing,  // fenced: waits for its OnClosed only
  kGone,
};

struct SimEnd {
  SimFabric* fabric = nullptr;
  std::string node;
  std::string address;  // "ip:port"
  EndState state = EndState::kAbsent;
  int64_t hello_due_us = kNever;  // OnAccepted or OnConnected
  bool hello_told = false;
  bool lanes_told = false;
  LaneId lane_count = 0;
  std::vector<SimLane> lanes;
  SimChannel messages;
  SimChannel setup;
  std::map<uint32_t, std::span<uint8_t>> rings;
  int64_t close_due_us = kNever;
  absl::Status close_why;
  int64_t partition_deadline_us = kNever;
  int64_t notice_due_us = kNever;  // the peer closed: its notice is on the way to this end
};

// Takes part in the link: neither absent nor fenced nor gone.
inline bool IsUp(const SimEnd& end) {
  return end.state == EndState::kOpen || end.state == EndState::kConnecting;
}

struct SimLink {
  uint64_t number = 0;
  std::array<SimEnd, 2> ends;  // 0 connected, 1 accepted
  std::string target;
  int64_t syn_due_us = kNever;
  int64_t connect_deadline_us = kNever;
  int64_t break_due_us = kNever;
  bool is_broken = false;
  bool early_posted = false;
};

// An upcall that could be made now.
struct SimCandidate {
  enum class Kind : uint8_t { kHello, kMessage, kSetup, kPosted, kWrite, kClosed };
  SimLink* link;
  int side;
  Kind kind;
  LaneId lane;
};

struct SimNetworkState {
  SimNetworkState(uint64_t seed, SimClock* clock_arg) : random(seed), clock(clock_arg) {
  }

  // Everything due happens: reads of source memory, landings, closes; upcalls are queued.
  void Run();
  int64_t NextEventUs() const;
  // One due upcall of the node, picked at random among its channels. False: nothing is due.
  bool DeliverOne(SimFabric* fabric, FabricHandler* handler);
  void Crash(SimFabric* fabric);

  // The end with this id if it belongs to `fabric` and is neither fenced nor gone.
  SimEnd* LiveEnd(const SimFabric* fabric, LinkId id);
  SimLink* LinkOf(LinkId id);
  SimLane* LaneOf(SimEnd* end, LaneId lane);

  int64_t Delay();
  void Count(const char* fault) {
    ++counters[fault];
  }
  void Trace(uint64_t value) {
    trace_hash = (trace_hash ^ value) * 0x100000001b3 + 0x9e37;
  }
  bool IsBlocked(const SimEnd& from, const SimEnd& to) const {
    return !blocked.empty() && blocked.contains({from.node, to.node});
  }
  void Post(SimLink* link, int side, LaneId lane, SimTransfer transfer);
  void SendOn(SimChannel* channel, SimMessage message);
  // The link is in error: what is on the wire is flushed, a random part of it landing nevertheless.
  void Break(SimLink* link, const absl::Status& why);
  // Fences the end at once.
  void CloseEnd(SimLink* link, int side, const absl::Status& why);

  SimRandom random;
  SimClock* const clock;
  SimFaults faults;
  std::map<std::string, uint64_t> counters;
  uint64_t trace_hash = 0xcbf29ce484222325;
  std::map<uint64_t, std::unique_ptr<SimLink>> links;
  std::map<std::string, SimFabric*> listeners;  // "ip:port"
  std::set<std::pair<std::string, std::string>> blocked;
  std::map<std::string, double> bandwidth;  // bytes per us into a node
  std::map<std::string, int64_t> ingress_free_us;
  uint64_t next_link_number = 1;
  uint32_t next_ring_key = 0x1000;
  uint32_t next_port = 20'000;

 private:
  void RunLink(SimLink* link, int64_t now_us);
  void RunConnect(SimLink* link, int64_t now_us);
  void RunPartition(SimLink* link, int64_t now_us);
  void RunLane(SimLink* link, int side, LaneId lane, int64_t now_us);
  void RunChannel(SimLink* link, int side, SimChannel SimEnd::*channel, int64_t now_us);
  void ReadSource(SimTransfer* transfer);
  // False: the write broke the link.
  bool Land(SimLink* link, int side, LaneId lane, SimTransfer* transfer, int64_t now_us);
  void FlushWire(SimLink* link, int side, bool may_read);
  void LoseCompletions(SimEnd* end);
  int64_t NextEndEventUs(const SimLink& link, size_t side) const;
  void AddCandidates(SimLink* link, int side, std::vector<SimCandidate>* candidates);
  void Deliver(const SimCandidate& chosen, FabricHandler* handler);
};

}  // namespace kvstored::sim
