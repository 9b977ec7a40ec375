// Two shard threads: commands that travel, transactions over both.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

class ThreadsTest : public SessionFixture {
 protected:
  ThreadsTest() : SessionFixture(2, 4) {
    for (int i = 0; i < 4; ++i) {
      keys_.push_back(KeyOn(static_cast<ShardId>(i)));
    }
  }
  // One key on each shard; shards 0 and 2 live on thread 0, where clients connect.
  std::vector<std::string> keys_;
};

TEST_F(ThreadsTest, PipelinesAcrossThreadsKeepTheirOrder) {
  FakeConnection* client = Connect();
  std::string input;
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    const std::string n = std::to_string(i);
    input += Encode({"SET", "k" + n, "v" + n}) + Encode({"GET", "k" + n}) + Encode({"PING"});
    expected += "+OK\r\n$" + std::to_string(n.size() + 1) + "\r\nv" + n + "\r\n+PONG\r\n";
  }
  client->Send(input);
  Settle();
  EXPECT_EQ(client->Take(), expected);
}

TEST_F(ThreadsTest, AFullMailboxHoldsTheClientBack) {
  FakeConnection* client = Connect();
  std::string input;
  for (int i = 0; i < 6000; ++i) {
    input += Encode({"INCR", keys_[1]});
  }
  client->Send(input);
  EXPECT_GT(client->input_bytes(), 0u);
  EXPECT_FALSE(client->session->CanRead());
  for (int i = 0; i < 100; ++i) {
    Tick();
  }
  Settle();
  EXPECT_EQ(client->input_bytes(), 0u);
  const std::string replies = client->Take();
  EXPECT_EQ(replies.substr(replies.size() - 7), ":6000\r\n");
}

TEST_F(ThreadsTest, RemoteRepliesWaitForTheirCommit) {
  FakeConnection* client = Connect();
  Commit(false);
  EXPECT_EQ(Ask(client, {"SET", keys_[1], "1"}), "");
  EXPECT_EQ(Ask(client, {"GET", keys_[0]}), "");  // behind it
  Commit(true);
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n$-1\r\n");
}

TEST_F(ThreadsTest, FansAddUp) {
  FakeConnection* client = Connect();
  EXPECT_EQ(Ask(client, {"MSET", keys_[0], "a", keys_[1], "b", keys_[2], "c", keys_[3], "d"}),
            "+OK\r\n");
  EXPECT_EQ(Ask(client, {"EXISTS", keys_[0], keys_[1], "none", keys_[1]}), ":3\r\n");
  EXPECT_EQ(Ask(client, {"DBSIZE"}), ":4\r\n");
  EXPECT_EQ(Ask(client, {"MGET", keys_[3], "none", keys_[0], keys_[1]}),
            "*4\r\n$1\r\nd\r\n$-1\r\n$1\r\na\r\n$1\r\nb\r\n");
  EXPECT_EQ(Ask(client, {"DEL", keys_[0], keys_[1], keys_[2]}), ":3\r\n");
  client->Send(Encode({"FLUSHALL"}) + Encode({"DBSIZE"}) + Encode({"GET", keys_[3]}));
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n:0\r\n$-1\r\n");
}

TEST_F(ThreadsTest, MsetCommitsAsOne) {
  FakeConnection* client = Connect();
  FakeConnection* readers[2] = {Connect(0), Connect(1)};
  Commit(false);
  client->Send(Encode({"MSET", keys_[0], "1", keys_[1], "1"}));
  Settle();
  readers[0]->Send(Encode({"GET", keys_[0]}));
  readers[1]->Send(Encode({"GET", keys_[1]}));
  Settle();
  safe_[0] = UINT64_MAX;  // one part alone passes nothing
  Settle();
  EXPECT_EQ(client->Take() + readers[0]->Take() + readers[1]->Take(), "");
  safe_[1] = UINT64_MAX;
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n");
  EXPECT_EQ(readers[0]->Take(), "$1\r\n1\r\n");
  EXPECT_EQ(readers[1]->Take(), "$1\r\n1\r\n");
}

