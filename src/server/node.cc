#include "server/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "server/secret_files.h"

namespace kvstored::server {
namespace {

constexpr int64_t kReportPeriodUs = 50'000;
// Chunks kept ready ahead of the shards' needs: this part of max_memory, within bounds.
constexpr uint64_t kFreeChunksPart = 64;
constexpr uint64_t kFreeChunksMax = 4;
constexpr uint64_t kMetaReserveBytes = uint64_t{1} << 20;
constexpr int64_t kDiskFullShownUs = 5'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<Node>> Node::Create(Config config, NodeSeams seams,
                                                   std::string_view boot_id) {
  base::Random random(seams.random_seed);
  KVS_ASSIGN_OR_RETURN(auto identity, Identity::Load(seams.device, config, &random, boot_id));
  seams.random_seed = random.Next();
  KVS_ASSIGN_OR_RETURN(std::string secret,
                       ReadSecretFile("replication.secret_file", config.replication.secret_file,
                                      kSharedSecretBytesMin));
  auto node = std::unique_ptr<Node>(new Node(std::move(config), seams, std::move(identity)));
  NodeCore& core = *node->core_;
  const std::shared_ptr<const Config> now = core.config.Get();
  replication::ReplicationOptions options;
  options.listen_address = absl::StrFormat("%s:%d", now->replication.bind, now->replication.port);
  options.secret = std::move(secret);
  options.shard_count = core.shard_count();
  options.lane_count_max =
      static_cast<uint16_t>(std::min<uint32_t>(now->replication.lanes, core.shard_count()));
  options.lanes = options.lane_count_max;
  options.link_timeout_us = static_cast<int64_t>(now->replication.link_timeout_us);
  options.backlog_bytes =
      std::min<size_t>(options.backlog_bytes, now->memory.max_memory_bytes / 16);
  options.charge = [pool = &core.pool](int64_t bytes) {
    pool->Charge(bytes);
  };
  options.random_seed = core.random.Next();
#ifdef KVS_TEST_SWITCHES
  if (seams.tune_replication) {
    seams.tune_replication(&options);
  }
#endif
  core.replication = std::make_unique<replication::Replication>(
      options, seams.fabric, seams.clock, node->roles_.get(), node->follower_.get(),
      node->source_.get(), [threads = core.threads.get()](ShardId shard) { threads->Wake(shard); });
  KVS_RETURN_IF_ERROR(core.pool.Start());
  node->MakeShards();
  return node;
}

Node::Node(Config config, const NodeSeams& seams, std::unique_ptr<Identity> identity)
    : identity_(std::move(identity)),
      core_(std::make_unique<NodeCore>(std::move(config), seams, identity_.get())),
      roles_(std::make_unique<Roles>(core_.get())),
      follower_(std::make_unique<Follower>(core_.get())),
      source_(std::make_unique<LogSource>(core_.get())),
      checkpoints_(std::make_unique<Checkpoints>(core_.get())),
      loader_(std::make_unique<Loader>(core_.get())),
      start_us_(seams.clock->MonotonicUs()) {
  core_->log_listener = this;
}

Node::~Node() {
  // The engine first: it calls into the follower, the source and the roles.
  core_->replication.reset();
}

void Node::MakeShards() {
  NodeCore* core = core_.get();
  for (ShardId id = 0; id < core->shard_count(); ++id) {
    shard::Shard::Options options;
    options.id = id;
    options.shard_count = core->shard_count();
    options.pool = &core->pool;
    options.digester = &core->digester;
    options.gate = &core->gate;
    // P2: handed to the log, then pushed; the two run side by side from here on.
    shard::ShardThread* const thread = core->threads->thread(core->threads->OwnerOf(id));
    options.submit = [core, thread](record::BatchRef batch) {
      thread->NoteSubmitted();
      core->log()->Submit(batch);
      core->replication->SubmitBatch(std::move(batch));
    };
    options.committed_moved = [core, id](Seq committed) {
      core->log()->NoteCommitted(id, committed);
      // From the epoch's first record on, which is committed before the node is writable.
      if (core->gate.HasRole(Role::kPrimary)) {
        core->replication->SetCommitted(id, committed);
      }
    };
    options.reserve_log = [core](uint64_t bytes) {
      const OpResult reserved = core->log()->Reserve(bytes);
      if (reserved == OpResult::kWait) {
        core->background_event.Set();
      }
      return reserved;
    };
    options.return_log = [core](uint64_t bytes) {
      core->log()->Return(bytes);
    };
    thread->AddShard(std::make_unique<shard::Shard>(std::move(options)));
  }
  for (uint32_t i = 0; i < core->threads->thread_count(); ++i) {
    core->threads->thread(i)->SetSafeSource([core](ShardId shard) {
      // A replica's watermark is what its primary told.
      return core->gate.HasRole(Role::kPrimary) ? core->SafeSeq(shard) : 0;
    });
    if (core->seams.single_threaded) {
      continue;  // the simulator polls the log
    }
    // With several shard threads one round of the log thread serves them all.
    const bool is_only = core->threads->thread_count() == 1;
    core->threads->thread(i)->SetLogRound([core, is_only](bool idle) {
      if (is_only && idle) {
        core->log()->WriteHere();
      } else {
        core->log()->Wake();
      }
    });
  }
}

absl::Status Node::Start() {
  KVS_ASSIGN_OR_RETURN(replication_address_, core_->replication->Start());
  const size_t colon = replication_address_.rfind(':');
  Config next = *core_->config.Get();
  next.replication.port =
      static_cast<uint16_t>(std::strtoul(replication_address_.c_str() + colon + 1, nullptr, 10));
  core_->config.Set(std::move(next));
  return absl::OkStatus();
}

absl::Status Node::Load() {
  if (!identity_->has_data_set()) {
    core_->replication->Post([this] { roles_->Start(nullptr); });
    return absl::OkStatus();
  }
  absl::StatusOr<LoadResult> loaded = loader_->Load();
  if (!loaded.ok() && identity_->MayRejoin(*core_->config.Get(), loaded.status())) {
    KVS_RETURN_IF_ERROR(identity_->SetAsideDataSet(loaded.status()));
    // Memory holds a part of it: the next life begins without.
    core_->restart_wanted.store(true, std::memory_order_release);
    return absl::OkStatus();
  }
  KVS_RETURN_IF_ERROR(loaded.status());
  base::LogInfo(absl::StrFormat("data set loaded: %d records, %d bytes of checkpoint, %d of log",
                                loader_->progress().records(), loaded->items_bytes,
                                loaded->log_bytes));
  auto shared = std::make_shared<LoadResult>(*std::move(loaded));
  core_->replication->Post([this, shared] { roles_->Start(shared.get()); });
  return absl::OkStatus();
}

bool Node::StepReplication(int64_t timeout_us) {
  bool did = core_->replication->Step(timeout_us);
  did = core_->PollOperations() || did;
  roles_->Tick();
  if (core_->now_us() >= next_report_us_) {
    next_report_us_ = core_->now_us() + kReportPeriodUs;
    PublishReport();
  }
  return did;
}

bool Node::StepLog(int64_t timeout_us) {
  log::Log* log = core_->log();
  if (log == nullptr) {
    return false;
  }
  if (log->Step()) {
    return true;
  }
  if (timeout_us > 0) {
    log->WaitForWork(timeout_us);
  }
  return false;
}

bool Node::StepBackground() {
  bool did = false;
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(background_mutex_);
    work.swap(background_);
  }
  for (const auto& one : work) {
    one();
    did = true;
  }
  log::Log* log = core_->log();
  if (log != nullptr) {
    // P25: new segments leave room for meta and for the next checkpoint.
    const auto items = static_cast<uint64_t>(std::max<int64_t>(core_->pool.charged_bytes(), 0));
    log->SetReserveBytes(items + items / 8 + kMetaReserveBytes);
  }
  if (log != nullptr && !log->failed() && log->NeedsSegment()) {
    const absl::Status prepared = log->PrepareSegment();
    if (prepared.ok()) {
      did = true;
      refused_us_ = 0;
    } else if (absl::IsResourceExhausted(prepared)) {
      refused_us_ = core_->now_us();
      core_->gate.disk_full.store(true, std::memory_order_relaxed);
      static base::LogLimiter limiter(10'000'000);
      limiter.Warning(absl::StrFormat("log: %s", std::string(prepared.message())));
    } else {
      OnFailed(prepared);
    }
  }
  // A refusal shows for a while, also if it was of one large command and others go on.
  if (log != nullptr && !log->IsShortOfSegments() &&
      core_->now_us() - refused_us_ > kDiskFullShownUs &&
      core_->gate.disk_full.exchange(false, std::memory_order_relaxed)) {
    log->ForgetDeviceFull();
    base::LogInfo("log: there is room again, writes go on");
  }
  const uint64_t chunks = core_->config.Get()->memory.max_memory_bytes / kChunkBytes;
  const auto ahead =
      static_cast<uint32_t>(std::clamp<uint64_t>(chunks / kFreeChunksPart, 1, kFreeChunksMax));
  did = core_->pool.KeepFree(ahead) > 0 || did;
  return checkpoints_->Step() || did;
}

