#include "kvbench/session.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kvstored::bench {
namespace {

constexpr uint64_t kUs = 1000;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kSecond = 1'000'000'000;

// What the outbox holds, taken out of it in pieces of at most `step` bytes.
std::string Drain(Outbox* outbox, size_t step = ~size_t{0}) {
  std::string text;
  while (!outbox->empty()) {
    std::array<iovec, 2> pieces;
    const size_t count = outbox->Pieces(pieces.data(), pieces.size());
    EXPECT_GT(count, 0);
    size_t left = step;
    for (size_t i = 0; i < count && left > 0; ++i) {
      const size_t taken = std::min(left, pieces[i].iov_len);
      text.append(static_cast<const char*>(pieces[i].iov_base), taken);
      left -= taken;
    }
    outbox->Sent(step - left);
  }
  return text;
}

struct Replies : ReplySink {
  void OnReply(const Reply& reply) override {
    constexpr const char* kNames = "dmen";
    seen += kNames[static_cast<int>(reply.kind)];
    seen += reply.kind == Reply::Kind::kNumber ? std::to_string(reply.number) : "";
    seen += reply.text;
    seen += ' ';
  }
  std::string seen;
};

std::string Scanned(Dialect dialect, const std::string& bytes, size_t step) {
  Replies replies;
  const auto scanner = NewReplyScanner(dialect, &replies);
  for (size_t at = 0; at < bytes.size(); at += step) {
    scanner->Scan(bytes.data() + at, std::min(step, bytes.size() - at));
  }
  return replies.seen;
}

TEST(ReplyScanner, CountsRepliesWhereverTheBytesAreCut) {
  const std::string resp =
      "+OK\r\n$5\r\na\r\nb-\r\n$-1\r\n_\r\n:42\r\n-OOM no memory\r\n$0\r\n\r\n"
      "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n+modules\r\n*1\r\n*0\r\n*-1\r\n+OK\r\n";
  const std::string memcached =
      "STORED\r\nEND\r\nVALUE key:1 0 7\r\nEND\r\nxx\r\nEND\r\nSERVER_ERROR out of memory\r\n";
  for (size_t step = 1; step < 60; ++step) {
    EXPECT_EQ(Scanned(Dialect::kResp3, resp, step), "d d m m n42 eOOM no memory d d d d ") << step;
    EXPECT_EQ(Scanned(Dialect::kMemcached, memcached, step), "d m d eSERVER_ERROR out of memory ")
        << step;
  }
}

TEST(ReplyScanner, SaysWhichBytesNobodyNeeds) {
  Replies replies;
  const auto scanner = NewReplyScanner(Dialect::kResp2, &replies);
  const std::string head = "$1000000\r\nabc";
  scanner->Scan(head.data(), head.size());
  EXPECT_EQ(scanner->skippable_bytes(), 1000000 - 3 + 2);
  scanner->Skip(scanner->skippable_bytes() - 1);
  EXPECT_EQ(replies.seen, "");
  scanner->Scan("\n+OK\r\n", 6);
  EXPECT_EQ(replies.seen, "d d ");
}

// A session and what it needs.
struct Bench {
  explicit Bench(const Options& settings)
      : options(settings),
        requests(options),
        keys(options.key_count),
        workload(options, 1, &keys),
        shared{.options = &options,
               .requests = &requests,
               .workload = &workload,
               .keys = &keys,
               .measurement = &measurement} {
  }
  void Answer(Session* session, const std::string& bytes, uint64_t now_ns) {
    session->Take(bytes.data(), bytes.size(), now_ns);
  }

