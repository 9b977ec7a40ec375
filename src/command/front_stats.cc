// INFO errorstats and latencystats.
#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_format.h"
#include "command/front_thread.h"

namespace kvstored::command {
namespace {

uint64_t SumOf(const LatencyCounts& counts) {
  uint64_t sum = 0;
  for (const uint64_t count : counts) {
    sum += count;
  }
  return sum;
}

// The end of the step in which the percentile lies.
double PercentileUs(const LatencyCounts& counts, uint64_t sum, double percentile) {
  const double share = percentile / 100 * static_cast<double>(sum) + 0.5;
  const uint64_t wanted = std::max<uint64_t>(1, static_cast<uint64_t>(share));
  uint64_t seen = 0;
  uint32_t step = 0;
  for (; step + 1 < kLatencyCounts; ++step) {
    seen += counts[step];
    if (seen >= wanted) {
      break;
    }
  }
  return static_cast<double>(LatencyHistogram::EndNs(step)) / 1000;
}

}  // namespace

std::string FrontSet::ErrorStats() const {
  std::map<std::string, uint64_t> counts;
  for (const auto& front : threads_) {
    front->figures().errors.AddTo(&counts);
  }
  std::string text;
  for (const auto& [code, count] : counts) {
    text += absl::StrFormat("errorstat_%s:count=%u\r\n", code, count);
  }
  return text;
}

LatencyCounts FrontSet::SumLatency(size_t command) const {
  LatencyCounts counts{};
  for (const auto& front : threads_) {
    front->figures().commands[command].latency.AddTo(&counts);
  }
  return counts;
}

LatencyCounts FrontSet::LatencyOf(const CommandSpec& spec) const {
  const auto command = static_cast<size_t>(&spec - CommandTable().data());
  LatencyCounts counts = SumLatency(command);
  const std::lock_guard<std::mutex> lock(reset_mutex_);
  for (uint32_t step = 0; step < kLatencyCounts && !reset_latency_.empty(); ++step) {
    counts[step] -= reset_latency_[command][step];
  }
  return counts;
}

std::string FrontSet::LatencyStats() const {
  if (!settings_.latency_tracking.load(std::memory_order_relaxed)) {
    return {};
  }
  const std::vector<double> percentiles = settings_.percentiles();
  std::string text;
  for (const CommandSpec& spec : CommandTable()) {
    const LatencyCounts counts = LatencyOf(spec);
    const uint64_t sum = SumOf(counts);
    if (sum == 0) {
      continue;
    }
    text += absl::StrFormat("latency_percentiles_usec_%s:", spec.name);
    std::string_view separator;
    for (const double percentile : percentiles) {
      text += absl::StrFormat("%sp%g=%.3f", separator, percentile,
                              PercentileUs(counts, sum, percentile));
      separator = ",";
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace kvstored::command