void Node::OnWritten(ShardId shard, Seq /*last_seq*/) {
  if (!core_->CountsPersisted()) {
    core_->threads->Wake(shard);
  }
}

void Node::OnPersisted(ShardId shard, Seq last_seq) {
  core_->replication->SetLocalPersisted(shard, last_seq);
  if (core_->CountsPersisted()) {
    core_->threads->Wake(shard);
  }
}

void Node::OnFailed(const absl::Status& status) {
  core_->gate.writable.store(false, std::memory_order_release);
  core_->gate.stepped_down.store(true, std::memory_order_release);
  core_->replication->Post([this, status] { roles_->StepDown(status); });
}

void Node::PublishReport() {
  Report report{.replicas = core_->replication->replicas(),
                .follow = core_->replication->follow_status(),
                .members = core_->replication->members(),
                .counters = core_->replication->counters(),
                .state_text = roles_->state_text()};
  const std::lock_guard lock(report_mutex_);
  report_ = std::move(report);
}

Node::Report Node::report() const {
  const std::lock_guard lock(report_mutex_);
  return report_;
}

std::string Node::StateText() const {
  const Report now = report();
  if (now.state_text.empty()) {
    return loader_->progress().Text();  // no role yet
  }
  const bool in_full_sync =
      now.follow.active && now.follow.state == replication::StreamState::kFullSync;
  return now.state_text + (in_full_sync ? ", in full sync" : "");
}

