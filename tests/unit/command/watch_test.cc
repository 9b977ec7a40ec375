// SLOWLOG, MONITOR, DEBUG, INFO errorstats: what is told of commands, and what is not.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "command/monitor.h"
#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

class WatchTest : public SessionFixture {
 protected:
  explicit WatchTest(uint32_t thread_count = 1) : SessionFixture(thread_count, 4) {
  }
  // The words of the log's entries, the oldest first.
  std::vector<std::string> Logged() {
    std::vector<std::string> lines;
    for (const SlowLog::Entry& entry : set_->slow_log().Newest(SIZE_MAX)) {
      std::string line;
      for (const std::string& word : entry.words) {
        line += (line.empty() ? "" : " ") + word;
      }
      lines.insert(lines.begin(), line);
    }
    return lines;
  }
  // MONITOR's lines without their times.
  static std::vector<std::string> Lines(const std::string& received) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < received.size();) {
      const size_t end = received.find("\r\n", at);
      const std::string line = received.substr(at, end - at);
      const size_t words = line.find("] ");
      lines.push_back(words == std::string::npos ? line : line.substr(words + 2));
      at = end + 2;
    }
    return lines;
  }
};

class WatchThreadsTest : public WatchTest {
 protected:
  WatchThreadsTest() : WatchTest(2) {
  }
};

using Texts = std::vector<std::string>;

TEST_F(WatchTest, SlowLogShowsWhatRedisShows) {
  FakeConnection* client = Connect();
  Ask(client, {"CLIENT", "SETNAME", "me"});
  set_->settings().slowlog_us.store(0);
  Ask(client, {"SET", "k", std::string(130, 'x')});
  Words many = {"EXISTS"};
  for (int i = 0; i < 32; ++i) {
    many.push_back(std::to_string(i));
  }
  Ask(client, many);
  Ask(client, {"AUTH", "secret"});
  Ask(client, {"AUTH", "user", "secret"});
  Ask(client, {"HELLO", "2", "SETNAME", "auth", "AUTH", "default", "secret"});
  Ask(client, {"CONFIG", "SET", "requirepass", "secret", "timeout", "0"});
  node_.config_sets.back().second(absl::OkStatus());
  Settle();
  Ask(client, {"MULTI"});
  Ask(client, {"INCR", "n"});
  Ask(client, {"PING"});
  Ask(client, {"EXEC"});
  Ask(client, {"GET"});  // refused: did not run
  Ask(client, {"NOSUCH"});
  set_->settings().slowlog_us.store(FrontSettings::kNever);
  std::string exists = "EXISTS";
  for (int i = 0; i < 30; ++i) {
    exists += " " + std::to_string(i);
  }
  EXPECT_EQ(Logged(),
            (Texts{"SET k " + std::string(128, 'x') + "... (2 more bytes)",
                   exists + " ... (2 more arguments)", "AUTH (redacted)",
                   "AUTH (redacted) (redacted)", "HELLO 2 SETNAME auth AUTH (redacted) (redacted)",
                   "CONFIG SET requirepass (redacted) timeout 0", "MULTI", "INCR n", "PING"}));
  const SlowLog::Entry newest = set_->slow_log().Newest(1)[0];
  EXPECT_EQ(newest.peer, client->peer());
  EXPECT_EQ(newest.client_name, "auth");
  EXPECT_EQ(newest.id, 8);
  EXPECT_EQ(Ask(client, {"SLOWLOG", "LEN"}), ":9\r\n");
  const std::string entry = Ask(client, {"SLOWLOG", "GET", "1"});
  EXPECT_EQ(entry, "*1\r\n*6\r\n:8\r\n:" + std::to_string(newest.unix_s) +
                       "\r\n:0\r\n*1\r\n$4\r\nPING\r\n$13\r\n10.0.0.1:1000\r\n$4\r\nauth\r\n");
  EXPECT_EQ(Ask(client, {"SLOWLOG", "GET", "-1"}).substr(0, 4), "*9\r\n");
  EXPECT_EQ(
      Ask(client, {"SLOWLOG", "Get", "1", "2"}),
      "-ERR unknown subcommand or wrong number of arguments for 'Get'. Try SLOWLOG HELP.\r\n");
  EXPECT_EQ(Ask(client, {"SLOWLOG", "GET", "-2"}),
            "-ERR count should be greater than or equal to -1\r\n");
  set_->slow_log().Trim(3);
  EXPECT_EQ(Logged(), (Texts{"MULTI", "INCR n", "PING"}));
  EXPECT_EQ(Ask(client, {"SLOWLOG", "RESET"}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"SLOWLOG", "LEN"}), ":0\r\n");
}

