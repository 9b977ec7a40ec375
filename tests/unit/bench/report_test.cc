#include "kvbench/report.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kvstored::bench {
namespace {

Outcome SomeOutcome() {
  Outcome outcome;
  outcome.seconds = 2;
  outcome.cpu_seconds = 0.5;
  for (uint64_t us = 1; us <= 200; ++us) {
    outcome.measurement.latency_ns[0].Record(us * 1000);
  }
  outcome.measurement.latency_ns[1].Record(50'000);
  outcome.measurement.hits = 190;
  outcome.measurement.misses = 10;
  return outcome;
}

TEST(Report, JsonHasEveryFieldThatIsPromised) {
  Options options;
  ASSERT_EQ(ChooseWorkload("b", 0, &options), "");
  Outcome outcome = SomeOutcome();
  outcome.measurement.CountError("OOM command not allowed");
  outcome.measurement.CountError("OOM command not allowed");
  outcome.measurement.CountError("LOADING \xff bytes that are no text");
  const nlohmann::json json = nlohmann::json::parse(JsonReport(options, outcome));
  for (const char* field :
       {"kvbench", "settings", "interrupted", "failure", "operations", "seconds", "ops_per_s",
        "client_cpu_s", "hits", "misses", "errors", "errors_by_word", "first_error", "lost",
        "reconnects", "short_waits", "latency_us"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(json["operations"], 201);
  EXPECT_EQ(json["ops_per_s"], 100.5);
  EXPECT_EQ(json["settings"]["workload"], "b");
  EXPECT_EQ(json["settings"]["distribution"], "zipfian");
  EXPECT_EQ(json["errors"], 3);
  EXPECT_EQ(json["errors_by_word"], (nlohmann::json{{"OOM", 2}, {"LOADING", 1}}));
  EXPECT_EQ(json["first_error"], "OOM command not allowed");
  const nlohmann::json& latency = json["latency_us"];
  EXPECT_EQ(latency.size(), 3) << "all, read, update: no kind that did not occur";
  for (const char* field :
       {"count", "mean", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max"}) {
    EXPECT_TRUE(latency["read"].contains(field)) << field;
  }
  EXPECT_EQ(latency["read"]["count"], 200);
  EXPECT_EQ(latency["read"]["mean"], 100.5);
  EXPECT_NEAR(latency["read"]["p50"].get<double>(), 100, 100 * Histogram::kRelativeError);
  EXPECT_EQ(latency["read"]["max"], 200);
  EXPECT_EQ(latency["update"]["p99"], 50);
}

TEST(Report, TextNamesWhatWentWrong) {
  Options options;
  ASSERT_EQ(ChooseWorkload("a", 0, &options), "");
  Outcome outcome = SomeOutcome();
  EXPECT_EQ(Complaint(outcome), "");
  EXPECT_EQ(TextReport(options, outcome).find("errors"), std::string::npos);
  outcome.measurement.short_waits = 4;
  EXPECT_EQ(Complaint(outcome), "4 WAITs counted fewer replicas than asked for");
  outcome.measurement.lost = 7;
  EXPECT_EQ(Complaint(outcome), "7 operations lost with their connections");
  outcome.measurement.CountError("READONLY You can't write against a read only replica.");
  EXPECT_EQ(Complaint(outcome),
            "1 error replies, the first: READONLY You can't write against a read only replica.");
  outcome.interrupted = true;
  const std::string text = TextReport(options, outcome);
  EXPECT_NE(text.find("errors: 1 x READONLY\n"), std::string::npos) << text;
  EXPECT_NE(text.find("201 operations in 2.000 s: 100.5 op/s (interrupted)\n"), std::string::npos);
  EXPECT_NE(text.find("reads: 190 found, 10 missed\n"), std::string::npos);
  outcome.failure = "connect to 127.0.0.1:1: Connection refused";
  EXPECT_EQ(Complaint(outcome), outcome.failure);
}

TEST(Report, NothingMeasuredIsNoDivisionByZero) {
  Options options;
  options.load = true;
  const nlohmann::json json = nlohmann::json::parse(JsonReport(options, Outcome{}));
  EXPECT_EQ(json["ops_per_s"], 0);
  EXPECT_EQ(json["settings"]["workload"], "load");
  EXPECT_EQ(json["latency_us"]["all"]["p99"], 0);
}

}  // namespace
}  // namespace kvstored::bench
