// Node: one kvstored, without its front and its threads: it can be run by real threads
// (server/daemon) or stepped by the simulator. Wires log, replication, shards and roles together.
//
// A node whose restart_wanted() turns true has persisted a change of role or data set that goes
// through start-up: whoever runs it destroys it and makes a new one on the same device.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command/node_api.h"
#include "log/log.h"
#include "server/checkpoints.h"
#include "server/control_request.h"
#include "server/follower.h"
#include "server/loader.h"
#include "server/log_source.h"
#include "server/node_core.h"
#include "server/roles.h"

namespace kvstored::server {

class Node : public command::NodeApi, private log::LogListener {
 public:
  // Reads or makes the identity on the device. Errors name cause and remedy.
  static absl::StatusOr<std::unique_ptr<Node>> Create(Config config, NodeSeams seams,
                                                      std::string_view boot_id);
  // All threads that step it have stopped.
  ~Node() override;

  // Listens for replication. Before the threads run.
  absl::Status Start();
  // Loads the data set and takes up the role. Blocks; the shard threads must run meanwhile (not if
  // single_threaded). Any thread.
  absl::Status Load();
  // The port that clients reach it by, once it is bound.
  void SetFrontPort(uint16_t port) {
    Config next = *core_->config.Get();
    next.server.port = port;
    core_->config.Set(std::move(next));
  }

  // --- Steps: each by one thread, or all by the simulator. Return whether anything was done. ---
  bool StepReplication(int64_t timeout_us);
  bool StepLog(int64_t timeout_us);
  // Segments ahead, pool chunks ahead, checkpoints.
  bool StepBackground();

  // Orderly end: no more writes, everything persisted, a checkpoint unless nosave. The threads
  // still run; poll the flag.
  void BeginShutdown(bool save, const std::shared_ptr<std::atomic<bool>>& finished);

  shard::ThreadSet* threads() {
    return core_->threads.get();
  }
  NodeCore* core() {
    return core_.get();
  }
  std::shared_ptr<const Config> config() const {
    return core_->config.Get();
  }
  bool restart_wanted() const {
    return core_->restart_wanted.load(std::memory_order_acquire);
  }
  const std::string& replication_address() const {
    return replication_address_;
  }
  // Set by the daemon: what SHUTDOWN and SIGTERM do; CONFIG SET's effects outside the node.
  std::function<void(bool save)> on_shutdown;
  std::function<void(const Config& config)> on_config;
  // Asks a front port for its node's replication address (REPLICAOF); blocking, on the background
  // thread.
  std::function<absl::StatusOr<std::string>(const std::string& front_address)> ask_front;

  // May it serve? And the text that says what it is, or why not (readyz, systemd).
  bool ready(std::string* why) const;
  // Empty: a write of usual size would be accepted now. Otherwise why not, with the error's code.
  // Any thread.
  std::string WritesRefused() const;

  // --- command::NodeApi (any thread) ---
  std::string InfoSection(std::string_view section) override;
  std::vector<std::pair<std::string, std::string>> ConfigGet(std::string_view pattern) override;
  absl::Status ConfigSet(const std::vector<std::pair<std::string, std::string>>& pairs) override;
  void ConfigSet(std::vector<std::pair<std::string, std::string>> pairs,
                 std::function<void(const absl::Status&)> done) override;
  RoleFacts RoleNow() override;
  MemoryFacts MemoryNow() override;
  uint32_t ReplicasAt(const std::vector<std::pair<ShardId, Seq>>& positions,
                      bool persisted) override;
  bool LocallyPersisted(const std::vector<std::pair<ShardId, Seq>>& positions) override;
  void Control(std::vector<std::string> words,
               std::function<void(absl::StatusOr<std::string>)> done) override;
  int64_t LastSaveUnixSeconds() override {
    return checkpoints_->last_save_unix_s();
  }

  // What the replication thread tells of itself, copied a few times a second for all other threads.
  struct Report {
    std::vector<replication::ReplicaStatus> replicas;
    replication::FollowStatus follow;
    replication::MemberSet members;
    replication::ReplicationCounters counters;
    std::string state_text;
  };
  Report report() const;
  // What the node is or does, for people; never empty. Any thread.
  std::string StateText() const;
  std::string StatusJson();
  std::string MembersJson();
  const Checkpoints& checkpoints() const {
    return *checkpoints_;
  }

 private:
  using ControlDone = std::function<void(absl::StatusOr<std::string>)>;

  Node(Config config, const NodeSeams& seams, std::unique_ptr<Identity> identity);
  void MakeShards();
  void OnWritten(ShardId shard, Seq last_seq) override;
  void OnPersisted(ShardId shard, Seq last_seq) override;
  void OnFailed(const absl::Status& status) override;
  void PublishReport();
  void ControlOnReplication(const ControlRequest& request, const ControlDone& done);
  void ControlMembers(const ControlRequest& request, const ControlDone& done);
  void ControlReplicaOf(const ControlRequest& request, const ControlDone& done);
  // The configuration with `pairs` set, checked, not in force yet.
  absl::StatusOr<Config> PlanConfig(const std::vector<std::pair<std::string, std::string>>& pairs,
                                    std::vector<std::string>* changed) const;
  void ApplyConfig(const Config& next, const std::vector<std::string>& changed);
  std::string InfoServer();
  std::string InfoMemory();
  std::string InfoPersistence();
  std::string InfoStats();
  std::string InfoReplication();
  std::string InfoCpu();
  Id128 FindStore(const std::string& name) const;

  std::unique_ptr<Identity> identity_;
  std::unique_ptr<NodeCore> core_;
  std::unique_ptr<Roles> roles_;
  std::unique_ptr<Follower> follower_;
  std::unique_ptr<LogSource> source_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::unique_ptr<Loader> loader_;
  std::string replication_address_;
  int64_t next_report_us_ = 0;
  const int64_t start_us_;

  mutable std::mutex report_mutex_;
  Report report_;
  std::mutex config_mutex_;  // one CONFIG SET at a time
  std::mutex background_mutex_;
  int64_t refused_us_ = 0;  // background thread: when the log last had no room for something
  std::vector<std::function<void()>> background_;
};

}  // namespace kvstored::server
