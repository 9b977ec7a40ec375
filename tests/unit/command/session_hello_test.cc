// HELLO and CLIENT REPLY inside EXEC: which protocol each reply has, and who gets one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "command/command.h"
#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

class ExecProtocolTest : public SessionFixture {
 protected:
  ExecProtocolTest() : SessionFixture(2, 4) {
  }
  // Of two shards on the other thread, and of one where clients connect.
  const std::string remote_ = KeyOn(1);
  const std::string other_ = KeyOn(3);
  const std::string local_ = KeyOn(0);
};

// As Redis 7.0.15 does, tried there: the protocol changes where EXEC runs HELLO.
TEST_F(ExecProtocolTest, HelloInsideExecChangesTheRepliesBehindIt) {
  FakeConnection* client = Connect();
  const std::string hello_3 = Ask(client, {"HELLO", "3"});
  const std::string hello_2 = Ask(client, {"HELLO", "2"});
  ASSERT_EQ(hello_3.substr(0, 2) + hello_2.substr(0, 3), "%7*14");
  const std::string queued = "+QUEUED\r\n";
  client->Send(Encode({"MULTI"}) + Encode({"GET", remote_}) + Encode({"HELLO", "3"}) +
               Encode({"GET", remote_}) + Encode({"MGET", local_}) + Encode({"HELLO", "4"}) +
               Encode({"HELLO", "2"}) + Encode({"GET", local_}) + Encode({"EXEC"}) +
               Encode({"GET", remote_}));
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n" + queued + queued + queued + queued + queued + queued +
                                queued + "*7\r\n$-1\r\n" + hello_3 +
                                "_\r\n*1\r\n_\r\n-NOPROTO unsupported protocol version\r\n" +
                                hello_2 + "$-1\r\n$-1\r\n");
  // What was sent behind EXEC finds the new protocol, however long EXEC waits.
  Commit(false);
  client->Send(Encode({"MULTI"}) + Encode({"SET", remote_, "1"}) + Encode({"HELLO", "3"}) +
               Encode({"EXEC"}) + Encode({"GET", local_}) + Encode({"GET", other_}));
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n" + queued + queued);
  Commit(true);
  Settle();
  EXPECT_EQ(client->Take(), "*2\r\n+OK\r\n" + hello_3 + "_\r\n_\r\n");
  // Where EXEC runs nothing, HELLO does not run either.
  Ask(client, {"WATCH", remote_});
  Ask(client, {"SET", remote_, "2"});
  Ask(client, {"MULTI"});
  Ask(client, {"HELLO", "2"});
  EXPECT_EQ(Ask(client, {"EXEC"}), "_\r\n");
  EXPECT_EQ(Ask(client, {"GET", local_}), "_\r\n");
}

// As Redis 7.0.15 does, tried there: the array keeps the length of all commands.
TEST_F(ExecProtocolTest, ClientReplyInsideExecCountsFromWhereItStands) {
  for (const std::string& key : {local_, remote_}) {
    FakeConnection* client = Connect();
    const auto sent = [&](const std::vector<Words>& all) {
      std::string bytes;
      for (const Words& words : all) {
        bytes += Encode(words);
      }
      client->Send(bytes);
      Settle();
      return client->Take();
    };
    const Words multi = {"MULTI"};
    const Words exec = {"EXEC"};
    const Words ping = {"PING"};
    const Words set = {"SET", key, "1"};
    const Words get = {"GET", key};
    const Words off = {"CLIENT", "REPLY", "OFF"};
    const Words on = {"CLIENT", "REPLY", "ON"};
    const Words skip = {"CLIENT", "REPLY", "SKIP"};
    const std::string queued = "+QUEUED\r\n";
    const std::string ok = "+OK\r\n";
    const std::string one = "$1\r\n1\r\n";
    const std::string pong = "+PONG\r\n";
    EXPECT_EQ(sent({multi, set, off, get, exec, ping}),
              ok + queued + queued + queued + "*3\r\n" + ok);
    EXPECT_EQ(
        sent({on, multi, set, off, get, on, get, exec, ping}),
        ok + ok + queued + queued + queued + queued + queued + "*5\r\n" + ok + ok + one + pong);
    EXPECT_EQ(sent({multi, set, skip, get, get, exec, ping, ping}),
              ok + queued + queued + queued + queued + "*4\r\n" + ok + one + one + pong);
    EXPECT_EQ(sent({off, multi, set, on, get, exec, ping}), ok + one + pong);
  }
}

// EXEC turns a null that a shard wrote into one of the protocol that HELLO has chosen since: no
// command on a key may reply with anything else in which the protocols differ.
TEST_F(ExecProtocolTest, CommandsOnAKeySpeakEachProtocolInsideExec) {
  FakeConnection* client = Connect();
  for (const CommandSpec& spec : CommandTable()) {
    if (spec.reach != Reach::kKey) {
      continue;
    }
    for (const bool present : {false, true}) {
      const int word_count = std::max(std::abs(spec.arity), spec.first_key + 1);
      Words words(static_cast<size_t>(word_count), "1");
      words[0] = spec.name;
      if ((spec.flags & kFlagSubcommands) != 0) {
        words[1] = words[0] == "object" ? "encoding" : "usage";
      }
      words[static_cast<size_t>(spec.first_key)] = remote_;
      const auto prepare = [&](const char* protocol) {
        Ask(client, {"HELLO", protocol});
        Ask(client, {"FLUSHALL"});
        if (present) {
          Ask(client, {"SET", remote_, "7"});
        }
      };
      prepare("3");
      const std::string expected = Ask(client, words);
      prepare("2");
      Ask(client, {"MULTI"});
      Ask(client, {"HELLO", "3"});
      Ask(client, words);
      const std::string replies = Ask(client, {"EXEC"});
      ASSERT_GT(replies.size(), expected.size());
      EXPECT_EQ(replies.substr(replies.size() - expected.size()), expected)
          << spec.name << (present ? ", present" : ", absent");
    }
  }
}

}  // namespace
}  // namespace kvstored::command