TEST_F(WatchTest, OnlySlowOnesAreLogged) {
  FakeConnection* client = Connect();
  clock_.step_us = 6000;
  client->Send(Encode({"SET", "a", "1"}));
  clock_.step_us = 12'000;
  client->Send(Encode({"SET", "b", "1"}));
  clock_.step_us = 0;
  Settle();
  EXPECT_EQ(Logged(), (Texts{"SET b 1"}));
  EXPECT_EQ(set_->slow_log().Newest(1)[0].us, 12'000);
}

// A command is charged what its parts take at their shards, not what it waits.
TEST_F(WatchThreadsTest, CommandsOfOtherThreadsAreTimedThere) {
  FakeConnection* client = Connect(0);
  ASSERT_EQ(threads_.OwnerOf(1), 1u);
  const std::string far = KeyOn(1);
  const std::string near = KeyOn(0);
  for (const Words& words : std::vector<Words>{{"GET", far},
                                               {"EXISTS", near, far},
                                               {"DBSIZE"},
                                               {"DEL", near, far},
                                               {"MSET", near, "1", far, "2"},
                                               {"MULTI"},
                                               {"APPEND", far, "x"},
                                               {"EXEC"}}) {
    clock_.step_us = 15'000;
    client->Send(Encode(words));
    for (int i = 0; i < 10; ++i) {
      Tick();
    }
    clock_.step_us = 0;
    Settle();
  }
  EXPECT_EQ(Logged(),
            (Texts{"GET " + far, "EXISTS " + near + " " + far, "DBSIZE", "DEL " + near + " " + far,
                   "MSET " + near + " 1 " + far + " 2", "MULTI", "APPEND " + far + " x"}));
}

TEST_F(WatchThreadsTest, MonitorsSeeCommandsOfAllThreads) {
  FakeConnection* monitor = Connect(0);
  FakeConnection* here = Connect(0);
  FakeConnection* there = Connect(1);
  EXPECT_EQ(Ask(monitor, {"MONITOR"}), "+OK\r\n");
  Ask(here, {"SET", "k", "a\"b\\c\n\r\t\a\b\x01\xff\x7f~"});
  const std::string line = monitor->Take();
  const size_t at = line.find('.');
  EXPECT_EQ(line[0], '+');
  EXPECT_EQ(line.substr(at + 7),
            " [0 10.0.0.1:1001] \"SET\" \"k\" "
            "\"a\\\"b\\\\c\\n\\r\\t\\a\\b\\x01\\xff\\x7f~\"\r\n");
  Ask(there, {"get", "k"});
  Ask(there, {"AUTH", "secret"});
  Ask(there, {"CONFIG", "GET", "x"});  // of administration
  Ask(there, {"CLIENT", "LIST"});
  Ask(there, {"client", "setname", "n"});
  Ask(there, {"NOSUCH"});
  Ask(there, {"GET"});
  Ask(there, {"MULTI"});
  Ask(there, {"INCR", "n"});
  Ask(there, {"PING"});
  Ask(there, {"EXEC"});
  Ask(there, {"EXEC"});
  EXPECT_EQ(Lines(monitor->Take()),
            (Texts{"\"get\" \"k\"", "\"AUTH\" \"(redacted)\"", "\"client\" \"setname\" \"n\"",
                   "\"MULTI\"", "\"INCR\" \"n\"", "\"PING\"", "\"EXEC\"", "\"EXEC\""}));
  EXPECT_EQ(Lines(Ask(monitor, {"PING"})), (Texts{"+PONG", "\"PING\""}));
  EXPECT_EQ(Ask(monitor, {"GET", "k"}), "-ERR Replica can't interact with the keyspace\r\n");
  EXPECT_EQ(Ask(monitor, {"MONITOR"}), "");
  EXPECT_NE(Ask(there, {"CLIENT", "LIST"}).find(" flags=O "), std::string::npos);
  EXPECT_EQ(Lines(Ask(monitor, {"RESET"}))[0], "+RESET");
  Ask(here, {"PING"});
  EXPECT_EQ(monitor->Take(), "");
  EXPECT_FALSE(set_->is_monitored());
}

TEST_F(WatchTest, AMonitorThatDoesNotReadIsClosed) {
  FakeConnection* monitor = Connect();
  FakeConnection* client = Connect();
  Ask(monitor, {"MONITOR"});
  monitor->window = 100;
  const std::string value(1 << 20, 'v');
  for (size_t sent = 0; sent < kMonitorOutputBytesMax; sent += value.size()) {
    EXPECT_EQ(Ask(client, {"ECHO", value}).size(), value.size() + 12);
  }
  EXPECT_TRUE(monitor->closed);
  EXPECT_FALSE(set_->is_monitored());
  EXPECT_EQ(Ask(client, {"PING"}), "+PONG\r\n");
}

TEST_F(WatchTest, MonitorInsideExec) {
  FakeConnection* client = Connect();
  Ask(client, {"MULTI"});
  Ask(client, {"MONITOR"});
  EXPECT_EQ(Ask(client, {"EXEC"}), "*1\r\n-ERR MONITOR isn't allowed for DENY BLOCKING client\r\n");
}

TEST_F(WatchThreadsTest, ErrorsAreCountedByTheirWord) {
  FakeConnection* client = Connect();
  const std::string far = KeyOn(1);
  Ask(client, {"CONFIG", "RESETSTAT"});
  Ask(client, {"NOSUCH"});
  Ask(client, {"GET"});
  Ask(client, {"AUTH", "user", "x"});
  Ask(client, {"SET", KeyOn(0), "text"});
  Ask(client, {"SET", far, "text"});
  Ask(client, {"INCR", KeyOn(0)});
  Ask(client, {"INCR", far});
  Ask(client, {"MULTI"});
  Ask(client, {"INCR", far});
  Ask(client, {"EXEC"});
  EXPECT_EQ(set_->InfoSection("errorstats"),
            "errorstat_ERR:count=5\r\nerrorstat_WRONGPASS:count=1\r\n");
  EXPECT_NE(set_->InfoSection("stats").find("total_error_replies:6\r\n"), std::string::npos);
  const std::string commands = set_->InfoSection("commandstats");
  const std::string incr = commands.substr(commands.find("cmdstat_incr:"));
  EXPECT_EQ(incr.substr(0, incr.find(',')), "cmdstat_incr:calls=3");
  EXPECT_EQ(incr.substr(incr.find("failed"), 14), "failed_calls=3");
  Ask(client, {"CONFIG", "RESETSTAT"});
  EXPECT_EQ(set_->InfoSection("errorstats"), "");
}

TEST_F(WatchTest, DebugIsBehindItsSwitch) {
  FakeConnection* client = Connect();  // from 10.0.0.1
  const std::string refused = Ask(client, {"DEBUG", "SLEEP", "0"});
  EXPECT_EQ(refused.substr(0, 31), "-ERR DEBUG command not allowed.");
  Ask(client, {"MULTI"});
  EXPECT_EQ(Ask(client, {"DEBUG", "SLEEP", "0"}), refused);
  EXPECT_EQ(Ask(client, {"EXEC"}).substr(0, 10), "-EXECABORT");
  set_->settings().debug_access.store(DebugAccess::kLocal);
  EXPECT_EQ(Ask(client, {"DEBUG", "SLEEP", "0"}), refused);
  set_->settings().debug_access.store(DebugAccess::kYes);
  EXPECT_EQ(Ask(client, {"DEBUG", "sleep", "0.001"}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"DEBUG", "SLEEP", "-1"}), "+OK\r\n");
  EXPECT_EQ(Ask(client, {"DEBUG", "JMAP"}),
            "-ERR unknown subcommand or wrong number of arguments for 'JMAP'. Try DEBUG HELP.\r\n");
}

}  // namespace
}  // namespace kvstored::command
