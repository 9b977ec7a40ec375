#include "server/daemon.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "fabric/tcp/tcp_fabric.h"
#include "server/front_probe.h"
#include "server/secret_files.h"

namespace kvstored::server {
namespace {

constexpr int64_t kShardSleepUs = 10'000;
constexpr int64_t kLogSleepUs = 100'000;
constexpr int64_t kReplicationSleepUs = 5'000;
constexpr int64_t kBackgroundSleepUs = 10'000;
constexpr int64_t kWaitStepNs = 50'000'000;

// Of this start of the kernel: a new one means that unsynced pages were lost.
std::string BootId() {
  std::FILE* stream = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  char text[64] = {};
  if (stream != nullptr) {
    (void)!std::fgets(text, sizeof(text), stream);
    std::fclose(stream);
  }
  std::string id(text);
  id.erase(std::remove(id.begin(), id.end(), '\n'), id.end());
  return id;
}

}  // namespace

Daemon::Daemon(Config config, const ConfigSource* source, NvmDevice* device, Notify* notify)
    : config_(std::move(config)), source_(source), device_(device), notify_(notify) {
}

Daemon::~Daemon() = default;

absl::Status Daemon::Start() {
  fabric_ = std::make_unique<fabric::TcpFabric>(fabric::TcpOptions{}, &clock_);
  KVS_ASSIGN_OR_RETURN(node_, Node::Create(config_,
                                           {.clock = &clock_,
                                            .device = device_,
                                            .fabric = fabric_.get(),
                                            .random_seed = base::SystemRandom()},
                                           BootId()));
  front_ = std::make_unique<command::FrontSet>(
      command::FrontSet::Options{.threads = node_->threads(),
                                 .pool = &node_->core()->pool,
                                 .digester = &node_->core()->digester,
                                 .gate = &node_->core()->gate,
                                 .node = node_.get(),
                                 .clock = &clock_});
  KVS_ASSIGN_OR_RETURN(
      const std::string password,
      ReadSecretFile("security.password_file", config_.security.password_file, kPasswordBytesMin));
  front_->settings().SetPassword(password);
  ApplySettings(config_);
  node_->on_config = [this](const Config& config) {
    ApplySettings(config);
  };
  node_->on_shutdown = [this](bool save) {
    shutdown_.store(save ? 1 : 2);
  };
  node_->ask_front = [password](const std::string& address) {
    return AskReplicationAddress(address, password);
  };
  KVS_RETURN_IF_ERROR(node_->Start());
  KVS_ASSIGN_OR_RETURN(listener_, net::Listener::Open(config_.server.bind, config_.server.port));
  node_->SetFrontPort(listener_->port());
  AddMetrics();
  KVS_ASSIGN_OR_RETURN(
      http_, MetricsHttp::Start({.bind = config_.metrics.bind,
                                 .port = config_.metrics.port,
                                 .registry = &registry_,
                                 .healthz = [] { return Health{.ok = true, .text = "alive"}; },
                                 .readyz =
                                     [this] {
                                       Health health;
                                       health.ok = node_->ready(&health.text);
                                       return health;
                                     }}));
  listener_->Start(node_->threads()->thread(0)->poller(), front_.get());
  base::LogInfo(absl::StrFormat(
      "kvstored %s: front %s:%d, replication %s (%s), metrics %s:%d, data %s (%s), %d shards on %d "
      "threads",
      KVS_VERSION, config_.server.bind, listener_->port(), node_->replication_address(),
      std::string(fabric_->name()), config_.metrics.bind, http_->port(), device_->Describe(),
      device_->kind() == NvmKind::kDisk ? "disk" : "pmem", node_->threads()->shard_count(),
      node_->threads()->thread_count()));
  return absl::OkStatus();
}

void Daemon::ApplySettings(const Config& config) {
  command::FrontSettings& settings = front_->settings();
  settings.gate_timeout_us.store(static_cast<int64_t>(config.replication.gate_timeout_us));
  settings.clients_max.store(config.server.maxclients);
  settings.client_bytes_max.store(ClientMemoryBytes(config));
  front_->tracking().keys_max.store(config.server.tracking_table_max_keys);
  settings.idle_timeout_us.store(static_cast<int64_t>(config.server.timeout_us));
  base::SetLogLevel(config.server.log_level);
  const auto limit = [](uint64_t us, uint64_t off) {
    return us == off ? command::FrontSettings::kNever : static_cast<int64_t>(us);
  };
  settings.slowlog_us.store(limit(config.latency.slowlog_threshold_us, UINT64_MAX));
  settings.latency_event_us.store(limit(config.latency.monitor_threshold_us, 0));
  settings.latency_tracking.store(config.latency.tracking == "yes");
  std::vector<double> percentiles;
  KVS_CHECK(ParsePercentiles(config.latency.percentiles, &percentiles), "%s",
            config.latency.percentiles.c_str());
  settings.SetPercentiles(std::move(percentiles));
  settings.slowlog_entries_max.store(config.latency.slowlog_max_len);
  front_->slow_log().Trim(config.latency.slowlog_max_len);
  settings.debug_access.store(config.security.debug_command == "yes" ? command::DebugAccess::kYes
                              : config.security.debug_command == "local"
                                  ? command::DebugAccess::kLocal
                                  : command::DebugAccess::kNo);
}

void Daemon::StartThreads() {
  shard::ThreadSet* set = node_->threads();
  for (uint32_t i = 0; i < set->thread_count(); ++i) {
    threads_.push_back(std::make_unique<base::LoopThread>(
        absl::StrFormat("shard-%d", i),
        [thread = set->thread(i)] { thread->Tick(kShardSleepUs); }));
  }
  threads_.push_back(std::make_unique<base::LoopThread>("log", [this] {
    if (node_->core()->log() == nullptr) {
      node_->core()->log_event.Wait(kLogSleepUs);
      return;
    }
    node_->StepLog(kLogSleepUs);
  }));
  threads_.push_back(std::make_unique<base::LoopThread>(
      "replication", [this] { node_->StepReplication(kReplicationSleepUs); }));
  threads_.push_back(std::make_unique<base::LoopThread>("background", [this] {
    if (!node_->StepBackground()) {
      node_->core()->background_event.Wait(kBackgroundSleepUs);
    }
  }));
}

void Daemon::StopThreads() {
  NodeCore* core = node_->core();
  const auto wake_all = [core] {
    core->threads->WakeAll();
    core->replication->Wake();
    core->background_event.Set();
    core->log_event.Set();
    if (core->log() != nullptr) {
      core->log()->Wake();
    }
  };
  for (auto& thread : threads_) {
    thread->Stop(wake_all);
  }
  threads_.clear();
}

void Daemon::LoadInBackground() {
  loader_ = std::thread([this] {
    load_status_ = node_->Load();
    node_->core()->log_event.Set();
    loaded_.store(true, std::memory_order_release);  // partner: Wait
  });
}

void Daemon::Shutdown(bool save) {
  notify_->Stopping("persisting");
  base::LogInfo("stopping: no more writes, what was written is made persistent");
  auto finished = std::make_shared<std::atomic<bool>>(false);
  node_->BeginShutdown(save, finished);
  const int64_t deadline_us = clock_.MonotonicUs() + 60'000'000;
  while (!finished->load(std::memory_order_acquire) && clock_.MonotonicUs() < deadline_us) {
    const timespec step{.tv_sec = 0, .tv_nsec = 2'000'000};
    ::nanosleep(&step, nullptr);
  }
}

void Daemon::Reload() {
  if (!source_->read) {
    base::LogWarning("SIGHUP: there is no configuration file to read again; give --config");
    return;
  }
  const absl::StatusOr<Config> read = source_->read();
  if (!read.ok()) {
    base::LogError(
        absl::StrFormat("SIGHUP: nothing is changed: %s", std::string(read.status().message())));
    return;
  }
  const ConfigChanges changes = CompareConfig(source_->at_start, *node_->config(), *read);
  if (!changes.to_set.empty()) {
    if (const absl::Status set = node_->ConfigSet(changes.to_set); !set.ok()) {
      base::LogError(absl::StrFormat("SIGHUP: nothing is changed: %s", std::string(set.message())));
      return;
    }
  }
  std::string now;
  for (const auto& [name, value] : changes.to_set) {
    now += absl::StrFormat("%s %s = %s", now.empty() ? ":" : ",", name, value);
  }
  base::LogInfo(absl::StrFormat("SIGHUP: the configuration was read again; %d keys changed%s",
                                changes.to_set.size(), now));
  std::string waiting;
  for (const std::string& name : changes.not_taken) {
    waiting += (waiting.empty() ? "" : ", ") + name;
  }
  if (!waiting.empty()) {
    base::LogWarning(absl::StrFormat(
        "SIGHUP: changed in the file, but not to be taken over while the node runs: %s", waiting));
  }
}

DaemonEnd Daemon::Wait(const sigset_t& signals, absl::Status* error) {
  int64_t next_watchdog_us = 0;
  while (true) {
    const timespec step{.tv_sec = 0, .tv_nsec = kWaitStepNs};
    const int signal = ::sigtimedwait(&signals, nullptr, &step);
    if (signal == SIGTERM || signal == SIGINT) {
      Shutdown(false);
      return DaemonEnd::kStop;
    }
    if (signal == SIGHUP) {
      Reload();
    }
    if (const int how = shutdown_.load(); how != 0) {
      Shutdown(how == 1);
      return DaemonEnd::kStop;
    }
    if (node_->restart_wanted()) {
      Shutdown(false);
      return DaemonEnd::kRestart;
    }
    if (loaded_.load(std::memory_order_acquire) && !load_status_.ok()) {
      *error = load_status_;
      return DaemonEnd::kFailed;
    }
    std::string why;
    if (!told_ready_ && node_->ready(&why)) {
      told_ready_ = true;
      notify_->Ready(why);
    } else if (!told_ready_) {
      notify_->ExtendTimeout(10'000'000, why);
    }
    if (notify_->watchdog_period_us() > 0 && clock_.MonotonicUs() >= next_watchdog_us) {
      next_watchdog_us = clock_.MonotonicUs() + notify_->watchdog_period_us() / 2;
      notify_->Watchdog();
    }
  }
}

DaemonEnd Daemon::Run(const sigset_t& signals, absl::Status* error) {
  *error = Start();
  if (!error->ok()) {
    return DaemonEnd::kFailed;
  }
  StartThreads();
  LoadInBackground();
  const DaemonEnd end = Wait(signals, error);
  loader_.join();
  // Clients first: their sessions refer to the shards.
  front_->CloseAll();
  StopThreads();
  http_.reset();
  listener_->Stop();
  listener_.reset();
  front_.reset();
  config_ = *node_->config();
  node_.reset();
  fabric_.reset();
  return end;
}

}  // namespace kvstored::server
