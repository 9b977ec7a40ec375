// A whole cluster in one thread: nodes made of the server's own parts on simulated device, fabric
// and clock. Which step of which node runs next, and how far the clock moves, is decided by one
// seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "command/front_thread.h"
#include "server/node.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_connection.h"
#include "tests/sim/sim_fabric.h"
#include "tests/sim/sim_nvm.h"
#include "tests/sim/sim_random.h"

namespace kvstored::sim {

// Bugs that can be built in, to see that they are found.
struct Plants {
  bool ack_before_persist = false;
  bool no_checksum_check = false;
  bool credit_off_by_one = false;
  bool no_epoch_check = false;
  bool half_transaction = false;
};

struct ClusterOptions {
  uint64_t seed = 0;
  uint32_t replicas = 1;
  uint32_t shards = 1;
  uint32_t threads = 1;
  AckLevel ack = AckLevel::kPersisted;
  uint32_t ack_replicas = 1;
  LogSync sync = LogSync::kAlways;
  uint64_t segment_bytes = uint64_t{1} << 20;
  uint64_t retain_bytes = uint64_t{1} << 20;
  size_t ring_bytes = size_t{256} << 10;
  uint32_t lane_credits = 16;
  bool rejoin_on_damage = false;
  Plants plants;
};

// One machine: its device outlives the processes on it.
struct SimNode {
  SimNode(std::string node_name, uint32_t node_index, uint64_t device_seed)
      : name(std::move(node_name)),
        index(node_index),
        device(std::make_unique<SimNvmDevice>(device_seed)) {
  }
  const std::string name;
  const uint32_t index;
  std::unique_ptr<SimNvmDevice> device;
  std::unique_ptr<SimFabric> fabric;
  std::unique_ptr<server::Node> node;
  std::unique_ptr<command::FrontSet> front;
  uint64_t life = 0;              // counts starts of the process
  uint64_t boot = 1;              // counts starts of the machine
  int64_t restart_at_us = 0;      // while the process is down
  int64_t paused_until_us = 0;    // SIGSTOP
  bool may_refuse_start = false;  // its data were damaged: a refusal is the right answer
  bool refused = false;           // it did refuse
  int64_t set_aside_count = 0;    // damaged data sets that it keeps
  std::string follow_at_birth;    // replication.primary of its configuration
  uint64_t promoting_life = 0;
  uint32_t promoting = 0;         // requests whose outcome the operator does not know yet
  bool must_not_promote = false;  // the operator was told so
  bool left_out = false;          // another one was promoted, and this one has not followed it yet
  std::shared_ptr<std::atomic<bool>> stopping;
  std::vector<Seq> committed_seen;  // per shard, in this life of the process
  std::vector<std::shared_ptr<SimConnection>> connections;  // until they are closed
  std::vector<uint32_t> connection_threads;

  bool is_up() const {
    return node != nullptr;
  }
  std::string address() const {
    return "127.0.0.1:" + std::to_string(7000 + index);
  }
  log::Meta meta() const {
    return node->core()->identity->meta();
  }
  bool serves_writes() const {
    return node != nullptr && node->core()->gate.writable.load();
  }
  uint32_t epoch() const {
    return node->core()->gate.epoch.load();
  }
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  // One step of something, or a move of the clock.
  void Step();

  // --- Faults and the operator's hand. ---
  void Crash(SimNode* node, bool power_cut, int64_t down_us);
  // A machine with an empty disk takes its place.
  void Wipe(SimNode* node);
  // What the operator types; the answer is only traced.
  void Control(SimNode* node, std::vector<std::string> words,
               std::function<void(bool ok)> done = nullptr);

  // --- Clients. ---
  // Null: the node is down.
  std::shared_ptr<SimConnection> Connect(uint32_t node_index);
  // The node that clients are sent to: the primary of the newest epoch that was ever open, if it is
  // up, otherwise any.
  uint32_t BelievedPrimary() const {
    return believed_primary_;
  }
  // Does the node serve the newest epoch, so that what it shows must be fresh?
  bool IsCurrent(uint32_t node_index) const;

  // All nodes up, one primary that serves, the others stream and are equal to it. `why` tells what
  // is missing (cluster_checks.cc).
  bool Converged(std::string* why);

  SimNode& node(uint32_t index) {
    return *nodes_[index];
  }
  uint32_t node_count() const {
    return static_cast<uint32_t>(nodes_.size());
  }
  SimClock& clock() {
    return clock_;
  }
  SimNetwork& network() {
    return *network_;
  }
  SimRandom& random() {
    return random_;
  }
  const ClusterOptions& options() const {
    return options_;
  }
  void Count(const std::string& what) {
    ++counters_[what];
  }
  std::map<std::string, uint64_t> Counters() const;
  void Trace(uint64_t value) {
    trace_hash_ = (trace_hash_ ^ value) * 0x100000001b3 + 0x9e37;
  }
  uint64_t trace_hash() const;
  const std::string& error() const {
    return error_;
  }
  void Fail(const std::string& text) {
    if (error_.empty()) {
      error_ = text;
    }
  }

 private:
  server::Config MakeConfig(const SimNode& node) const;
  void Start(SimNode* node);
  absl::Status TryStart(SimNode* node);
  void Drop(SimNode* node);
  bool StepNode(SimNode* node);
  void DeliverToSessions(SimNode* node);
  void LookAfter(SimNode* node);
  void NoteSetAside(SimNode* node);
  void CheckInvariants(SimNode* node);
  void AdvanceIdle();
  bool Equal(SimNode* primary, SimNode* replica, std::string* why);

  const ClusterOptions options_;
  SimRandom random_;
  SimClock clock_;
  std::unique_ptr<SimNetwork> network_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::map<std::string, uint64_t> counters_;
  uint64_t trace_hash_ = 1;
  uint32_t idle_ = 0;
  uint32_t believed_primary_ = 0;
  uint32_t newest_epoch_ = 0;
  uint32_t step_weights_[4];
  std::string error_;
};

}  // namespace kvstored::sim