TEST_F(ThreadsTest, ExecRunsWhatWasQueued) {
  FakeConnection* client = Connect();
  client->Send(Encode({"MULTI"}) + Encode({"SET", keys_[0], "5"}) + Encode({"INCR", keys_[0]}) +
               Encode({"APPEND", keys_[1], "xy"}) + Encode({"RENAME", keys_[0], keys_[3]}) +
               Encode({"MGET", keys_[0], keys_[3], keys_[1]}) + Encode({"INCR", keys_[1]}) +
               Encode({"DEL", keys_[1], keys_[2]}) + Encode({"DBSIZE"}) + Encode({"PING"}) +
               Encode({"EXEC"}));
  Settle();
  EXPECT_EQ(
      client->Take(),
      "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
      "+QUEUED\r\n+QUEUED\r\n*9\r\n+OK\r\n:6\r\n:2\r\n+OK\r\n*3\r\n$-1\r\n$1\r\n6\r\n$2\r\nxy\r\n"
      "-ERR value is not an integer or out of range\r\n:1\r\n:1\r\n+PONG\r\n");
  EXPECT_EQ(Ask(client, {"GET", keys_[3]}), "$1\r\n6\r\n");
}

TEST_F(ThreadsTest, MultiInTheWordsOfRedis) {
  FakeConnection* client = Connect();
  EXPECT_EQ(Ask(client, {"EXEC"}), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(Ask(client, {"DISCARD"}), "-ERR DISCARD without MULTI\r\n");
  EXPECT_EQ(Ask(client, {"MULTI"}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"MULTI"}), "-ERR MULTI calls can not be nested\r\n");
  EXPECT_EQ(Ask(client, {"WATCH", "a"}), "-ERR WATCH inside MULTI is not allowed\r\n");
  EXPECT_EQ(Ask(client, {"GET"}), "-ERR wrong number of arguments for 'get' command\r\n");
  EXPECT_EQ(Ask(client, {"SET", "a", "1"}), "+QUEUED\r\n");
  EXPECT_EQ(Ask(client, {"EXEC"}),
            "-EXECABORT Transaction discarded because of previous errors.\r\n");
  EXPECT_EQ(Ask(client, {"GET", "a"}), "$-1\r\n");
  EXPECT_EQ(Ask(client, {"MULTI"}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"EXEC"}), "*0\r\n");
  EXPECT_EQ(Ask(client, {"MULTI"}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"SET", "a", "1"}), "+QUEUED\r\n");
  gate_.no_replicas = true;
  EXPECT_EQ(Ask(client, {"EXEC"}),
            "-EXECABORT Transaction discarded because of: NOREPLICAS Not enough good replicas to "
            "write.\r\n");
  gate_.no_replicas = false;
  EXPECT_EQ(Ask(client, {"MSET", "a", "1", "b"}),
            "-ERR wrong number of arguments for 'mset' command\r\n");
}

TEST_F(ThreadsTest, WatchSeesChanges) {
  FakeConnection* client = Connect();
  FakeConnection* other = Connect(1);
  for (int changed = 0; changed < 4; ++changed) {
    EXPECT_EQ(Ask(client, {"WATCH", keys_[0], keys_[1], keys_[2]}), "+OK\r\n");
    EXPECT_EQ(Ask(client, {"MULTI"}), "+OK\r\n");
    EXPECT_EQ(Ask(client, {"SET", "x", "1"}), "+QUEUED\r\n");
    EXPECT_EQ(Ask(other, {"SET", keys_[static_cast<size_t>(changed)], "new"}), "+OK\r\n");
    EXPECT_EQ(Ask(client, {"EXEC"}), changed == 3 ? "*1\r\n+OK\r\n" : "*-1\r\n") << changed;
  }
  EXPECT_EQ(Ask(client, {"WATCH", keys_[1]}), "+OK\r\n");
  EXPECT_EQ(Ask(other, {"DEL", keys_[1]}), ":1\r\n");
  EXPECT_EQ(Ask(client, {"UNWATCH"}), "+OK\r\n");
  client->Send(Encode({"MULTI"}) + Encode({"GET", "x"}) + Encode({"EXEC"}));
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n+QUEUED\r\n*1\r\n$1\r\n1\r\n");
}

