// kvbench: load for any server that speaks RESP (or memcached's text protocol), and what it costs.
// Exit 0: every operation ended well; 1: some did not, or the run could not go on; 2: the command
// line is wrong; 130: interrupted. What was measured is printed in all cases but 2.
#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "kvbench/key_text.h"
#include "kvbench/options.h"
#include "kvbench/report.h"
#include "kvbench/run.h"
#include "server/command_line.h"

namespace kvstored::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitInterrupted = 130;

std::atomic<bool> stop_now{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnInterrupt(int) {
  stop_now.store(true);
}

// The first Ctrl-C asks for the end, a second one is the end.
void TakeInterrupts() {
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

// Words of the command line that are not values of Options as they stand.
struct Words {
  std::string workload;
  std::string distribution;
  std::string protocol = "resp";
  std::string value_bytes = "100";
  uint32_t resp = 2;
  uint32_t reads_percent = 50;
};

void AddServer(CLI::App* app, Options* options, Words* words) {
  app->add_option("--host", options->host, "Name or address")->capture_default_str();
  app->add_option("--port", options->port)->capture_default_str();
  app->add_option("--protocol", words->protocol, "resp or memcached (its text protocol)")
      ->check(CLI::IsMember({"resp", "memcached"}))
      ->capture_default_str();
  app->add_option("--resp", words->resp, "Version of RESP; 3 begins with HELLO 3")
      ->check(CLI::IsMember({2, 3}))
      ->capture_default_str();
  app->add_option("--password", options->password, "AUTH with it on each connection");
  app->add_option("--timeout", options->timeout_s,
                  "Seconds without a reply after which a connection counts as broken")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app->add_flag("--reconnect", options->reconnect,
                "Open a broken connection again each 100 ms, and count what was under way as lost; "
                "without it the first broken connection ends the run");
}

void AddWork(CLI::App* app, Options* options, Words* words) {
  app->add_flag("--load", options->load, "Write each key once, in order, instead of a workload");
  app->add_option("--workload", words->workload,
                  "YCSB's a, b, c, d or f; or get, set, mix (see --reads)");
  app->add_option("--reads", words->reads_percent, "Percent of GETs with --workload mix")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app->add_option("--distribution", words->distribution,
                  "uniform, zipfian (0.99, scrambled) or latest; default: the workload's own")
      ->check(CLI::IsMember({"uniform", "zipfian", "latest"}));
  app->add_option("--keys", options->key_count, "Keys that were loaded")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000'000}))
      ->capture_default_str();
  app->add_option("--key-bytes", options->key_bytes)
      ->check(CLI::Range(KeyText::kBytesMin, KeyText::kBytesMax))
      ->capture_default_str();
  app->add_option("--value-bytes", words->value_bytes, "N, or MIN-MAX for any size between")
      ->capture_default_str();
  app->add_flag("--compressible", options->compressible,
                "Values of one letter repeated, not of random letters");
  app->add_option("--wait", options->wait_replicas, "Follow each burst with WAIT for N replicas")
      ->check(CLI::Range(0, 1000));
  app->add_option("--wait-ms", options->wait_ms, "Timeout of the WAIT")->capture_default_str();
  app->add_option("--seed", options->seed, "Same seed, same keys")->capture_default_str();
}

void AddPace(CLI::App* app, Options* options) {
  app->add_option("--connections", options->connections)
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app->add_option("--threads", options->threads, "Threads that share the connections")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--depth", options->depth, "Unanswered requests a connection")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  CLI::Option* operations =
      app->add_option("--operations", options->operations, "How many, instead of --duration")
          ->check(CLI::Range(uint64_t{1}, ~uint64_t{0} >> 1));
  app->add_option("--duration", options->duration_s, "Seconds")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str()
      ->excludes(operations);
  app->add_option("--warm-up", options->warm_up_s, "Seconds before anything is counted")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app->add_option("--rate", options->rate_per_s,
                  "Operations a second, sent whether or not the last ones are answered; latency "
                  "counts from when each was meant to start. 0: closed loop")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app->add_option("--json", options->json_file,
                  "Write the result there as JSON; -: to standard output, in place of the text");
}

// Empty, or what is wrong.
std::string TakeWords(const Words& words, Options* options) {
  if (!ParseByteRange(words.value_bytes, &options->value_bytes)) {
    return fmt::format("--value-bytes '{}' is neither N nor MIN-MAX", words.value_bytes);
  }
  options->dialect = words.protocol == "memcached" ? Dialect::kMemcached
                     : words.resp == 3             ? Dialect::kResp3
                                                   : Dialect::kResp2;
  if (!words.workload.empty()) {
    const std::string wrong = ChooseWorkload(words.workload, words.reads_percent, options);
    if (!wrong.empty()) {
      return wrong;
    }
  }
  const std::map<std::string, KeyChoice> choices = {{"uniform", KeyChoice::kUniform},
                                                    {"zipfian", KeyChoice::kZipfian},
                                                    {"latest", KeyChoice::kLatest}};
  if (const auto choice = choices.find(words.distribution); choice != choices.end()) {
    options->key_choice = choice->second;
  }
  return Judge(*options);
}

int Fail(const std::string& what, int code) {
  fmt::print(stderr, "kvbench: {}\n", what);
  return code;
}

int Report(const Options& options, const Outcome& outcome) {
  // Nobody was reached: a table of zeroes says nothing.
  const bool started = outcome.failure.empty() || outcome.seconds > 0;
  if (options.json_file != "-" && started) {
    std::fputs(TextReport(options, outcome).c_str(), stdout);
  }
  if (!options.json_file.empty()) {
    std::FILE* const file =
        options.json_file == "-" ? stdout : std::fopen(options.json_file.c_str(), "w");
    const std::string json = JsonReport(options, outcome);
    if (file == nullptr || std::fputs(json.c_str(), file) == EOF || std::fflush(file) != 0) {
      return Fail(fmt::format("{} cannot be written", options.json_file), kExitFailed);
    }
    if (file != stdout) {
      std::fclose(file);
    }
  }
  const std::string complaint = Complaint(outcome);
  if (!complaint.empty()) {
    return Fail(complaint, kExitFailed);
  }
  return outcome.interrupted ? kExitInterrupted : 0;
}

int Main(int argc, char** argv) {
  Options options;
  Words words;
  CLI::App app("kvbench: load for a key-value server, and how long its replies take");
  app.set_version_flag("--version", fmt::format("kvbench {}", KVS_VERSION));
  AddServer(&app, &options, &words);
  AddWork(&app, &options, &words);
  AddPace(&app, &options);
  if (const std::optional<int> ended = server::ParseCommandLine("kvbench", &app, argc, argv)) {
    return *ended;
  }
  const std::string wrong = TakeWords(words, &options);
  if (!wrong.empty()) {
    return Fail(wrong, server::kExitUsage);
  }
  TakeInterrupts();
  return Report(options, RunLoad(options, &stop_now));
}

}  // namespace
}  // namespace kvstored::bench

int main(int argc, char** argv) {
  return kvstored::bench::Main(argc, argv);
}
