#include "kvbench/options.h"

#include <charconv>

#include "fmt/format.h"
#include "kvbench/key_text.h"

namespace kvstored::bench {
namespace {

bool ParseWhole(const std::string& text, uint32_t* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

}  // namespace

// The core workloads of YCSB (Cooper et al., SoCC 2010, and the files workloads/workload[a-f]).
std::string ChooseWorkload(const std::string& name, uint32_t reads_percent, Options* options) {
  options->workload = name;
  options->key_choice = KeyChoice::kZipfian;
  if (name == "a") {
    options->mix = {.read = 0.5, .update = 0.5};
  } else if (name == "b") {
    options->mix = {.read = 0.95, .update = 0.05};
  } else if (name == "c") {
    options->mix = {.read = 1};
  } else if (name == "d") {
    options->mix = {.read = 0.95, .insert = 0.05};
    options->key_choice = KeyChoice::kLatest;
  } else if (name == "e") {
    return "workload e needs ordered scans: the keys of these servers have no order";
  } else if (name == "f") {
    options->mix = {.read = 0.5, .read_modify_write = 0.5};
  } else {
    options->key_choice = KeyChoice::kUniform;
    const double reads = name == "get" ? 1 : name == "set" ? 0 : reads_percent / 100.0;
    options->mix = {.read = reads, .update = 1 - reads};
    if (name != "get" && name != "set" && name != "mix") {
      return fmt::format("unknown workload '{}'; there are: a, b, c, d, f, get, set, mix", name);
    }
  }
  return "";
}

bool ParseByteRange(const std::string& text, ByteRange* range) {
  const size_t dash = text.find('-');
  if (dash == std::string::npos) {
    const bool good = ParseWhole(text, &range->min);
    range->max = range->min;
    return good;
  }
  return ParseWhole(text.substr(0, dash), &range->min) &&
         ParseWhole(text.substr(dash + 1), &range->max) && range->min <= range->max;
}

std::string Judge(const Options& options) {
  if (options.load == !options.workload.empty()) {
    return "either --load or --workload says what to do";
  }
  if (options.threads > options.connections) {
    return fmt::format("--threads {} is more than --connections {}", options.threads,
                       options.connections);
  }
  if (options.key_count > KeyText::LimitOf(options.key_bytes)) {
    return fmt::format("--key-bytes {} is too short for {} different keys", options.key_bytes,
                       options.key_count);
  }
  if (options.load && (options.operations != 0 || options.warm_up_s != 0)) {
    return "--load writes each key once: it goes with neither --operations nor --warm-up";
  }
  if (options.wait_replicas > 0 && options.rate_per_s > 0) {
    return "--wait follows each burst: it does not go with --rate";
  }
  if (options.dialect == Dialect::kMemcached &&
      (options.wait_replicas > 0 || !options.password.empty())) {
    return "--protocol memcached has neither --wait nor --password";
  }
  return "";
}

}  // namespace kvstored::bench