// As Redis 7.0.15 does, each row tried there: what was done to keys_[1] before WATCH and after it.
TEST_F(ThreadsTest, WatchSeesWhatCameAndWent) {
  FakeConnection* client = Connect();
  FakeConnection* other = Connect(1);
  const std::string& k = keys_[1];
  const Words set = {"SET", k, "1"};
  const Words brief = {"SET", k, "1", "PX", "1000"};
  const Words del = {"DEL", k};
  const Words pass = {"(2 s)"};
  struct Case {
    const char* name;
    std::vector<Words> before;
    std::vector<Words> after;
    bool runs;
  };
  const std::vector<Case> cases = {
      {"untouched", {}, {}, true},
      {"made and removed", {}, {set, del}, false},
      {"removed, though absent", {}, {del, {"FLUSHALL"}}, true},
      {"made and flushed", {}, {set, {"FLUSHALL"}}, false},
      {"made and taken", {}, {{"SETNX", k, "1"}, {"GETDEL", k}}, false},
      {"renamed there and away",
       {},
       {{"SET", "q", "1"}, {"RENAME", "q", k}, {"RENAME", k, "q"}},
       false},
      {"made, expired", {}, {brief, pass}, false},
      {"made, expired, looked at", {}, {brief, pass, {"GET", k}}, false},
      {"present, flushed", {set}, {{"FLUSHALL"}}, false},
      {"present, expires", {brief}, {pass}, false},
      {"present, removed and made again", {set}, {del, set}, false},
      {"expired before, its removal", {brief, pass}, {{"GET", k}, pass}, true},
      {"expired before, set", {brief, pass}, {set}, false},
      {"expired before, set and removed", {brief, pass}, {set, del}, false},
      {"expired before, removed and flushed", {brief, pass}, {del, {"FLUSHALL"}}, true},
  };
  const auto run = [&](const std::vector<Words>& commands) {
    for (const Words& words : commands) {
      if (words == pass) {
        clock_.now_us += 2'000'000;
        Settle();
      } else {
        Ask(other, words);
      }
    }
  };
  for (const Case& c : cases) {
    Ask(other, {"FLUSHALL"});
    run(c.before);
    EXPECT_EQ(Ask(client, {"WATCH", k, keys_[2]}), "+OK\r\n");
    run(c.after);
    Ask(client, {"MULTI"});
    Ask(client, {"SET", "x", "1"});
    EXPECT_EQ(Ask(client, {"EXEC"}), c.runs ? "*1\r\n+OK\r\n" : "*-1\r\n") << c.name;
  }
  // Its own commands count too.
  Ask(client, {"WATCH", keys_[0]});
  Ask(client, {"SET", keys_[0], "1"});
  Ask(client, {"DEL", keys_[0]});
  Ask(client, {"MULTI"});
  EXPECT_EQ(Ask(client, {"EXEC"}), "*-1\r\n");
}

TEST_F(ThreadsTest, UnwatchForgetsWhatIsStillBeingAsked) {
  FakeConnection* client = Connect();
  FakeConnection* other = Connect(1);
  const std::vector<std::vector<Words>> endings = {
      {{"UNWATCH"}}, {{"MULTI"}, {"DISCARD"}}, {{"RESET"}}};
  for (const std::vector<Words>& ending : endings) {
    std::string input = Encode({"WATCH", keys_[0], keys_[1]});
    for (const Words& words : ending) {
      input += Encode(words);
    }
    client->Send(input);
    Settle();
    client->Take();
    Ask(other, {"SET", keys_[1], "new"});
    Ask(client, {"MULTI"});
    EXPECT_EQ(Ask(client, {"EXEC"}), "*0\r\n");
  }
}

