// What INFO counts, and how Redis counts it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

class FiguresTest : public SessionFixture {};

// What Redis 7.0.15 counts as lookups: those of commands that read, one for each key.
TEST_F(FiguresTest, HitsAndMissesAreThoseOfReads) {
  struct Case {
    Words words;
    int present;  // hits if k is present
    int absent;   // misses if it is not
  };
  const std::vector<Case> cases = {
      {{"GET", "k"}, 1, 1},
      {{"SET", "k", "2"}, 0, 0},
      {{"SET", "k", "2", "GET"}, 1, 1},
      {{"SET", "k", "2", "XX"}, 0, 0},
      {{"SETNX", "k", "2"}, 0, 0},
      {{"GETSET", "k", "2"}, 1, 1},
      {{"GETDEL", "k"}, 1, 1},
      {{"GETEX", "k", "EX", "10"}, 1, 1},
      {{"MGET", "k", "k"}, 2, 2},
      {{"MSET", "k", "1"}, 0, 0},
      {{"MSETNX", "k", "1"}, 0, 0},
      {{"APPEND", "k", "1"}, 0, 0},
      {{"STRLEN", "k"}, 1, 1},
      {{"GETRANGE", "k", "0", "1"}, 1, 1},
      {{"SETRANGE", "k", "0", "1"}, 0, 0},
      {{"INCR", "k"}, 0, 0},
      {{"INCRBYFLOAT", "k", "1"}, 0, 0},
      {{"DEL", "k"}, 0, 0},
      {{"EXISTS", "k", "k"}, 2, 2},
      {{"TOUCH", "k"}, 1, 1},
      {{"TYPE", "k"}, 1, 1},
      {{"RENAME", "k", "b"}, 0, 0},
      {{"COPY", "k", "b"}, 1, 1},
      {{"EXPIRE", "k", "100"}, 0, 0},
      {{"TTL", "k"}, 1, 1},
      {{"PERSIST", "k"}, 0, 0},
      {{"OBJECT", "ENCODING", "k"}, 1, 1},
      {{"MEMORY", "USAGE", "k"}, 0, 0},
      {{"WATCH", "k"}, 0, 0},
      {{"KEYS", "*"}, 0, 0},
  };
  FakeConnection* client = Connect();
  const auto figure = [&](const std::string& name) {
    const std::string text = Ask(client, {"INFO", "stats"});
    return std::stoi(text.substr(text.find("\n" + name + ":") + name.size() + 2));
  };
  for (const Case& c : cases) {
    for (const bool present : {true, false}) {
      Ask(client, {"FLUSHALL"});
      if (present) {
        Ask(client, {"SET", "k", "1"});
      }
      EXPECT_EQ(Ask(client, {"CONFIG", "RESETSTAT"}), "+OK\r\n");
      Ask(client, c.words);
      EXPECT_EQ(figure("keyspace_hits"), present ? c.present : 0) << c.words[0];
      EXPECT_EQ(figure("keyspace_misses"), present ? 0 : c.absent) << c.words[0];
    }
  }
}

TEST_F(FiguresTest, FiguresOfCommands) {
  FakeConnection* client = Connect();
  const auto figure = [&](const std::string& name) {
    const std::string text = set_->InfoSection("stats");
    return std::stoi(text.substr(text.find(name + ":") + name.size() + 1));
  };
  Ask(client, {"CONFIG", "RESETSTAT"});
  EXPECT_EQ(figure("total_commands_processed"), 1);  // itself, as in Redis
  Ask(client, {"MULTI"});
  Ask(client, {"GET", "k"});  // queued: counts when it runs
  Ask(client, {"GET"});       // refused: never counts
  Ask(client, {"EXEC"});
  Ask(client, {"NOSUCH"});
  EXPECT_EQ(figure("total_commands_processed"), 3);
  Ask(client, {"MULTI"});
  Ask(client, {"GET", "k"});
  Ask(client, {"GET", "k"});
  Ask(client, {"EXEC"});
  EXPECT_EQ(figure("total_commands_processed"), 7);
  // 100 a tick of 100 ms, for more than the window's 1.6 s.
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 100; ++k) {
      client->Send(Encode({"PING"}));
    }
    clock_.now_us += 100'000;
    Tick();
  }
  EXPECT_EQ(figure("instantaneous_ops_per_sec"), 1000);
  clock_.now_us += 10'000'000;
  for (int i = 0; i < 40; ++i) {
    clock_.now_us += 100'000;
    Tick();
  }
  EXPECT_EQ(figure("instantaneous_ops_per_sec"), 0);
}

}  // namespace
}  // namespace kvstored::command