  Options options;
  Requests requests;
  KeySpace keys;
  Workload workload;
  Measurement measurement;
  SessionShared shared;
};

Options OptionsOf(const std::string& workload) {
  Options options;
  EXPECT_EQ(ChooseWorkload(workload, 50, &options), "");
  options.key_count = 1;
  options.value_bytes = {.min = 3, .max = 3};
  options.compressible = true;
  return options;
}

TEST(Session, SpeaksRespAndMemcached) {
  Options options = OptionsOf("set");
  options.password = "secret";
  options.dialect = Dialect::kResp3;
  Bench resp(options);
  Session session(&resp.shared);
  session.Greet();
  EXPECT_EQ(Drain(session.outbox()),
            "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
  session.SetPace({.stop_ns = kSecond});
  session.Start(0);
  EXPECT_TRUE(session.outbox()->empty()) << "nothing before the greeting is answered";
  resp.Answer(&session, "+OK\r\n%1\r\n+proto\r\n:3\r\n", 1);
  EXPECT_TRUE(session.greeted());
  session.Start(2);
  EXPECT_EQ(Drain(session.outbox()), "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$3\r\nvvv\r\n");

  options = OptionsOf("mix");
  options.dialect = Dialect::kMemcached;
  options.depth = 20;
  Bench memcached(options);
  Session other(&memcached.shared);
  other.SetPace({.stop_ns = kSecond});
  other.Start(0);
  const std::string text = Drain(other.outbox());
  EXPECT_NE(text.find("get key:000000000000\r\n"), std::string::npos) << text;
  EXPECT_NE(text.find("set key:000000000000 0 0 3\r\nvvv\r\n"), std::string::npos) << text;
}

TEST(Session, LargeValuesGoOutWholeHoweverLittleTheKernelTakes) {
  Options options = OptionsOf("set");
  options.value_bytes = {.min = 10'000, .max = 10'000};
  options.depth = 3;
  for (const size_t step : std::vector<size_t>{1, 7, 5000, 10'041, 20'000, 40'000}) {
    Bench bench(options);
    Session session(&bench.shared);
    session.SetPace({.stop_ns = kSecond});
    session.Start(0);
    const std::string one = "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$10000\r\n" +
                            std::string(10'000, 'v') + "\r\n";
    EXPECT_TRUE(Drain(session.outbox(), step) == one + one + one) << step;
  }
}

TEST(Session, BurstsAndTheirWait) {
  Options options = OptionsOf("set");
  options.depth = 2;
  options.wait_replicas = 2;
  Bench bench(options);
  bench.shared.operations_left = 3;
  Session session(&bench.shared);
  session.SetPace({.stop_ns = kSecond});
  session.Start(100);
  EXPECT_NE(Drain(session.outbox()).find("*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$5\r\n10000\r\n"),
            std::string::npos);
  bench.Answer(&session, "+OK\r\n-NOREPLICAS Not enough\r\n", 200);
  session.Start(200);
  EXPECT_TRUE(session.outbox()->empty()) << "the WAIT is not answered";
  bench.Answer(&session, ":1\r\n", 300);
  session.Start(300);
  Drain(session.outbox());
  bench.Answer(&session, "+OK\r\n:2\r\n", 450);
  EXPECT_TRUE(session.Done(450));
  const Measurement& seen = bench.measurement;
  EXPECT_EQ(seen.AllLatencyNs().count(), 2);
  EXPECT_EQ(seen.ErrorCount(), 1);
  EXPECT_EQ(seen.errors.at("NOREPLICAS"), 1);
  EXPECT_EQ(seen.short_waits, 1);
  EXPECT_EQ(seen.wait_ns.count(), 2);
  EXPECT_EQ(seen.wait_ns.max(), 200);
}

TEST(Session, ReadModifyWriteIsOneOperationOfTwoRequests) {
  Bench bench(OptionsOf("f"));
  Session session(&bench.shared);
  session.SetPace({.stop_ns = kSecond});
  uint64_t now_ns = 0;
  uint64_t writes = 0;
  for (int i = 0; i < 100; ++i) {
    session.Start(now_ns);
    EXPECT_EQ(Drain(session.outbox()).substr(8, 3), "GET");
    now_ns += 10;
    bench.Answer(&session, "$3\r\nvvv\r\n", now_ns);
    if (session.waiting()) {
      EXPECT_EQ(Drain(session.outbox()).substr(8, 3), "SET");
      now_ns += 20;
      bench.Answer(&session, "+OK\r\n", now_ns);
      ++writes;
    }
  }
  const auto& kinds = bench.measurement.latency_ns;
  EXPECT_GT(writes, 30);
  EXPECT_EQ(kinds[static_cast<size_t>(OperationKind::kReadModifyWrite)].count(), writes);
  EXPECT_EQ(kinds[static_cast<size_t>(OperationKind::kReadModifyWrite)].min(), 30);
  EXPECT_EQ(kinds[static_cast<size_t>(OperationKind::kRead)].count(), 100 - writes);
  EXPECT_EQ(kinds[static_cast<size_t>(OperationKind::kRead)].max(), 10);
  EXPECT_EQ(bench.measurement.hits, 100);
}

TEST(Session, ABrokenConnectionLosesWhatWasUnderWayAndAnswersItsInserts) {
  Options options = OptionsOf("d");
  options.key_count = 100;
  options.depth = 200;
  Bench bench(options);
  Session session(&bench.shared);
  session.SetPace({.stop_ns = kSecond});
  session.Start(0);
  Drain(session.outbox());
  bench.Answer(&session, "$5\r\nab", 10);
  EXPECT_EQ(bench.keys.frontier(), 100);
  session.Lose();
  EXPECT_EQ(bench.measurement.lost, 200);
  EXPECT_GT(bench.keys.frontier(), 100);
  EXPECT_TRUE(session.outbox()->empty());
  // The next connection begins with a fresh stream of replies.
  session.Greet();
  session.Start(20);
  bench.Answer(&session, "$-1\r\n", 30);
  EXPECT_EQ(bench.measurement.misses, 1);
}

TEST(Session, WhatTheServerSaysUnaskedEndsTheRun) {
  Bench bench(OptionsOf("get"));
  Session session(&bench.shared);
  bench.Answer(&session, "-ERR max number of clients reached\r\n", 10);
  EXPECT_EQ(session.failure(), "the server says: ERR max number of clients reached");
  Options options = OptionsOf("get");
  options.password = "wrong";
  Bench closed(options);
  Session refused(&closed.shared);
  refused.Greet();
  closed.Answer(&refused, "-WRONGPASS invalid username-password pair\r\n", 10);
  EXPECT_EQ(refused.failure(), "the server says: WRONGPASS invalid username-password pair");
}

TEST(Session, WarmUpIsNotCounted) {
  Bench bench(OptionsOf("get"));
  bench.shared.operations_left = 5;
  Session session(&bench.shared);
  session.SetPace({.measure_from_ns = 100, .stop_ns = kSecond});
  uint64_t now_ns = 0;
  int sent = 0;
  for (; !session.Done(now_ns); now_ns += 10) {
    session.Start(now_ns);
    Drain(session.outbox());
    bench.Answer(&session, sent % 2 == 0 ? "$-1\r\n" : "-ERR no\r\n", now_ns + 5);
    ++sent;
  }
  EXPECT_EQ(sent, 15);
  EXPECT_EQ(bench.measurement.misses, 3);
  EXPECT_EQ(bench.measurement.errors.at("ERR"), 2);
}

// A server that answers each request 100 us after it came, but for a stall: what comes while it
// lasts, and what is under way then, is answered when it ends. Time is a number, nothing waits.
class StallingServer {
 public:
  StallingServer(uint64_t stall_from_ns, uint64_t stall_until_ns)
      : stall_from_ns_(stall_from_ns), stall_until_ns_(stall_until_ns) {
  }
  // Runs the session until it is done.
  void Serve(Bench* bench, Session* session) {
    for (uint64_t now_ns = 0; !session->Done(now_ns); now_ns += 10 * kUs) {
      while (!answers_at_ns_.empty() && answers_at_ns_.front() <= now_ns) {
        answers_at_ns_.pop_front();
        bench->Answer(session, "$-1\r\n", now_ns);
      }
      session->Start(now_ns);
      const std::string text = Drain(session->outbox());
      for (size_t at = text.find("GET"); at != std::string::npos; at = text.find("GET", at + 1)) {
        const uint64_t answer_ns = now_ns + 100 * kUs;
        const bool stalled = answer_ns >= stall_from_ns_ && answer_ns < stall_until_ns_;
        answers_at_ns_.push_back(stalled ? stall_until_ns_ : answer_ns);
      }
    }
  }

 private:
  const uint64_t stall_from_ns_;
  const uint64_t stall_until_ns_;
  std::deque<uint64_t> answers_at_ns_;
};

// The share of operations that took longer than `ns`.
double ShareAbove(const Histogram& histogram, uint64_t ns) {
  double share = 1;
  for (double quantile = 0; quantile <= 1; quantile += 0.0001) {
    share = histogram.ValueAt(quantile) <= ns ? 1 - quantile : share;
  }
  return share;
}

TEST(Session, OpenLoopCountsWhatAStallKeptWaiting) {
  // 1,000 operations a second for 10 s, of which the server sleeps one: the operations that were
  // meant to start then wait from 1 s down to nothing, evenly.
  Bench bench(OptionsOf("get"));
  Session session(&bench.shared);
  session.SetPace({.interval_ns = kMs, .stop_ns = 10 * kSecond});
  StallingServer(5 * kSecond, 6 * kSecond).Serve(&bench, &session);
  const Histogram all = bench.measurement.AllLatencyNs();
  EXPECT_EQ(all.count(), 10'000) << "every operation of the schedule, none left out";
  EXPECT_NEAR(static_cast<double>(all.ValueAt(0.5)), 100.0 * kUs, 1.0 * kUs);
  // Behind the stall the backlog of 1,000 is worked off at 9 beyond the 1 that comes in each
  // millisecond: some 110 ms more. So ops above 0.5 s are those of the first half of the stall,
  // and those that had to wait for the backlog: 500 + about 55 of 10,000.
  EXPECT_NEAR(ShareAbove(all, 500 * kMs), 0.0555, 0.006);
  EXPECT_NEAR(static_cast<double>(all.max()), 1.0 * kSecond, 2.0 * kMs);
  EXPECT_GT(all.ValueAt(0.99), 800 * kMs);
}

TEST(Session, ClosedLoopSeesTheSameStallOnce) {
  Bench bench(OptionsOf("get"));
  Session session(&bench.shared);
  session.SetPace({.stop_ns = 10 * kSecond});
  StallingServer(5 * kSecond, 6 * kSecond).Serve(&bench, &session);
  const Histogram all = bench.measurement.AllLatencyNs();
  EXPECT_NEAR(static_cast<double>(all.ValueAt(0.9999)), 100.0 * kUs, 1.0 * kUs);
  EXPECT_NEAR(static_cast<double>(all.max()), 1.0 * kSecond, 1.0 * kMs);
}

TEST(Session, OpenLoopSendsAtOnceWhatTheDepthAllows) {
  Options options = OptionsOf("get");
  options.depth = 4;
  Bench bench(options);
  Session session(&bench.shared);
  session.SetPace({.interval_ns = 1000, .first_due_ns = 500, .stop_ns = 100'000});
  session.Start(499);
  EXPECT_TRUE(session.outbox()->empty());
  EXPECT_EQ(session.NextDueNs(), 500);
  session.Start(6'000);  // late: six are due, four may be under way
  EXPECT_TRUE(session.full());
  bench.Answer(&session, "$-1\r\n$-1\r\n", 6'100);
  const Histogram all = bench.measurement.AllLatencyNs();
  EXPECT_EQ(all.max(), 5'600);
  EXPECT_EQ(all.min(), 4'600);
  session.Start(6'100);
  EXPECT_EQ(session.NextDueNs(), 6'500);
}

}  // namespace
}  // namespace kvstored::bench
