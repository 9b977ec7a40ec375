// kvstored: a replicated in-memory key-value server.
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <optional>

#include <CLI/CLI.hpp>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "nvm/disk/disk_device.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/notify.h"

namespace kvstored::server {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "kvstored: %s\n", std::string(status.message()).c_str());
  return 1;
}

int Serve(const ConfigSource& source) {
  // Signals are taken by the main thread alone; blocked before any other thread exists.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  Config config = source.at_start;
  absl::StatusOr<std::unique_ptr<NvmDevice>> device = nvm::OpenDiskDevice(config.server.data_dir);
  if (!device.ok()) {
    return Fail(device.status());
  }
  absl::StatusOr<std::unique_ptr<nvm::DirectoryLock>> lock =
      nvm::DirectoryLock::Acquire(config.server.data_dir);
  if (!lock.ok()) {
    return Fail(lock.status());
  }
  Notify notify = Notify::FromEnvironment();
  while (true) {
    Daemon daemon(config, &source, device->get(), &notify);
    absl::Status error;
    switch (daemon.Run(signals, &error)) {
      case DaemonEnd::kStop:
        base::LogInfo("stopped");
        return 0;
      case DaemonEnd::kRestart:
        base::LogInfo("starting again with what was decided");
        config = daemon.config();
        break;
      case DaemonEnd::kFailed:
        base::LogError(std::string(error.message()));
        return Fail(error);
    }
  }
}

absl::StatusOr<Config> ReadConfig(const std::string& file, const std::vector<std::string>& sets) {
  KVS_ASSIGN_OR_RETURN(Config config, LoadConfig(file, sets));
  KVS_RETURN_IF_ERROR(ResolveConfig(ThisMachine(), &config));
  return config;
}

int Main(int argc, char** argv) {
  CLI::App app("kvstored: a replicated in-memory key-value server that speaks the Redis protocol");
  std::string file;
  std::vector<std::string> sets;
  bool check = false;
  app.set_version_flag("--version", absl::StrFormat("kvstored %s", KVS_VERSION));
  app.add_option("--config", file, "TOML file; every key is described in config/kvstored.toml");
  app.add_option("--set", sets, "section.key=value, wins over the file; may be repeated")
      ->take_all();
  app.add_flag("--check-config", check, "read the configuration, say what is wrong, and end");
  if (const std::optional<int> ended = ParseCommandLine("kvstored", &app, argc, argv)) {
    return *ended;
  }
  const absl::StatusOr<Config> config = ReadConfig(file, sets);
  if (!config.ok()) {
    return Fail(config.status());
  }
  if (check) {
    std::printf("configuration is valid\n");
    return 0;
  }
  base::InitLog(
      config->server.log_format == "json" ? base::LogFormat::kJson : base::LogFormat::kText,
      config->server.log_level);
  ConfigSource source{.read = nullptr, .at_start = *config};
  if (!file.empty()) {
    source.read = [&file, &sets] {
      return ReadConfig(file, sets);
    };
  }
  return Serve(source);
}

}  // namespace
}  // namespace kvstored::server

int main(int argc, char** argv) {
  // Batches, frames and slices of some hundred KiB come and go: from the heap they are pages that
  // are there already, from mmap they would be faulted in and zeroed each time.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  return kvstored::server::Main(argc, argv);
}
