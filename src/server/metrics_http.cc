#include "server/metrics_http.h"

#include <CivetServer.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <ctime>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace kvstored::server {
namespace {

prometheus::MetricType TypeOf(metrics::FamilyKind kind) {
  switch (kind) {
    case metrics::FamilyKind::kCounter:
      return prometheus::MetricType::Counter;
    case metrics::FamilyKind::kGauge:
      return prometheus::MetricType::Gauge;
    case metrics::FamilyKind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric::Histogram HistogramOf(const metrics::Histogram& snapshot, double scale) {
  prometheus::ClientMetric::Histogram histogram;
  uint64_t cumulative = 0;
  for (uint32_t i = 0; i < snapshot.bucket_count; ++i) {
    cumulative += snapshot.counts[i];
    histogram.bucket.push_back({cumulative, static_cast<double>(snapshot.upper_bound(i)) * scale});
  }
  cumulative += snapshot.counts[snapshot.bucket_count];
  histogram.bucket.push_back({cumulative, std::numeric_limits<double>::infinity()});
  histogram.sample_count = cumulative;
  histogram.sample_sum = static_cast<double>(snapshot.sum) * scale;
  return histogram;
}

prometheus::MetricFamily FamilyOf(const metrics::Family& family) {
  prometheus::MetricFamily out;
  out.name = family.name;
  out.help = family.help;
  out.type = TypeOf(family.kind);
  for (const metrics::Sample& sample : family.samples) {
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : sample.labels) {
      metric.label.push_back({name, value});
    }
    metric.counter.value = sample.value;
    metric.gauge.value = sample.value;
    if (family.kind == metrics::FamilyKind::kHistogram) {
      metric.histogram = HistogramOf(sample.histogram, family.scale);
    }
    out.metric.push_back(std::move(metric));
  }
  return out;
}

// One path; the body and whether it is a 200 come from the callback.
class Page : public CivetHandler {
 public:
  Page(std::string content_type, std::function<Health()> body)
      : content_type_(std::move(content_type)), body_(std::move(body)) {
  }
  bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
    const Health page = body_();
    mg_printf(connection,
              "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
              page.ok ? "200 OK" : "503 Service Unavailable", content_type_.c_str(),
              page.text.size());
    mg_write(connection, page.text.data(), page.text.size());
    return true;
  }

 private:
  const std::string content_type_;
  const std::function<Health()> body_;
};

Page HealthPage(std::function<Health()> callback) {
  return {"text/plain; charset=utf-8", [callback = std::move(callback)] {
            Health health = callback();
            health.text += '\n';
            return health;
          }};
}

// CivetWeb answers unknown paths from a document root unless there is none; this says 404 plainly.
class NotFound : public CivetHandler {
 public:
  bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
    mg_printf(connection,
              "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 29\r\n"
              "Connection: close\r\n\r\n/metrics, /healthz, /readyz.\n");
    return true;
  }
};

}  // namespace

std::string PrometheusText(const metrics::Collection& collection) {
  std::vector<prometheus::MetricFamily> families;
  families.reserve(collection.families().size());
  for (const metrics::Family& family : collection.families()) {
    families.push_back(FamilyOf(family));
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

struct MetricsHttp::State {
  State(Options options, const std::vector<std::string>& civet_options)
      : metrics("text/plain; version=0.0.4; charset=utf-8",
                [registry = options.registry] {
                  return Health{true, PrometheusText(registry->Collect())};
                }),
        healthz(HealthPage(std::move(options.healthz))),
        readyz(HealthPage(std::move(options.readyz))),
        host(options.bind),
        server(civet_options) {
    server.addHandler("/metrics$", metrics);
    server.addHandler("/healthz$", healthz);
    server.addHandler("/readyz$", readyz);
    server.addHandler("**", not_found);
  }

  Page metrics;
  Page healthz;
  Page readyz;
  NotFound not_found;
  const std::string host;
  CivetServer server;  // destroyed first: ends the threads that use the pages
};

MetricsHttp::MetricsHttp(std::unique_ptr<State> state) : state_(std::move(state)) {
}

// The library's acceptor looks for the end every two seconds, or when somebody connects.
MetricsHttp::~MetricsHttp() {
  const uint16_t own_port = port();
  const std::string own_host = state_->host;
  std::atomic<bool> ended{false};
  std::thread caller([&] {
    while (!ended.load(std::memory_order_acquire)) {  // partner: the store below
      char error[128];
      mg_connection* connection =
          mg_connect_client(own_host.c_str(), own_port, /*use_ssl=*/0, error, sizeof(error));
      if (connection != nullptr) {
        mg_close_connection(connection);
      }
      const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
      ::nanosleep(&pause, nullptr);
    }
  });
  state_.reset();
  ended.store(true, std::memory_order_release);
  caller.join();
}

uint16_t MetricsHttp::port() const {
  // getListeningPorts() is not const in the library.
  const std::vector<int> ports = const_cast<CivetServer&>(state_->server).getListeningPorts();
  return ports.empty() ? uint16_t{0} : static_cast<uint16_t>(ports.front());
}

absl::StatusOr<std::unique_ptr<MetricsHttp>> MetricsHttp::Start(Options options) {
  const bool ipv6 = options.bind.find(':') != std::string::npos;
  const std::string host = ipv6 ? "[" + options.bind + "]" : options.bind;
  const std::string address = host + ":" + std::to_string(options.port);
  const std::vector<std::string> civet_options = {"listening_ports",    address, "num_threads", "2",
                                                  "request_timeout_ms", "5000"};
  // The library's constructor throws when it cannot listen; nothing escapes from here.
  try {
    return std::unique_ptr<MetricsHttp>(
        new MetricsHttp(std::make_unique<State>(std::move(options), civet_options)));
  } catch (const CivetException&) {
    return absl::UnavailableError(absl::StrFormat(
        "metrics: cannot listen on %s: the port is in use or the address is not this machine's; "
        "change metrics.port or metrics.bind",
        address));
  }
}

}  // namespace kvstored::server
