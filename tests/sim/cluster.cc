#include "tests/sim/cluster.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "command/session.h"

namespace kvstored::sim {
namespace {

constexpr uint16_t kReplicationPort = 7000;
constexpr uint16_t kFrontPort = 6000;

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options),
      random_(options.seed),
      clock_(1'700'000'000'000'000),
      network_(std::make_unique<SimNetwork>(random_.Next(), &clock_)) {
  for (uint32_t& weight : step_weights_) {
    weight = 1 + static_cast<uint32_t>(random_.Below(6));
  }
  for (uint32_t i = 0; i <= options.replicas; ++i) {
    nodes_.push_back(std::make_unique<SimNode>("node" + std::to_string(i), i, random_.Next()));
  }
  for (auto& node : nodes_) {
    node->follow_at_birth = node->index == 0 ? "" : nodes_[0]->address();
    Start(node.get());
  }
}

Cluster::~Cluster() {
  for (auto& node : nodes_) {
    Drop(node.get());
  }
}

server::Config Cluster::MakeConfig(const SimNode& node) const {
  server::Config config = server::DefaultConfig();
  config.server.port = static_cast<uint16_t>(kFrontPort + node.index);
  config.server.threads = options_.threads;
  config.server.shards = options_.shards;
  config.memory.pool_size_bytes = uint64_t{2} << 20;
  config.memory.max_memory_bytes = uint64_t{128} << 20;
  config.log.sync = options_.sync;
  config.log.interval_us = 20'000;
  config.log.segment_size_bytes = options_.segment_bytes;
  config.log.retain_bytes = options_.retain_bytes;
  config.log.checkpoint_interval_us = 0;
  config.log.checkpoint_log_size_bytes = 4 * options_.segment_bytes;
  config.replication.port = static_cast<uint16_t>(kReplicationPort + node.index);
  config.replication.primary = node.follow_at_birth;
  config.replication.ack = options_.ack;
  config.replication.ack_replicas = options_.ack_replicas;
  config.replication.commit_timeout_us = 300'000;
  config.replication.gate_timeout_us = 1'500'000;
  config.replication.link_timeout_us = 600'000;
  config.replication.lanes = 2;
  config.recovery.on_damage = options_.rejoin_on_damage ? "rejoin" : "refuse";
  return config;
}

absl::Status Cluster::TryStart(SimNode* node) {
  node->fabric = std::make_unique<SimFabric>(network_.get(), node->name);
  server::NodeSeams seams{.clock = &clock_,
                          .device = node->device.get(),
                          .fabric = node->fabric.get(),
                          .random_seed = random_.Next(),
                          .single_threaded = true};
#ifdef KVS_TEST_SWITCHES
  seams.plant_ack_before_persist = options_.plants.ack_before_persist;
  seams.plant_half_transaction = options_.plants.half_transaction;
  seams.tune_replication = [this](replication::ReplicationOptions* tuned) {
    tuned->ring_bytes = options_.ring_bytes;
    tuned->lane_credits = options_.lane_credits;
    tuned->backlog_bytes = size_t{256} << 10;
    tuned->slice_bytes = size_t{128} << 10;
    tuned->reconnect_max_us = 400'000;
    tuned->plant_no_checksum_check = options_.plants.no_checksum_check;
    tuned->plant_credit_off_by_one = options_.plants.credit_off_by_one;
    tuned->plant_no_epoch_check = options_.plants.no_epoch_check;
  };
#endif
  server::Config config = MakeConfig(*node);
  KVS_ASSIGN_OR_RETURN(node->node,
                       server::Node::Create(config, seams, "boot" + std::to_string(node->boot)));
  node->front = std::make_unique<command::FrontSet>(
      command::FrontSet::Options{.threads = node->node->threads(),
                                 .pool = &node->node->core()->pool,
                                 .digester = &node->node->core()->digester,
                                 .gate = &node->node->core()->gate,
                                 .node = node->node.get(),
                                 .clock = &clock_});
  node->front->settings().gate_timeout_us.store(
      static_cast<int64_t>(config.replication.gate_timeout_us));
  KVS_RETURN_IF_ERROR(node->node->Start());
  return node->node->Load();
}

void Cluster::Start(SimNode* node) {
  ++node->life;
  node->committed_seen.assign(options_.shards, 0);
  const absl::Status started = TryStart(node);
  Trace(node->index * 16 + (started.ok() ? 1 : 2));
  if (started.ok()) {
    NoteSetAside(node);
    return;
  }
  base::LogInfo(node->name + ": start refused: " + std::string(started.message()));
  Drop(node);
  if (node->device->crashed()) {
    // The power went again while it started.
    node->device->PowerCut();
    ++node->boot;
    node->restart_at_us = clock_.now_us() + random_.Between(0, 100'000);
    return;
  }
  if (!node->may_refuse_start) {
    if (absl::IsResourceExhausted(started) || node->device->counters().io_errors > 0) {
      node->restart_at_us = clock_.now_us() + 50'000;  // a full or failing device: again later
      Count("start_retried");
      return;
    }
    Fail(node->name + " does not start: " + std::string(started.message()));
    return;
  }
  Count("start_refused_damage");
  node->refused = true;
}

// A damaged data set was given up, and the right to be promoted with it: what the operator had to
// know of the damage is over. Nothing but damage may be the reason.
void Cluster::NoteSetAside(SimNode* node) {
  const absl::StatusOr<std::vector<std::string>> names = node->device->List("");
  if (!names.ok()) {
    return;  // the power goes again
  }
  const auto kept = std::count_if(names->begin(), names->end(), [](const std::string& name) {
    return name.find(".damaged-") != std::string::npos;
  });
  if (kept == node->set_aside_count) {
    return;
  }
  node->set_aside_count = kept;
  Count("set_aside_damage");
  if (!node->may_refuse_start || node->node->core()->identity->has_data_set() ||
      node->meta().promotable) {
    Fail(node->name + " set a data set aside that was not damaged, or not wholly");
  }
  node->may_refuse_start = false;
  node->must_not_promote = false;
}

// What lives in the process goes; no destructor may reach the device as if the process still ran.
void Cluster::Drop(SimNode* node) {
  for (const auto& connection : node->connections) {
    connection->NodeGone();
  }
  node->connections.clear();
  node->connection_threads.clear();
  node->stopping = nullptr;
  if (node->fabric) {
    node->fabric->Crash();
  }
  node->front.reset();
  node->node.reset();
  node->fabric.reset();
}

void Cluster::Crash(SimNode* node, bool power_cut, int64_t down_us) {
  Trace(0x1000 + node->index * 2 + (power_cut ? 1 : 0));
  if (!node->device->crashed()) {
    node->device->CrashAfter(0);
  }
  Drop(node);
  if (power_cut) {
    node->device->PowerCut();
    ++node->boot;
  } else {
    node->device->ProcessCrash();
  }
  node->paused_until_us = 0;
  node->restart_at_us = clock_.now_us() + down_us;
}

void Cluster::Wipe(SimNode* node) {
  Crash(node, true, random_.Between(1000, 100'000));
  node->device = std::make_unique<SimNvmDevice>(random_.Next());
  node->follow_at_birth = nodes_[believed_primary_]->address();
  node->may_refuse_start = false;
  node->set_aside_count = 0;
  node->refused = false;
  node->must_not_promote = false;
  node->left_out = false;
}

void Cluster::Control(SimNode* node, std::vector<std::string> words,
                      std::function<void(bool ok)> done) {
  if (!node->is_up()) {
    return;
  }
  std::string text = node->name + ":";
  for (const std::string& word : words) {
    text += " " + word;
  }
  base::LogInfo("operator: " + text);
  const std::string verb = words[0];
  node->node->Control(
      std::move(words), [this, text, verb, done](absl::StatusOr<std::string> answer) {
        base::LogInfo("operator: " + text + " -> " +
                      (answer.ok() ? std::string("OK") : std::string(answer.status().message())));
        Trace(answer.ok() ? 3 : 4);
        Count("control_" + verb + (answer.ok() ? "_done" : "_refused"));
        if (done) {
          done(answer.ok());
        }
      });
}

std::shared_ptr<SimConnection> Cluster::Connect(uint32_t node_index) {
  SimNode* node = nodes_[node_index].get();
  if (!node->is_up() || node->stopping) {
    return nullptr;
  }
  const auto thread = static_cast<uint32_t>(random_.Below(node->front->thread_count()));
  auto connection = std::make_shared<SimConnection>(
      random_.Next(), "127.0.0.1:" + std::to_string(30'000 + random_.Below(30'000)));
  command::FrontThread* front = &node->front->thread(thread);
  node->node->threads()->RunOn(thread, [connection, front] {
    if (!connection->closed()) {
      command::Session* session = front->AddSession();
      connection->Attach(session);
      session->Attach(connection.get());
    }
  });
  node->connections.push_back(connection);
  node->connection_threads.push_back(thread);
  return connection;
}

bool Cluster::IsCurrent(uint32_t node_index) const {
  const SimNode& node = *nodes_[node_index];
  return node.is_up() && newest_epoch_ != 0 && node.epoch() == newest_epoch_ &&
         node.node->core()->gate.HasRole(Role::kPrimary);
}

void Cluster::DeliverToSessions(SimNode* node) {
  for (size_t i = 0; i < node->connections.size();) {
    const std::shared_ptr<SimConnection> connection = node->connections[i];
    if (connection->closed()) {
      node->connections[i] = node->connections.back();
      node->connection_threads[i] = node->connection_threads.back();
      node->connections.pop_back();
      node->connection_threads.pop_back();
      continue;
    }
    if (connection->WantsDelivery() && random_.Below(4) != 0) {
      connection->NoteDeliveryPosted();
      node->node->threads()->RunOn(node->connection_threads[i],
                                   [connection] { connection->Deliver(); });
    }
    ++i;
  }
}

bool Cluster::StepNode(SimNode* node) {
  uint64_t total = 0;
  for (const uint32_t weight : step_weights_) {
    total += weight;
  }
  uint64_t pick = random_.Below(total);
  uint32_t kind = 0;
  while (pick >= step_weights_[kind]) {
    pick -= step_weights_[kind++];
  }
  bool did = false;
  switch (kind) {
    case 0: {
      DeliverToSessions(node);
      shard::ThreadSet* threads = node->node->threads();
      did = threads->thread(static_cast<uint32_t>(random_.Below(threads->thread_count())))->Tick(0);
      break;
    }
    case 1:
      did = node->node->StepLog(0);
      break;
    case 2:
      did = node->node->StepReplication(0);
      break;
    default:
      did = node->node->StepBackground();
      break;
  }
  Trace(node->index * 64 + kind * 2 + (did ? 1 : 0));
  return did;
}

// What a machine and its service manager do by themselves.
void Cluster::LookAfter(SimNode* node) {
  if (node->device->crashed()) {
    Count("power_cut_in_call");
    Crash(node, true, random_.Between(0, 200'000));
    return;
  }
  if (node->node->restart_wanted() && !node->stopping) {
    Count("restart_wanted");
    node->stopping = std::make_shared<std::atomic<bool>>(false);
    node->node->BeginShutdown(false, node->stopping);
  }
  if (node->stopping && node->stopping->load()) {
    Crash(node, false, 0);
  }
}

void Cluster::AdvanceIdle() {
  idle_ = 0;
  const int64_t now_us = clock_.now_us();
  int64_t to_us = now_us + random_.Between(100, 8'000);
  to_us = std::min(to_us, std::max(network_->NextEventUs(), now_us + 1));
  clock_.AdvanceTo(to_us);
}

void Cluster::Step() {
  SimNode* node = nodes_[random_.Below(nodes_.size())].get();
  clock_.Advance(static_cast<int64_t>(random_.Below(6)));
  bool did = false;
  if (!node->is_up()) {
    if (!node->refused && clock_.now_us() >= node->restart_at_us) {
      Start(node);
      did = true;
    }
  } else if (clock_.now_us() >= node->paused_until_us) {
    did = StepNode(node);
    CheckInvariants(node);
    LookAfter(node);
  }
  idle_ = did ? 0 : idle_ + 1;
  if (idle_ > 10 * nodes_.size()) {
    AdvanceIdle();
  }
}

std::map<std::string, uint64_t> Cluster::Counters() const {
  std::map<std::string, uint64_t> all = counters_;
  for (const auto& [name, count] : network_->counters()) {
    all["net_" + name] += count;
  }
  for (const auto& node : nodes_) {
    const SimNvmCounters nvm = node->device->counters();
    all["nvm_power_cut"] += nvm.power_cuts;
    all["nvm_lost_write"] += nvm.lost_writes;
    all["nvm_torn_write"] += nvm.torn_writes;
    all["nvm_kept_write"] += nvm.kept_writes;
    all["nvm_io_error"] += nvm.io_errors;
    all["nvm_no_space"] += nvm.no_space_errors;
    all["nvm_flipped_bit"] += nvm.flipped_bits;
  }
  return all;
}

uint64_t Cluster::trace_hash() const {
  return trace_hash_ ^ network_->trace_hash();
}

}  // namespace kvstored::sim
