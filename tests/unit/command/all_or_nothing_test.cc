// Transactions and an exhausted pool: all that they write, or nothing.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;
const char* const kOom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
const char* const kExecOom =
    "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > "
    "'maxmemory'.\r\n";

// With one thread MSET runs without a transaction object, with two as phases.
class AllOrNothing : public SessionFixture, public testing::WithParamInterface<uint32_t> {
 protected:
  AllOrNothing() : SessionFixture(GetParam(), 4) {
    client_ = Connect();
    for (int i = 0; i < 4; ++i) {
      Ask(client_, {"SET", KeyOn(static_cast<ShardId>(i)), "small"});
    }
    source_ = KeyOn(0, 1);
    destination_ = KeyOn(1, 1);
  }
  // Slots of 64 KiB, which need slabs of 512: 6.5 MB of values do not fit into the chunks that 8
  // MiB and a head-room of one chunk leave, but into the budget.
  Words ManyValues(const std::string& command) const {
    Words words = {command};
    for (int i = 0; i < 110; ++i) {
      words.push_back("many" + std::to_string(i));
      words.push_back(std::string(60'000, static_cast<char>('a' + i % 26)));
    }
    return words;
  }
  std::string CountMany() {
    Words words = {"EXISTS"};
    for (int i = 0; i < 110; ++i) {
      words.push_back("many" + std::to_string(i));
    }
    return Ask(client_, words);
  }
  std::string Exec(const std::vector<Words>& commands) {
    Ask(client_, {"MULTI"});
    for (const Words& words : commands) {
      EXPECT_EQ(Ask(client_, words), "+QUEUED\r\n") << words[0];
    }
    return Ask(client_, {"EXEC"});
  }

  FakeConnection* client_;
  std::string source_;
  std::string destination_;
};

TEST_P(AllOrNothing, WhatTheBudgetAllowsIsWrittenWhole) {
  pool_.SetMaxBytes(8 * kMib);
  EXPECT_EQ(Ask(client_, ManyValues("MSET")), "+OK\r\n");
  EXPECT_EQ(CountMany(), ":110\r\n");
  EXPECT_GT(pool_.counters().beyond_limit_count, 0u) << "the chunks did not run out";
  Ask(client_, {"FLUSHALL"});
  Settle();
  EXPECT_EQ(Ask(client_, ManyValues("MSETNX")), ":1\r\n");
  EXPECT_EQ(CountMany(), ":110\r\n");
}

TEST_P(AllOrNothing, WhatTheBudgetForbidsLeavesNoTrace) {
  pool_.SetMaxBytes(6 * kMib);
  EXPECT_EQ(Ask(client_, ManyValues("MSET")), kOom);
  EXPECT_EQ(Ask(client_, ManyValues("MSETNX")), kOom);
  EXPECT_EQ(Exec({{"SET", "before", "1"}, ManyValues("MSET"), {"SET", "behind", "1"}}), kExecOom);
  EXPECT_EQ(Ask(client_, {"DBSIZE"}), ":4\r\n");
  EXPECT_EQ(pool_.counters().beyond_limit_count, 0u);
}

// P25: other shards may use the log space that EXEC reserved and did not need.
TEST_P(AllOrNothing, LogSpaceThatExecDidNotNeedIsThereForOthers) {
  log_left_bytes_ = 12 * kMib;
  EXPECT_EQ(Exec({{"MSETNX", source_, std::string(8 * kMib, 'q'), KeyOn(1), "there already"}}),
            "*1\r\n:0\r\n");
  EXPECT_EQ(Ask(client_, {"SET", KeyOn(2, 1), std::string(6 * kMib, 'w')}), "+OK\r\n");
}

// The log has room for what one shard writes, not for all.
TEST_P(AllOrNothing, WhatOneShardsLogRefusesAllRefuse) {
  const char* const misconf = "-MISCONF ";
  Words del = {"DEL"};
  for (int i = 0; i < 40; ++i) {
    del.push_back(std::string(60'000, static_cast<char>('0' + i)) +
                  KeyOn(static_cast<ShardId>(i % 4), 2));
    Ask(client_, {"SET", del.back(), "1"});
  }
  Settle();
  const std::string size_before = Ask(client_, {"DBSIZE"});
  for (const char* const removal : {"DEL", "UNLINK"}) {
    log_left_bytes_ = 512 << 10;
    del[0] = removal;
    EXPECT_TRUE(Ask(client_, del).starts_with(misconf));
    EXPECT_EQ(Ask(client_, {"DBSIZE"}), size_before);
  }
  log_left_bytes_ = uint64_t{1} << 40;
  EXPECT_EQ(Ask(client_, del), ":40\r\n");
}

TEST_P(AllOrNothing, ExecRunsWholeOrNotAtAll) {
  EXPECT_EQ(Ask(client_, {"SET", source_, std::string(3 * kMib, 'q')}), "+OK\r\n");
  // Two copies of what it holds by then: 3 MiB and a byte.
  const std::vector<Words> commands = {{"INCR", "before"},
                                       {"APPEND", source_, "q"},
                                       {"COPY", source_, destination_},
                                       {"COPY", destination_, KeyOn(2, 1)},
                                       {"RENAME", source_, KeyOn(3, 1)},
                                       {"DEL", "before"}};
  pool_.SetMaxBytes(8 * kMib);
  EXPECT_EQ(Exec(commands), kExecOom);
  EXPECT_EQ(Ask(client_, {"STRLEN", source_}), ":" + std::to_string(3 * kMib) + "\r\n");
  EXPECT_EQ(Ask(client_, {"EXISTS", "before", destination_}), ":0\r\n");
  pool_.SetMaxBytes(11 * kMib);
  EXPECT_EQ(Exec(commands),
            "*6\r\n:1\r\n:" + std::to_string(3 * kMib + 1) + "\r\n:1\r\n:1\r\n+OK\r\n:1\r\n");
  EXPECT_EQ(Ask(client_, {"STRLEN", KeyOn(2, 1)}), ":" + std::to_string(3 * kMib + 1) + "\r\n");
}

TEST_P(AllOrNothing, SetRangeCountsWhatItFillsUp) {
  pool_.SetMaxBytes(8 * kMib);
  EXPECT_EQ(Exec({{"SET", "a", "1"}, {"SETRANGE", "b", "20000000", "x"}}), kExecOom);
  EXPECT_EQ(Ask(client_, {"EXISTS", "a", "b"}), ":0\r\n");
  pool_.SetMaxBytes(64 * kMib);
  EXPECT_EQ(Exec({{"SET", "a", "1"}, {"SETRANGE", "b", "20000000", "x"}}),
            "*2\r\n+OK\r\n:20000001\r\n");
}

TEST_P(AllOrNothing, WhatFreesMemoryNeedsNone) {
  for (int i = 0; i < 4; ++i) {
    Ask(client_, {"SET", "k" + std::to_string(i), "1", "EX", "1000"});
  }
  Ask(client_, {"SET", "brief", "1", "PX", "500"});
  Ask(client_, {"SET", source_, std::string(2 * kMib, 'q')});
  pool_.SetMaxBytes(0);
  EXPECT_EQ(Ask(client_, {"SET", "new", "1"}), kOom);
  EXPECT_EQ(Ask(client_, {"COPY", source_, destination_}), kOom);
  EXPECT_EQ(Ask(client_, {"RENAME", source_, destination_}), "+OK\r\n");
  EXPECT_EQ(Ask(client_, {"DEL", "k0"}), ":1\r\n");
  EXPECT_EQ(Ask(client_, {"GETDEL", "k1"}), "$1\r\n1\r\n");
  EXPECT_EQ(Ask(client_, {"PERSIST", "k2"}), ":1\r\n");
  EXPECT_EQ(Exec({{"EXPIRE", "k3", "10"}, {"DEL", "k3"}}), "*2\r\n:1\r\n:1\r\n");
  clock_.now_us += 1'000'000;
  Settle();
  EXPECT_EQ(shard(ShardOf("brief"))->store()->Find({"brief", digester_.Of("brief")}), nullptr)
      << "expired items go";
  EXPECT_EQ(Ask(client_, {"FLUSHALL"}), "+OK\r\n");
}

TEST_P(AllOrNothing, LargeValuesInsideExecDoNotHoldATick) {
  const size_t bytes = 20 * kMib;
  Ask(client_, {"SET", source_, std::string(bytes, 'q')});
  FakeConnection* other = Connect();
  Ask(client_, {"MULTI"});
  Ask(client_, {"SET", KeyOn(2, 2), std::string(bytes, 'w')});
  Ask(client_, {"COPY", source_, destination_});
  Ask(client_, {"RENAME", source_, KeyOn(3, 2)});
  const auto written = [this] {
    uint64_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      sum += shard(static_cast<ShardId>(i))->counters().record_bytes;
    }
    return sum;
  };
  uint64_t before = written();
  client_->Send(Encode({"EXEC"}));
  int ticks = 0;
  for (; client_->received.empty() && ticks < 1000; ++ticks) {
    const uint64_t now = written();
    EXPECT_LE(now - before, 14 * kMib) << "in one tick of " << GetParam() << " threads";
    before = now;
    other->Send(Encode({"PING"}));
    Tick();
    EXPECT_EQ(other->Take(), "+PONG\r\n") << ticks;
    for (uint32_t i = 0; i < threads_.thread_count(); ++i) {
      for (const auto& own : threads_.thread(i)->shards()) {
        EXPECT_FALSE(own->HasParked() && !own->HasRunnable()) << "it waits for a timer";
      }
    }
  }
  EXPECT_GT(ticks, 5);
  EXPECT_EQ(client_->Take(), "*3\r\n+OK\r\n:1\r\n+OK\r\n");
  for (const std::string& key : {KeyOn(2, 2), destination_, KeyOn(3, 2)}) {
    EXPECT_EQ(Ask(client_, {"STRLEN", key}), ":" + std::to_string(bytes) + "\r\n");
  }
}

// No shard has a quota of the log yet but the first.
class FlushOfAll : public SessionFixture, public testing::WithParamInterface<uint32_t> {
 protected:
  FlushOfAll() : SessionFixture(GetParam(), 4) {
  }
};

TEST_P(FlushOfAll, IsRefusedWhole) {
  FakeConnection* client = Connect();
  EXPECT_EQ(Ask(client, {"SET", KeyOn(0), "1"}), "+OK\r\n");
  log_left_bytes_ = shard::Shard::kLogQuotaStepBytes * 5 / 2;
  EXPECT_TRUE(Ask(client, {"FLUSHALL"}).starts_with("-MISCONF "));
  EXPECT_EQ(Ask(client, {"EXISTS", KeyOn(0)}), ":1\r\n");
  log_left_bytes_ = shard::Shard::kLogQuotaStepBytes * 8;
  EXPECT_EQ(Ask(client, {"FLUSHALL", "ASYNC"}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"DBSIZE"}), ":0\r\n");
  EXPECT_EQ(Ask(client, {"FLUSHALL", "LATER"}), "-ERR syntax error\r\n");
}
INSTANTIATE_TEST_SUITE_P(Threads, FlushOfAll, testing::Values(1, 2));

INSTANTIATE_TEST_SUITE_P(Threads, AllOrNothing, testing::Values(1u, 2u));

}  // namespace
}  // namespace kvstored::command
