#include "kvbench/report.h"

#include <array>
#include <nlohmann/json.hpp>

#include "fmt/format.h"

namespace kvstored::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, kOperationKinds> kKindNames = {"read", "update", "insert",
                                                                 "read_modify_write"};

struct Quantile {
  const char* name;
  double share;
};
constexpr std::array<Quantile, 5> kQuantiles = {
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}}};

double Us(uint64_t ns) {
  return static_cast<double>(ns) / 1000;
}

std::string ProtocolName(Dialect dialect) {
  switch (dialect) {
    case Dialect::kResp2:
      return "resp2";
    case Dialect::kResp3:
      return "resp3";
    case Dialect::kMemcached:
      break;
  }
  return "memcached";
}

std::string KeyChoiceName(const Options& options) {
  if (options.load) {
    return "sequential";
  }
  switch (options.key_choice) {
    case KeyChoice::kUniform:
      return "uniform";
    case KeyChoice::kZipfian:
      return "zipfian";
    case KeyChoice::kLatest:
      break;
  }
  return "latest";
}

double PerSecond(uint64_t operations, double seconds) {
  return seconds > 0 ? static_cast<double>(operations) / seconds : 0;
}

Json LatencyJson(const Histogram& latency_ns) {
  Json json = {{"count", latency_ns.count()},
               {"mean", latency_ns.mean() / 1000},
               {"min", Us(latency_ns.min())}};
  for (const Quantile& quantile : kQuantiles) {
    json[quantile.name] = Us(latency_ns.ValueAt(quantile.share));
  }
  json["max"] = Us(latency_ns.max());
  return json;
}

Json SettingsJson(const Options& options) {
  return {{"host", options.host},
          {"port", options.port},
          {"protocol", ProtocolName(options.dialect)},
          {"workload", options.load ? "load" : options.workload},
          {"distribution", KeyChoiceName(options)},
          {"keys", options.key_count},
          {"key_bytes", options.key_bytes},
          {"value_bytes_min", options.value_bytes.min},
          {"value_bytes_max", options.value_bytes.max},
          {"connections", options.connections},
          {"threads", options.threads},
          {"depth", options.depth},
          {"rate_per_s", options.rate_per_s},
          {"warm_up_s", options.warm_up_s},
          {"wait_replicas", options.wait_replicas},
          {"seed", options.seed}};
}

std::string LatencyLine(const char* name, const Histogram& latency_ns) {
  std::string line =
      fmt::format("{:<18}{:>11}{:>11.1f}", name, latency_ns.count(), latency_ns.mean() / 1000);
  for (const Quantile& quantile : kQuantiles) {
    line += fmt::format("{:>11.1f}", Us(latency_ns.ValueAt(quantile.share)));
  }
  return line + fmt::format("{:>11.1f}\n", Us(latency_ns.max()));
}

std::string LatencyTable(const Measurement& measurement, const Histogram& all) {
  std::string text = fmt::format("{:<18}{:>11}{:>11}", "latency in us", "count", "mean");
  for (const Quantile& quantile : kQuantiles) {
    text += fmt::format("{:>11}", quantile.name);
  }
  text += fmt::format("{:>11}\n", "max") + LatencyLine("all", all);
  for (size_t i = 0; i < kOperationKinds; ++i) {
    if (measurement.latency_ns[i].count() > 0) {
      text += LatencyLine(kKindNames[i], measurement.latency_ns[i]);
    }
  }
  if (measurement.wait_ns.count() > 0) {
    text += LatencyLine("wait", measurement.wait_ns);
  }
  return text;
}

std::string ValueText(const ByteRange& bytes) {
  return bytes.min == bytes.max ? fmt::format("{}", bytes.min)
                                : fmt::format("{}-{}", bytes.min, bytes.max);
}

}  // namespace

std::string TextReport(const Options& options, const Outcome& outcome) {
  const Measurement& measurement = outcome.measurement;
  const Histogram all = measurement.AllLatencyNs();
  std::string text = fmt::format(
      "{} of {} at {}:{}: {} keys of {} B, {}, values of {} B\n{} connections, {} threads, depth "
      "{}, {}\n",
      options.load ? "load" : "workload " + options.workload, ProtocolName(options.dialect),
      options.host, options.port, options.key_count, options.key_bytes, KeyChoiceName(options),
      ValueText(options.value_bytes), options.connections, options.threads, options.depth,
      options.rate_per_s > 0 ? fmt::format("open loop, {} op/s meant", options.rate_per_s)
                             : std::string("closed loop"));
  text += fmt::format("{} operations in {:.3f} s: {:.1f} op/s{}\n", all.count(), outcome.seconds,
                      PerSecond(all.count(), outcome.seconds),
                      outcome.interrupted ? " (interrupted)" : "");
  text += LatencyTable(measurement, all);
  if (measurement.hits + measurement.misses > 0) {
    text += fmt::format("reads: {} found, {} missed\n", measurement.hits, measurement.misses);
  }
  for (const auto& [word, count] : measurement.errors) {
    text += fmt::format("errors: {} x {}\n", count, word);
  }
  if (measurement.lost + measurement.reconnects > 0) {
    text += fmt::format("connections opened again: {}; operations lost with one: {}\n",
                        measurement.reconnects, measurement.lost);
  }
  return text;
}

std::string JsonReport(const Options& options, const Outcome& outcome) {
  const Measurement& measurement = outcome.measurement;
  const Histogram all = measurement.AllLatencyNs();
  Json latency = {{"all", LatencyJson(all)}};
  for (size_t i = 0; i < kOperationKinds; ++i) {
    if (measurement.latency_ns[i].count() > 0) {
      latency[kKindNames[i]] = LatencyJson(measurement.latency_ns[i]);
    }
  }
  if (measurement.wait_ns.count() > 0) {
    latency["wait"] = LatencyJson(measurement.wait_ns);
  }
  Json by_word = Json::object();
  for (const auto& [word, count] : measurement.errors) {
    by_word[word] = count;
  }
  const Json json = {{"kvbench", KVS_VERSION},
                     {"settings", SettingsJson(options)},
                     {"interrupted", outcome.interrupted},
                     {"failure", outcome.failure},
                     {"operations", all.count()},
                     {"seconds", outcome.seconds},
                     {"ops_per_s", PerSecond(all.count(), outcome.seconds)},
                     {"client_cpu_s", outcome.cpu_seconds},
                     {"hits", measurement.hits},
                     {"misses", measurement.misses},
                     {"errors", measurement.ErrorCount()},
                     {"errors_by_word", by_word},
                     {"first_error", measurement.first_error},
                     {"lost", measurement.lost},
                     {"reconnects", measurement.reconnects},
                     {"short_waits", measurement.short_waits},
                     {"latency_us", latency}};
  // A reply need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Complaint(const Outcome& outcome) {
  const Measurement& measurement = outcome.measurement;
  if (!outcome.failure.empty()) {
    return outcome.failure;
  }
  if (measurement.ErrorCount() > 0) {
    return fmt::format("{} error replies, the first: {}", measurement.ErrorCount(),
                       measurement.first_error);
  }
  if (measurement.lost > 0) {
    return fmt::format("{} operations lost with their connections", measurement.lost);
  }
  if (measurement.short_waits > 0) {
    return fmt::format("{} WAITs counted fewer replicas than asked for", measurement.short_waits);
  }
  return "";
}

}  // namespace kvstored::bench