TEST_F(ThreadsTest, AnAbortedExecWaitsForTheChangeItSaw) {
  FakeConnection* client = Connect();
  FakeConnection* other = Connect(1);
  Ask(client, {"WATCH", keys_[1]});
  Ask(client, {"MULTI"});
  Commit(false);
  EXPECT_EQ(Ask(other, {"SET", keys_[1], "new"}), "");
  EXPECT_EQ(Ask(client, {"EXEC"}), "");
  Commit(true);
  Settle();
  EXPECT_EQ(client->Take(), "*-1\r\n");
}

TEST_F(ThreadsTest, HeldShardsMakeOthersWait) {
  FakeConnection* client = Connect();
  FakeConnection* other = Connect(1);
  ASSERT_TRUE(shard(1)->TryHold(77));
  client->Send(Encode({"MSET", keys_[0], "1", keys_[1], "1"}) + Encode({"PING"}));
  other->Send(Encode({"SET", keys_[1], "2"}) + Encode({"GET", keys_[1]}) + Encode({"PING"}));
  Settle();
  EXPECT_EQ(client->Take() + other->Take(), "");
  // Shard 0 is taken by the transaction already: nobody sees the half of it.
  FakeConnection* third = Connect(0);
  EXPECT_EQ(Ask(third, {"GET", keys_[0]}), "");
  shard(1)->ReleaseHold(77);
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n+PONG\r\n");
  // The transaction came between the two commands of the other client.
  EXPECT_EQ(other->Take(), "+OK\r\n$1\r\n1\r\n+PONG\r\n");
  EXPECT_EQ(third->Take(), "$1\r\n1\r\n");
}

TEST_F(ThreadsTest, CommandsBehindAWaitingOneKeepTheirOrder) {
  FakeConnection* client = Connect(0);
  ASSERT_TRUE(shard(1)->TryHold(77));
  client->Send(Encode({"SET", keys_[1], "1"}) + Encode({"GET", keys_[1]}) +
               Encode({"INCR", keys_[1]}) + Encode({"GET", keys_[0]}));
  Settle();
  EXPECT_EQ(client->Take(), "");
  shard(1)->ReleaseHold(77);
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n$1\r\n1\r\n:2\r\n$-1\r\n");
}

TEST_F(ThreadsTest, MsetNxRenameCopy) {
  FakeConnection* client = Connect();
  EXPECT_EQ(Ask(client, {"MSETNX", keys_[0], "1", keys_[1], "2"}), ":1\r\n");
  EXPECT_EQ(Ask(client, {"MSETNX", keys_[2], "1", keys_[1], "9"}), ":0\r\n");
  EXPECT_EQ(Ask(client, {"EXISTS", keys_[2]}), ":0\r\n");
  EXPECT_EQ(Ask(client, {"PEXPIRE", keys_[0], "100000"}), ":1\r\n");
  EXPECT_EQ(Ask(client, {"RENAME", keys_[0], keys_[3]}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"GET", keys_[0]}), "$-1\r\n");
  EXPECT_EQ(Ask(client, {"GET", keys_[3]}), "$1\r\n1\r\n");
  EXPECT_EQ(Ask(client, {"TTL", keys_[3]}).substr(0, 2), ":9");
  EXPECT_EQ(Ask(client, {"RENAME", keys_[0], keys_[3]}), "-ERR no such key\r\n");
  EXPECT_EQ(Ask(client, {"RENAMENX", keys_[1], keys_[3]}), ":0\r\n");
  EXPECT_EQ(Ask(client, {"RENAMENX", keys_[1], keys_[2]}), ":1\r\n");
  EXPECT_EQ(Ask(client, {"RENAME", keys_[2], keys_[2]}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"COPY", keys_[2], keys_[3]}), ":0\r\n");
  EXPECT_EQ(Ask(client, {"COPY", keys_[2], keys_[3], "REPLACE"}), ":1\r\n");
  EXPECT_EQ(Ask(client, {"GET", keys_[3]}), "$1\r\n2\r\n");
  EXPECT_EQ(Ask(client, {"TTL", keys_[3]}), ":-1\r\n");
  EXPECT_EQ(Ask(client, {"COPY", "none", keys_[0]}), ":0\r\n");
  EXPECT_EQ(Ask(client, {"COPY", keys_[2], keys_[2]}),
            "-ERR source and destination objects are the same\r\n");
  EXPECT_EQ(Ask(client, {"COPY", keys_[2], keys_[3], "DB", "1"}),
            "-ERR DB index is out of range\r\n");
}

