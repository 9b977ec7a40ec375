#include <gtest/gtest.h>

#include <string>

#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

class SessionTest : public SessionFixture {};

TEST_F(SessionTest, PipelinesRepliesInOrder) {
  FakeConnection* client = Connect();
  std::string input;
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    const std::string n = std::to_string(i);
    input += Encode({"SET", "k" + n, "v" + n}) + Encode({"GET", "k" + n}) + "PING\r\n";
    expected += "+OK\r\n$" + std::to_string(n.size() + 1) + "\r\nv" + n + "\r\n+PONG\r\n";
  }
  client->Send(input);
  Settle();
  EXPECT_EQ(client->Take(), expected);
}

TEST_F(SessionTest, SplitInputAnywhere) {
  const std::string input = Encode({"SET", "a", "1"}) + Encode({"INCR", "a"}) + "ECHO \"x y\"\r\n" +
                            Encode({"MGET", "a", "b"});
  for (size_t cut = 0; cut <= input.size(); ++cut) {
    FakeConnection* client = Connect();
    client->Send(input.substr(0, cut));
    client->Send(input.substr(cut));
    Settle();
    EXPECT_EQ(client->Take(), "+OK\r\n:2\r\n$3\r\nx y\r\n*2\r\n$1\r\n2\r\n$-1\r\n") << cut;
    client->Close();
    Tick();
  }
}

TEST_F(SessionTest, RepliesWaitForTheirCommit) {
  FakeConnection* client = Connect();
  FakeConnection* reader = Connect();
  EXPECT_EQ(Ask(client, {"SET", "a", "1"}), "+OK\r\n");
  Commit(false);
  EXPECT_EQ(Ask(client, {"SET", "a", "2"}), "");
  EXPECT_EQ(Ask(client, {"PING"}), "");      // behind the write
  EXPECT_EQ(Ask(reader, {"GET", "a"}), "");  // saw what is not committed
  FakeConnection* other = Connect();
  const std::string calm = KeyOn(static_cast<ShardId>((ShardOf("a") + 1) % 4));
  EXPECT_EQ(Ask(other, {"GET", calm}), "$-1\r\n");
  EXPECT_EQ(Ask(other, {"PING"}), "+PONG\r\n");
  Commit(true);
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n+PONG\r\n");
  EXPECT_EQ(reader->Take(), "$1\r\n2\r\n");
}

TEST_F(SessionTest, AMissWaitsForTheRemovalItSaw) {
  FakeConnection* client = Connect();
  FakeConnection* reader = Connect();
  Ask(client, {"SET", "a", "1"});
  Commit(false);
  EXPECT_EQ(Ask(client, {"DEL", "a"}), "");
  EXPECT_EQ(Ask(reader, {"GET", "a"}), "");
  Commit(true);
  Settle();
  EXPECT_EQ(client->Take(), ":1\r\n");
  EXPECT_EQ(reader->Take(), "$-1\r\n");
}

TEST_F(SessionTest, AReplyGatedTooLongEndsTheConnection) {
  FakeConnection* client = Connect();
  set_->settings().gate_timeout_us = 1'000'000;
  Commit(false);
  client->Send(Encode({"SET", "a", "1"}));
  Settle();
  EXPECT_FALSE(client->closed);
  clock_.now_us += 2'000'000;
  Settle();
  EXPECT_TRUE(client->closed);
  EXPECT_EQ(client->Take(), "");
}