bool Node::ready(std::string* why) const {
  const shard::NodeGate& gate = core_->gate;
  *why = StateText();
  if (gate.stepped_down.load(std::memory_order_relaxed)) {
    return false;
  }
  if (gate.loading.load(std::memory_order_relaxed)) {
    *why = "loading: " + *why;
    return false;
  }
  // Ready all the same: it serves reads, and where clients go that is what counts (a replica's
  // refusal is no news).
  const std::string refused = WritesRefused();
  if (!refused.empty() && gate.HasRole(Role::kPrimary)) {
    *why += "; writes are refused: " + refused;
  }
  return true;
}

void Node::BeginShutdown(bool save, const std::shared_ptr<std::atomic<bool>>& finished) {
  core_->gate.writable.store(false, std::memory_order_release);
  const auto finish = [this, finished] {
    log::Log* log = core_->log();
    if (log != nullptr && !log->failed()) {
      if (const absl::Status closed = log->Close(); !closed.ok()) {
        base::LogError(absl::StrFormat("log: closing: %s", std::string(closed.message())));
      }
    }
    finished->store(true, std::memory_order_release);
  };
  if (save && core_->log() != nullptr && !core_->gate.loading.load(std::memory_order_relaxed)) {
    checkpoints_->Request([finish](const absl::Status&) { finish(); });
    return;
  }
  const std::lock_guard lock(background_mutex_);
  background_.push_back(finish);
}

}  // namespace kvstored::server
