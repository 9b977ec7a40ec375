// The fabric of a simulation: many nodes in one thread, deterministic from a seed, with every fault
// that reliable connections can have and none that they cannot. What RC forbids never happens:
// inside one lane of a live link nothing is lost, doubled or reordered, and the message channel is
// ordered and reliable while the link lives.
//
//   post --(dma)--> bytes copied --(land)--> in the peer's ring --(receive)--> OnWrite
//     \--------------------------------- OnPosted, any time after the dma
//
// Source memory is read at a random moment between the post and OnPosted, so a buffer that is
// reused too early shows as wrong bytes at the peer. Landing needs nothing of the peer's processor:
// the bytes are there before OnWrite, perhaps long before, perhaps without any OnWrite when the
// link breaks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kvstored/fabric.h"
#include "tests/sim/sim_clock.h"

namespace kvstored::sim {

// Rates are of 1 and may be changed at any time.
struct SimFaults {
  // One way of each message and write.
  int64_t delay_min_us = 2;
  int64_t delay_max_us = 40;
  // Of each message and write: a delay of up to long_delay_max_us instead.
  double long_delay_rate = 0;
  int64_t long_delay_max_us = 20'000;
  // Of each posted write / each sent message: the link breaks soon after (a QP in the error state:
  // posts are flushed, some of them landed nevertheless).
  double write_error_rate = 0;
  double message_error_rate = 0;
  // When a link breaks, of each lane: the completions of what landed last are lost.
  double completion_lost_rate = 0.5;
  // Of each landing: the link breaks as if the peer had posted no receive, or had given the ring's
  // key back (after a restart, say).
  double rnr_rate = 0;
  double stale_key_rate = 0;
  // Of each landing of at least 64 bytes: one bit of it is wrong. No wire does that, a bad memory
  // does; checksums are there for it.
  double corrupt_rate = 0;
  // Of each connect.
  double refuse_rate = 0;
  // Of each link: OnPosted as with sockets (copied, may precede the landing); otherwise as with
  // queue pairs (the peer's NIC acknowledged).
  double early_posted_rate = 0.5;
  // A blocked direction breaks a link at each end after 1 to 2 times this.
  int64_t link_timeout_us = 200'000;
  int64_t connect_timeout_us = 1'000'000;
  // The peers of a crashed node find out after at most this.
  int64_t crash_notice_max_us = 100'000;
  // Writes of a lane that wait for OnPosted, before PostWrite says kWait.
  uint32_t send_queue_depth = 128;
  // Upcalls of one Poll; the rest waits for the next.
  uint32_t poll_upcall_count_max = 64;
};

class SimFabric;
struct SimNetworkState;

// The wires between all nodes. Outlives the fabrics. One thread.
class SimNetwork {
 public:
  SimNetwork(uint64_t seed, SimClock* clock);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  SimFaults& faults();
  // Every rate 0, every block and bandwidth limit lifted: what is alive must converge now.
  void Calm();

  // Node names, of nodes that exist or will. Bytes and connects from -> to stall; links between the
  // two break after the time-out, at each end separately.
  void Block(const std::string& from, const std::string& to);
  void Unblock(const std::string& from, const std::string& to);
  // Both directions.
  void Partition(const std::string& a, const std::string& b);
  void Heal();
  // Slow peer: what is written to `node` arrives at this rate at most. 0: no limit.
  void LimitBandwidth(const std::string& node, double bytes_per_us);
  // A link error now, seen by both ends soon; `link` is either end's id. False: no such live link.
  bool BreakLink(LinkId link);
  // Breaks one random live link; false if there is none.
  bool BreakRandomLink();

  // When the next thing will be due, for the scheduler to advance the clock to; INT64_MAX: never
  // without a further call. May be past: then somebody has to Poll.
  int64_t NextEventUs() const;

  // How often each fault really happened: "long_delay", "link_error", "flushed_write",
  // "landed_completion_lost", "rnr", "stale_ring_key", "ring_bounds", "partition_stall",
  // "partition_break", "slow_peer", "node_crash", "connect_refused", "connect_timeout",
  // "reordered_across_lanes", "send_queue_full", "rnr_injected", "stale_ring_key_injected",
  // "corrupt_landing". (A fault that never happened has no entry.)
  const std::map<std::string, uint64_t>& counters() const;
  // Changes with everything that was delivered: equal seeds must give equal hashes.
  uint64_t trace_hash() const;

 private:
  friend class SimFabric;
  std::unique_ptr<SimNetworkState> state_;
};

// One node. Destroying it is a crash of the process: nothing is read from its memory nor lands in
// it any more, and its peers find out after a while.
class SimFabric final : public Fabric {
 public:
  // `node` names it for Block() and the like, and stays the same over restarts. `ip` is what Listen
  // and the peers see; several nodes may share one.
  SimFabric(SimNetwork* network, std::string node, std::string ip = "127.0.0.1");
  ~SimFabric() override;
  SimFabric(const SimFabric&) = delete;
  SimFabric& operator=(const SimFabric&) = delete;

  // The process dies now: whatever its parts still ask for while they are taken down has no effect.
  void Crash();

  std::string_view name() const override {
    return "sim";
  }
  const std::string& node() const {
    return node_;
  }
  const std::string& ip() const {
    return ip_;
  }

  [[nodiscard]] absl::StatusOr<std::string> Listen(const std::string& address) override;
  LinkId Connect(const std::string& address) override;
  void Send(LinkId link, std::span<const uint8_t> message) override;
  void OpenLanes(LinkId link, LaneId lane_count) override;
  RingKey RegisterRing(LinkId link, std::span<uint8_t> memory) override;
  void PostReceives(LinkId link, LaneId lane, uint32_t count) override;
  OpResult PostWrite(LinkId link, LaneId lane, RingKey ring, uint64_t offset,
                     std::span<const iovec> pieces, uint32_t immediate, uint64_t wr_id) override;
  void Close(LinkId link, const absl::Status& why) override;
  // Never waits, whatever timeout_us says: time is the scheduler's.
  bool Poll(int64_t timeout_us, FabricHandler* handler) override;
  void Wake() override {
  }

 private:
  SimNetworkState* const state_;
  const std::string node_;
  const std::string ip_;
};

}  // namespace kvstored::sim