TEST_F(SessionTest, RefusalsInTheWordsOfRedis) {
  FakeConnection* client = Connect();
  EXPECT_EQ(Ask(client, {"FOO", "a", "b"}),
            "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' \r\n");
  EXPECT_EQ(Ask(client, {"get"}), "-ERR wrong number of arguments for 'get' command\r\n");
  gate_.loading = true;
  gate_.writable = false;
  EXPECT_EQ(Ask(client, {"GET", "a"}), "-LOADING Redis is loading the dataset in memory\r\n");
  EXPECT_EQ(Ask(client, {"PING"}), "-LOADING Redis is loading the dataset in memory\r\n");
  gate_.loading = false;
  gate_.role = static_cast<uint8_t>(Role::kReplica);
  EXPECT_EQ(Ask(client, {"SET", "a", "1"}),
            "-READONLY You can't write against a read only replica.\r\n");
  EXPECT_EQ(Ask(client, {"GET", "a"}), "$-1\r\n");
  gate_.role = static_cast<uint8_t>(Role::kPrimary);
  gate_.stepped_down = true;
  EXPECT_EQ(Ask(client, {"SET", "a", "1"}),
            "-MISCONF Errors writing to the AOF file: Input/output error\r\n");
  gate_.stepped_down = false;
  gate_.writable = true;
  gate_.no_replicas = true;
  EXPECT_EQ(Ask(client, {"SET", "a", "1"}), "-NOREPLICAS Not enough good replicas to write.\r\n");
  gate_.no_replicas = false;
  disk_full_ = true;
  EXPECT_EQ(Ask(client, {"SET", "a", std::string(400'000, 'x')}),
            "-MISCONF Errors writing to the AOF file: No space left on device\r\n");
  disk_full_ = false;
  EXPECT_EQ(Ask(client, {"SET", "a", "1"}), "+OK\r\n");
}

TEST_F(SessionTest, ProtocolErrorsEndTheConnectionAfterTheirReply) {
  FakeConnection* client = Connect();
  client->Send(Encode({"SET", "a", "1"}) + "*1\r\n:3\r\n" + Encode({"PING"}));
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n");
  EXPECT_TRUE(client->closed);
}

TEST_F(SessionTest, BrowsersAreCutOff) {
  FakeConnection* client = Connect();
  client->Send("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET a 1\r\n");
  Settle();
  EXPECT_TRUE(client->closed);
  EXPECT_EQ(client->Take(), "");
}

TEST_F(SessionTest, QuitAnswersFirst) {
  FakeConnection* client = Connect();
  Commit(false);
  client->Send(Encode({"SET", "a", "1"}) + Encode({"QUIT"}) + Encode({"PING"}));
  Settle();
  EXPECT_FALSE(client->closed);
  Commit(true);
  Settle();
  EXPECT_TRUE(client->closed);
  EXPECT_EQ(client->Take(), "+OK\r\n+OK\r\n");
}

TEST_F(SessionTest, HalfClosedClientsGetTheirReplies) {
  FakeConnection* client = Connect();
  Commit(false);
  client->Send(Encode({"SET", "a", "1"}));
  client->session->OnEof();
  Settle();
  EXPECT_FALSE(client->closed);
  Commit(true);
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n");
  EXPECT_TRUE(client->closed);
}

TEST_F(SessionTest, PasswordsAndHello) {
  set_->settings().SetPassword("secret");
  FakeConnection* client = Connect();
  EXPECT_EQ(Ask(client, {"GET", "a"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(Ask(client, {"AUTH", "wrong"}),
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  EXPECT_EQ(Ask(client, {"HELLO", "3"}).substr(0, 8), "-NOAUTH ");
  EXPECT_EQ(Ask(client, {"HELLO", "4"}), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(Ask(client, {"HELLO", "x"}),
            "-ERR Protocol version is not an integer or out of range\r\n");
  const std::string hello =
      Ask(client, {"HELLO", "3", "AUTH", "default", "secret", "SETNAME", "me"});
  EXPECT_EQ(hello.substr(0, 33), "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nve");
  EXPECT_EQ(Ask(client, {"GET", "a"}), "_\r\n");
  EXPECT_EQ(Ask(client, {"CLIENT", "GETNAME"}), "$2\r\nme\r\n");
  EXPECT_EQ(Ask(client, {"RESET"}), "+RESET\r\n");
  EXPECT_EQ(Ask(client, {"GET", "a"}), "-NOAUTH Authentication required.\r\n");
  // Pipelined behind AUTH in one piece.
  client->Send(Encode({"AUTH", "secret"}) + Encode({"GET", "a"}));
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n$-1\r\n");
  client = Connect();
  client->Send("*11\r\n");
  Settle();
  EXPECT_EQ(client->Take(), "-ERR Protocol error: unauthenticated multibulk length\r\n");
}

// Each row as Redis 7.0.15 answers it.
TEST_F(SessionTest, HelloTakesItsOptionsOneAfterTheOther) {
  FakeConnection* client = Connect();
  const auto name = [&] {
    return Ask(client, {"CLIENT", "GETNAME"});
  };
  const std::string no_integer = "-ERR Protocol version is not an integer or out of range\r\n";
  EXPECT_EQ(Ask(client, {"HELLO", "x", "AUTH"}), no_integer);
  EXPECT_EQ(Ask(client, {"HELLO", "SETNAME", "x"}), no_integer);
  EXPECT_EQ(Ask(client, {"HELLO", "03"}), no_integer);
  EXPECT_EQ(Ask(client, {"HELLO", "-3"}), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(Ask(client, {"HELLO", "4", "AUTH"}), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(Ask(client, {"HELLO", "3", "AUTH", "a"}),
            "-ERR Syntax error in HELLO option 'AUTH'\r\n");
  EXPECT_EQ(Ask(client, {"HELLO", "2", "SETNAME", "foo", "a\r\nb"}),
            "-ERR Syntax error in HELLO option 'a  b'\r\n");
  EXPECT_EQ(name(), "$3\r\nfoo\r\n");
  EXPECT_EQ(Ask(client, {"HELLO", "2", "SETNAME", "two", "AUTH", "nobody", "x"}),
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  EXPECT_EQ(name(), "$3\r\ntwo\r\n");
  EXPECT_EQ(Ask(client, {"HELLO", "3", "SETNAME", "one", "SETNAME", "b c"}),
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n");
  EXPECT_EQ(name(), "$3\r\none\r\n");
  EXPECT_EQ(Ask(client, {"GET", "none"}), "$-1\r\n");  // still RESP2
  EXPECT_EQ(Ask(client, {"HELLO", "2", std::string("SETNAME\0x", 9), "nul"}).substr(0, 5),
            "*14\r\n");
  EXPECT_EQ(name(), "$3\r\nnul\r\n");
  EXPECT_EQ(Ask(client, {"HELLO"}).substr(0, 5), "*14\r\n");
  EXPECT_EQ(Ask(client, {"hello", "3"}).substr(0, 4), "%7\r\n");
  EXPECT_EQ(Ask(client, {"HELLO"}).substr(0, 4), "%7\r\n");

  set_->settings().SetPassword("secret");
  client = Connect();
  EXPECT_EQ(Ask(client, {"HELLO"}),
            "-NOAUTH HELLO must be called with the client already authenticated, otherwise the "
            "HELLO AUTH <user> <pass> option can be used to authenticate the client and select the "
            "RESP protocol version at the same time\r\n");
  EXPECT_EQ(Ask(client, {"HELLO", "2", "AUTH", "default", "secret", "BAD"}),
            "-ERR Syntax error in HELLO option 'BAD'\r\n");
  EXPECT_EQ(Ask(client, {"GET", "none"}), "$-1\r\n");  // authenticated
}

TEST_F(SessionTest, SelectInTheWordsOfRedis) {
  FakeConnection* client = Connect();
  const std::string too_wide =
      "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n";
  EXPECT_EQ(Ask(client, {"SELECT", "0"}), "+OK\r\n");
  for (const char* text : {"", "abc", "00", "1.0", "9223372036854775808"}) {
    EXPECT_EQ(Ask(client, {"SELECT", text}), "-ERR value is not an integer or out of range\r\n");
  }
  for (const char* text : {"-1", "1", "16", "2147483647", "-2147483648"}) {
    EXPECT_EQ(Ask(client, {"SELECT", text}), "-ERR DB index is out of range\r\n");
  }
  EXPECT_EQ(Ask(client, {"SELECT", "2147483648"}), too_wide);
  EXPECT_EQ(Ask(client, {"SELECT", "-2147483649"}), too_wide);
  EXPECT_EQ(Ask(client, {"COPY", "a", "b", "DB", "4294967296"}), too_wide);
}

TEST_F(SessionTest, ClientReply) {
  FakeConnection* client = Connect();
  client->Send(Encode({"CLIENT", "REPLY", "SKIP"}) + Encode({"SET", "a", "1"}) +
               Encode({"GET", "a"}));
  Settle();
  EXPECT_EQ(client->Take(), "$1\r\n1\r\n");
  client->Send(Encode({"CLIENT", "REPLY", "OFF"}) + Encode({"SET", "a", "2"}) +
               Encode({"DEL", "a", "b"}));
  Settle();
  EXPECT_EQ(client->Take(), "");
  EXPECT_EQ(Ask(client, {"CLIENT", "REPLY", "ON"}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"EXISTS", "a", "b"}), ":0\r\n");
}

TEST_F(SessionTest, ClientsThatDoNotReadAreNotRead) {
  FakeConnection* client = Connect();
  EXPECT_EQ(Ask(client, {"SET", "a", std::string(60'000, 'x')}), "+OK\r\n");
  client->window = 0;
  std::string input;
  for (int i = 0; i < 1000; ++i) {
    input += Encode({"GET", "a"});
  }
  client->Send(input);
  Settle();
  EXPECT_FALSE(client->session->CanRead());
  EXPECT_GT(client->input_bytes(), input.size() / 2);
  client->window = SIZE_MAX;
  for (int i = 0; i < 100 && client->input_bytes() > 0; ++i) {
    client->session->OnWritable();
    Settle();
  }
  EXPECT_EQ(client->Take().size(), 1000 * (60'000 + 10));
}

TEST_F(SessionTest, LargeValuesByReference) {
  FakeConnection* client = Connect();
  std::string value(3 << 20, 'a');
  for (size_t i = 0; i < value.size(); i += 997) {
    value[i] = static_cast<char>('b' + i % 20);
  }
  EXPECT_EQ(Ask(client, {"SET", "big", value}), "+OK\r\n");
  const std::string reply = "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  client->Send(Encode({"GET", "big"}) + Encode({"PING"}) + Encode({"MGET", "big", "none", "big"}));
  Settle();
  EXPECT_EQ(client->Take(), reply + "+PONG\r\n*3\r\n" + reply + "$-1\r\n" + reply);
  // In small pieces, overwritten meanwhile: the bytes of the reply stay.
  client->window = 100'000;
  client->Send(Encode({"GET", "big"}));
  Settle();
  std::string got = client->Take();
  FakeConnection* writer = Connect();
  EXPECT_EQ(Ask(writer, {"SET", "big", "small"}), "+OK\r\n");
  while (got.size() < reply.size()) {
    client->session->OnWritable();
    Tick();
    got += client->Take();
  }
  EXPECT_EQ(got, reply);
}

TEST_F(SessionTest, SteadyStateReusesItsOps) {
  FakeConnection* client = Connect();
  Commit(true);
  for (int i = 0; i < 100; ++i) {
    client->Send(Encode({"SET", "a", "1"}) + Encode({"GET", "a"}));
    Tick();
  }
  Settle();
  EXPECT_EQ(client->Take().size(), 100 * (5 + 7));
  EXPECT_EQ(set_->InfoSection("commandstats").find("cmdstat_get:calls=100,"), 0u);
}

TEST_F(SessionTest, ControlHoldsLaterCommandsBack) {
  FakeConnection* client = Connect();
  client->Send(Encode({"SAVE"}) + Encode({"PING"}));
  Settle();
  EXPECT_EQ(client->Take(), "");
  ASSERT_EQ(node_.controls.size(), 1u);
  node_.controls[0].second(std::string("OK"));
  Settle();
  EXPECT_EQ(client->Take(), "+OK\r\n+PONG\r\n");
  client->Send(Encode({"SAVE"}));
  client->Close();  // the answer comes to nobody
  Settle();
  node_.controls[1].second(absl::InternalError("late"));
  Settle();
}

TEST_F(SessionTest, WaitCountsReplicas) {
  FakeConnection* client = Connect();
  EXPECT_EQ(Ask(client, {"SET", "a", "1"}), "+OK\r\n");
  node_.replicas = 1;
  EXPECT_EQ(Ask(client, {"WAIT", "1", "0"}), ":1\r\n");
  ASSERT_EQ(node_.asked.size(), 1u);
  EXPECT_EQ(node_.asked[0].first, ShardOf("a"));
  client->Send(Encode({"WAIT", "2", "3000"}) + Encode({"PING"}));
  Settle();
  EXPECT_EQ(client->Take(), "");
  clock_.now_us += 3'000'000;
  Settle();
  EXPECT_EQ(client->Take(), ":1\r\n+PONG\r\n");
  EXPECT_EQ(Ask(client, {"WAITAOF", "1", "1", "0"}), "*2\r\n:1\r\n:1\r\n");
  EXPECT_EQ(Ask(client, {"WAIT", "x", "0"}), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(Ask(client, {"WAIT", "1", "-1"}), "-ERR timeout is negative\r\n");
}

}  // namespace
}  // namespace kvstored::command
