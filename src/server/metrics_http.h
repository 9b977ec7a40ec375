// MetricsHttp: /metrics, /healthz and /readyz over plain HTTP. Prometheus' text format comes from
// prometheus-cpp, the server is CivetWeb with two threads of its own; both stay inside the .cc
// file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "metrics/registry.h"

namespace kvstored::server {

struct Health {
  bool ok = true;
  std::string text;  // one line for a person: "primary, epoch 7" or why not
};

// Thread-safe after Start. The callbacks run on HTTP threads, several at once.
class MetricsHttp {
 public:
  struct Options {
    std::string bind;   // IP address
    uint16_t port = 0;  // 0: any free one
    metrics::Registry* registry = nullptr;
    std::function<Health()> healthz;  // is the process alive and its threads moving?
    std::function<Health()> readyz;   // may it serve clients?
  };
  // Listens on return. The error names address, cause and the key to change.
  static absl::StatusOr<std::unique_ptr<MetricsHttp>> Start(Options options);
  // Waits for running requests.
  ~MetricsHttp();

  uint16_t port() const;

 private:
  struct State;
  explicit MetricsHttp(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The text of /metrics.
std::string PrometheusText(const metrics::Collection& collection);

}  // namespace kvstored::server