TEST_F(ThreadsTest, LargeValuesInTransactions) {
  FakeConnection* client = Connect();
  const std::string big(5 << 20, 'q');
  const std::string reply = "$" + std::to_string(big.size()) + "\r\n" + big + "\r\n";
  EXPECT_EQ(Ask(client, {"MSET", keys_[0], big, keys_[1], "s"}), "+OK\r\n");
  EXPECT_TRUE(Ask(client, {"GET", keys_[0]}) == reply);
  EXPECT_EQ(Ask(client, {"RENAME", keys_[0], keys_[1]}), "+OK\r\n");
  EXPECT_TRUE(Ask(client, {"GET", keys_[1]}) == reply);
  EXPECT_EQ(Ask(client, {"COPY", keys_[1], keys_[2]}), ":1\r\n");
  EXPECT_TRUE(Ask(client, {"MGET", keys_[2]}) == "*1\r\n" + reply);
  client->Send(Encode({"MULTI"}) + Encode({"SET", keys_[3], big}) + Encode({"STRLEN", keys_[3]}) +
               Encode({"GET", keys_[1]}) + Encode({"EXEC"}));
  Settle();
  EXPECT_TRUE(client->Take() == "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n:" +
                                    std::to_string(big.size()) + "\r\n" + reply);
  // While nothing commits the window fills: the value waits, others are served.
  Commit(false);
  client->Send(Encode({"SET", keys_[0], std::string(20 << 20, 'w')}));
  Settle();
  FakeConnection* other = Connect();
  EXPECT_EQ(Ask(other, {"PING"}), "+PONG\r\n");
  EXPECT_EQ(client->Take(), "");
  Commit(true);
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n");
}

TEST_F(ThreadsTest, ClientsThatLeaveWithOpsOut) {
  for (int round = 0; round < 8; ++round) {
    FakeConnection* client = Connect();
    Commit(false);
    client->Send(Encode({"SET", keys_[1], "1"}) + Encode({"DEL", keys_[0], keys_[1]}) +
                 Encode({"DBSIZE"}) + Encode({"WATCH", keys_[1]}) +
                 Encode({"MSET", keys_[0], "1", keys_[1], "2"}));
    for (int i = 0; i < round; ++i) {
      Tick();
    }
    client->Close();
    Tick();
    Commit(true);
    Settle();
  }
  EXPECT_EQ(set_->connection_count(), 0u);
}

TEST_F(ThreadsTest, ClientListAndKill) {
  FakeConnection* first = Connect(0);
  FakeConnection* second = Connect(1);
  Ask(second, {"CLIENT", "SETNAME", "two"});
  const std::string list = Ask(first, {"CLIENT", "LIST"});
  EXPECT_NE(list.find("id=1 addr=10.0.0.1:1000 laddr=10.0.0.2:7379 fd=7 name= age="),
            std::string::npos)
      << list;
  EXPECT_NE(list.find("name=two"), std::string::npos);
  EXPECT_EQ(Ask(first, {"CLIENT", "KILL", "10.9.9.9:1"}), "-ERR No such client\r\n");
  EXPECT_EQ(Ask(first, {"CLIENT", "KILL", "ID", "2"}), ":1\r\n");
  EXPECT_TRUE(second->closed);
  EXPECT_EQ(Ask(first, {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"}), ":1\r\n");
  EXPECT_TRUE(first->closed);
  first = Connect(0);
  EXPECT_EQ(Ask(first, {"CLIENT", "KILL", "SKIPME", "x"}), "-ERR syntax error\r\n");
  EXPECT_EQ(Ask(first, {"CLIENT", "NONE"}), "-ERR unknown subcommand 'NONE'. Try CLIENT HELP.\r\n");
}

}  // namespace
}  // namespace kvstored::command
