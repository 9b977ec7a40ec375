// Daemon: one life of a node with real threads, sockets and signals. main makes another one when
// the node wants to start again.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/system_clock.h"
#include "base/thread.h"
#include "command/front_thread.h"
#include "kvstored/fabric.h"
#include "metrics/registry.h"
#include "net/listener.h"
#include "server/metrics_http.h"
#include "server/node.h"
#include "server/notify.h"

namespace kvstored::server {

enum class DaemonEnd { kStop, kRestart, kFailed };

// Where the configuration comes from, for SIGHUP.
struct ConfigSource {
  // Reads, checks and resolves it as at the start of the process. Empty: there is no file.
  std::function<absl::StatusOr<Config>()> read;
  // What it was then: CONFIG SET and free ports change the running one.
  Config at_start;
};

class Daemon {
 public:
  Daemon(Config config, const ConfigSource* source, NvmDevice* device, Notify* notify);
  ~Daemon();

  // Runs until a signal of `signals` (blocked in every thread), SHUTDOWN, or a wanted restart.
  // `error` tells why it failed.
  DaemonEnd Run(const sigset_t& signals, absl::Status* error);
  // After Run(): with what CONFIG SET changed, for the next one.
  const Config& config() const {
    return config_;
  }

 private:
  absl::Status Start();
  void StartThreads();
  void StopThreads();
  void LoadInBackground();
  // Waits for signals and events; returns how to end.
  DaemonEnd Wait(const sigset_t& signals, absl::Status* error);
  void Shutdown(bool save);
  // SIGHUP: takes over what can be changed while the node runs, names what cannot.
  void Reload();
  void ApplySettings(const Config& config);
  void AddMetrics();
  void CollectNode(metrics::Collection* out) const;
  void CollectStalls(metrics::Collection* out) const;
  void CollectLog(metrics::Collection* out) const;
  void CollectReplication(metrics::Collection* out) const;

  Config config_;
  const ConfigSource* const source_;
  NvmDevice* const device_;
  Notify* const notify_;
  base::SystemClock clock_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<command::FrontSet> front_;
  std::unique_ptr<net::Listener> listener_;
  metrics::Registry registry_;
  std::unique_ptr<MetricsHttp> http_;
  std::vector<std::unique_ptr<base::LoopThread>> threads_;
  std::thread loader_;
  std::atomic<bool> loaded_{false};
  absl::Status load_status_;
  std::atomic<int> shutdown_{0};  // 1: with a checkpoint, 2: without
  bool told_ready_ = false;
};

}  // namespace kvstored::server
