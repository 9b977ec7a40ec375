// CLIENT TRACKING over two threads: what is told, to whom, and behind which reply.
#include "command/tracking.h"

#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

std::string Told(const Words& keys) {
  std::string bytes = ">2\r\n$10\r\ninvalidate\r\n";
  bytes += "*" + std::to_string(keys.size()) + "\r\n";
  for (const std::string& key : keys) {
    bytes += "$" + std::to_string(key.size()) + "\r\n" + key + "\r\n";
  }
  return bytes;
}

constexpr std::string_view kToldAll = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

class TrackingTest : public SessionFixture {
 protected:
  TrackingTest() : SessionFixture(2, 4) {
    for (int i = 0; i < 4; ++i) {
      keys_.push_back(KeyOn(static_cast<ShardId>(i)));
    }
    reader_ = Connect(0);
    writer_ = Connect(1);
    Ask(reader_, {"HELLO", "3"});
  }
  void Track(Words options = {}) {
    Words words = {"CLIENT", "TRACKING", "ON"};
    words.insert(words.end(), options.begin(), options.end());
    EXPECT_EQ(Ask(reader_, words), "+OK\r\n");
  }
  // Of every key once, in any order.
  void ExpectToldOfAll(const std::string& told) {
    size_t size_bytes = 0;
    for (const std::string& key : keys_) {
      EXPECT_NE(told.find(Told({key})), std::string::npos) << key;
      size_bytes += Told({key}).size();
    }
    EXPECT_EQ(told.size(), size_bytes);
  }
  static std::string IdOf(FakeConnection* client) {
    return std::to_string(client->session->id());
  }

  std::vector<std::string> keys_;  // shards 0 and 2 live with the reader, 1 and 3 with the writer
  FakeConnection* reader_;
  FakeConnection* writer_;
};

TEST_F(TrackingTest, EveryReadKeyIsToldOnceWhereverItLives) {
  Track();
  for (const std::string& key : keys_) {
    EXPECT_EQ(Ask(reader_, {"GET", key}), "_\r\n");
    Ask(writer_, {"SET", key, "1"});
    EXPECT_EQ(reader_->Take(), Told({key}));
    Ask(writer_, {"SET", key, "2"});
    EXPECT_EQ(reader_->Take(), "");
  }
  EXPECT_EQ(set_->thread(0).tracking().key_count.value(), 0u);
  EXPECT_EQ(set_->thread(1).tracking().reader_count.value(), 0u);
}

TEST_F(TrackingTest, EveryCommandThatReadsIsRemembered) {
  Track();
  Ask(reader_, {"MGET", keys_[0], keys_[1], keys_[2], keys_[3]});
  Ask(writer_, {"MSET", keys_[0], "1", keys_[1], "1", keys_[2], "1", keys_[3], "1"});
  ExpectToldOfAll(reader_->Take());
  Ask(reader_, {"EXISTS", keys_[0], keys_[1]});
  Ask(reader_, {"LCS", keys_[2], keys_[3]});
  Ask(writer_, {"DEL", keys_[0], keys_[1], keys_[2], keys_[3]});
  ExpectToldOfAll(reader_->Take());
  Ask(reader_, {"SET", keys_[0], "1"});  // no read
  Ask(writer_, {"SET", keys_[0], "2"});
  EXPECT_EQ(reader_->Take(), "");
  Ask(reader_, {"MULTI"});
  Ask(reader_, {"GET", keys_[1]});
  Ask(reader_, {"EXEC"});
  Ask(writer_, {"APPEND", keys_[1], "1"});
  EXPECT_EQ(reader_->Take(), Told({keys_[1]}));
}

// The reply waits for its commit, the message for the reply.
TEST_F(TrackingTest, AChangeIsToldBehindTheReplyThatItMakesStale) {
  Track();
  for (const size_t at : {size_t{0}, size_t{1}}) {
    Ask(writer_, {"SET", keys_[at], "1"});
    Commit(false);
    writer_->Send(Encode({"SET", keys_[at], "2"}));
    Settle();
    EXPECT_EQ(Ask(reader_, {"GET", keys_[at]}), "");
    writer_->Send(Encode({"SET", keys_[at], "3"}));
    Settle();
    EXPECT_EQ(reader_->Take(), "");
    Commit(true);
    Settle();
    EXPECT_EQ(reader_->Take(), "$1\r\n2\r\n" + Told({keys_[at]}));
    writer_->Take();
  }
}

TEST_F(TrackingTest, OwnWritesAreToldBehindTheirReplyButForNoLoop) {
  Track();
  for (const size_t at : {size_t{0}, size_t{1}}) {
    Ask(reader_, {"GET", keys_[at]});
    EXPECT_EQ(Ask(reader_, {"SET", keys_[at], "1"}), "+OK\r\n" + Told({keys_[at]}));
  }
  Track({"NOLOOP"});
  for (const size_t at : {size_t{0}, size_t{1}}) {
    Ask(reader_, {"GET", keys_[at]});
    EXPECT_EQ(Ask(reader_, {"SET", keys_[at], "1"}), "+OK\r\n");
    Ask(writer_, {"SET", keys_[at], "2"});
    EXPECT_EQ(reader_->Take(), "");
    Ask(reader_, {"GET", keys_[at]});
    Ask(writer_, {"SET", keys_[at], "3"});
    EXPECT_EQ(reader_->Take(), Told({keys_[at]}));
  }
}

TEST_F(TrackingTest, ExpiryIsTold) {
  Track();
  Ask(writer_, {"SET", keys_[1], "1", "PX", "2000"});
  Ask(reader_, {"GET", keys_[1]});
  clock_.now_us += 3'000'000;
  Settle();
  EXPECT_EQ(reader_->Take(), Told({keys_[1]}));
  EXPECT_EQ(Ask(reader_, {"GET", keys_[1]}), "_\r\n");
}

TEST_F(TrackingTest, LargeValuesAreTold) {
  Track();
  Ask(reader_, {"GET", keys_[1]});
  Ask(writer_, {"SET", keys_[1], std::string(3'000'000, 'x')});
  EXPECT_EQ(reader_->Take(), Told({keys_[1]}));
}

TEST_F(TrackingTest, AFlushIsToldOnceToEverybody) {
  Track();
  Ask(reader_, {"GET", keys_[0]});
  Ask(reader_, {"GET", keys_[1]});
  Ask(writer_, {"FLUSHALL"});
  EXPECT_EQ(reader_->Take(), kToldAll);
  EXPECT_EQ(set_->thread(1).tracking().key_count.value(), 0u);
  EXPECT_EQ(Ask(reader_, {"FLUSHDB"}), "+OK\r\n" + std::string(kToldAll));
}

TEST_F(TrackingTest, BroadcastTellsPrefixesOfAllThreads) {
  Track({"BCAST", "PREFIX", "key", "PREFIX", "x"});
  Ask(writer_, {"MSET", keys_[0], "1", "other", "1"});
  EXPECT_EQ(reader_->Take(), Told({keys_[0]}));
  Ask(writer_, {"SET", keys_[1], "1"});
  EXPECT_EQ(reader_->Take(), Told({keys_[1]}));
  EXPECT_EQ(Ask(reader_, {"SET", "x1", "1"}), "+OK\r\n" + Told({"x1"}));
  EXPECT_EQ(set_->thread(0).tracking().prefix_count.value(), 2u);
  EXPECT_EQ(Ask(reader_, {"CLIENT", "TRACKING", "OFF"}), "+OK\r\n");
  EXPECT_EQ(set_->thread(0).tracking().prefix_count.value(), 0u);
  Track({"BCAST", "NOLOOP"});
  EXPECT_EQ(Ask(reader_, {"SET", "x1", "1"}), "+OK\r\n");
  Ask(writer_, {"SET", "x1", "1"});
  EXPECT_EQ(reader_->Take(), Told({"x1"}));
}

TEST_F(TrackingTest, CachingIsForTheNextCommand) {
  Track({"OPTIN"});
  Ask(reader_, {"GET", keys_[1]});
  Ask(writer_, {"SET", keys_[1], "1"});
  EXPECT_EQ(reader_->Take(), "");
  for (const size_t at : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(Ask(reader_, {"CLIENT", "CACHING", "YES"}), "+OK\r\n");
    Ask(reader_, {"GET", keys_[at]});
    Ask(reader_, {"GET", keys_[2]});
    Ask(writer_, {"SET", keys_[2], "1"});
    EXPECT_EQ(reader_->Take(), "");
    Ask(writer_, {"SET", keys_[at], "1"});
    EXPECT_EQ(reader_->Take(), Told({keys_[at]}));
  }
  Ask(reader_, {"CLIENT", "CACHING", "YES"});
  Ask(reader_, {"MULTI"});
  Ask(reader_, {"GET", keys_[1]});
  Ask(reader_, {"EXEC"});
  Ask(writer_, {"SET", keys_[1], "2"});
  EXPECT_EQ(reader_->Take(), Told({keys_[1]}));
  Ask(reader_, {"CLIENT", "TRACKING", "OFF"});
  Track({"OPTOUT"});
  Ask(reader_, {"CLIENT", "CACHING", "NO"});
  Ask(reader_, {"GET", keys_[1]});
  Ask(writer_, {"SET", keys_[1], "3"});
  EXPECT_EQ(reader_->Take(), "");
  Ask(reader_, {"GET", keys_[1]});
  Ask(writer_, {"SET", keys_[1], "4"});
  EXPECT_EQ(reader_->Take(), Told({keys_[1]}));
}

TEST_F(TrackingTest, AnotherClientIsToldInstead) {
  FakeConnection* told = Connect(1);
  Ask(told, {"HELLO", "3"});
  Track({"REDIRECT", IdOf(told)});
  EXPECT_EQ(Ask(reader_, {"CLIENT", "GETREDIR"}), ":" + IdOf(told) + "\r\n");
  // Not before the reply, here either.
  Commit(false);
  writer_->Send(Encode({"SET", keys_[1], "2"}));
  Settle();
  reader_->Send(Encode({"GET", keys_[1]}));
  Settle();
  writer_->Send(Encode({"SET", keys_[1], "3"}));
  Settle();
  EXPECT_EQ(told->Take(), "");
  Commit(true);
  Settle();
  EXPECT_EQ(reader_->Take(), "$1\r\n2\r\n");
  EXPECT_EQ(told->Take(), Told({keys_[1]}));
  // Gone.
  Ask(reader_, {"GET", keys_[1]});
  const std::string id = IdOf(told);
  told->Close();
  Settle();
  Ask(writer_, {"SET", keys_[1], "4"});
  EXPECT_EQ(reader_->Take(), ">2\r\n$21\r\ntracking-redir-broken\r\n:" + id + "\r\n");
  EXPECT_NE(Ask(reader_, {"CLIENT", "TRACKINGINFO"}).find("broken_redirect"), std::string::npos);
  EXPECT_EQ(Ask(reader_, {"CLIENT", "TRACKING", "ON", "REDIRECT", id}),
            "-ERR The client ID you want redirect to does not exist\r\n");
}

TEST_F(TrackingTest, NobodyTracksNothingIsNoted) {
  Track();
  Ask(reader_, {"GET", keys_[1]});
  EXPECT_TRUE(set_->thread(1).tracking().is_on());
  EXPECT_EQ(set_->thread(1).tracking().key_count.value(), 1u);
  reader_->Close();
  Settle();
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(set_->thread(i).tracking().is_on());
    EXPECT_EQ(set_->thread(i).tracking().key_count.value(), 0u);
  }
  EXPECT_EQ(set_->tracking().clients.load(), 0u);
  EXPECT_EQ(Ask(writer_, {"SET", keys_[1], "1"}), "+OK\r\n");
}

TEST_F(TrackingTest, RefusedOptionsLeaveNothingBehind) {
  EXPECT_EQ(Ask(reader_, {"CLIENT", "TRACKING", "ON", "REDIRECT", "999"}),
            "-ERR The client ID you want redirect to does not exist\r\n");
  EXPECT_EQ(Ask(reader_, {"CLIENT", "TRACKING", "x", "REDIRECT", IdOf(writer_)}),
            "-ERR syntax error\r\n");
  EXPECT_EQ(Ask(reader_, {"CLIENT", "TRACKING", "ON", "OPTIN", "OPTOUT"}),
            "-ERR You can't specify both OPTIN mode and OPTOUT mode\r\n");
  EXPECT_EQ(set_->tracking().clients.load(), 0u);
  EXPECT_EQ(
      Ask(reader_, {"CLIENT", "TRACKINGINFO"}),
      "%3\r\n$5\r\nflags\r\n~1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n");
}

// The oldest are not known: any key goes, and its reader hears of it.
TEST_F(TrackingTest, TheTableIsBounded) {
  set_->tracking().keys_max.store(20);
  Track();
  for (int i = 0; i < 100; ++i) {
    Ask(reader_, {"GET", KeyOn(1, i)});
  }
  EXPECT_EQ(set_->thread(1).tracking().key_count.value(), 10u);
  Ask(writer_, {"SET", KeyOn(1, 99), "1"});
  EXPECT_EQ(set_->thread(1).tracking().key_count.value(), 9u);
}

TEST_F(TrackingTest, RepliesThatAreOffAreNoMatter) {
  Track();
  Ask(reader_, {"GET", keys_[0]});
  Ask(reader_, {"CLIENT", "REPLY", "OFF"});
  Ask(writer_, {"SET", keys_[0], "1"});
  EXPECT_EQ(reader_->Take(), Told({keys_[0]}));
}

class PauseTest : public TrackingTest {};

TEST_F(PauseTest, WritesWaitReadsDoNot) {
  EXPECT_EQ(Ask(writer_, {"CLIENT", "PAUSE", "5000", "WRITE"}), "+OK\r\n");
  EXPECT_EQ(Ask(reader_, {"GET", keys_[1]}), "_\r\n");
  EXPECT_EQ(Ask(reader_, {"SET", keys_[1], "1"}), "");
  EXPECT_NE(reader_->session->Describe().find("flags=b "), std::string::npos);
  Ask(writer_, {"MULTI"});
  EXPECT_EQ(Ask(writer_, {"SET", keys_[0], "1"}), "");
  FakeConnection* other = Connect(1);
  EXPECT_EQ(Ask(other, {"CLIENT", "UNPAUSE"}), "+OK\r\n");
  Settle();
  EXPECT_EQ(reader_->Take(), "+OK\r\n");
  EXPECT_EQ(writer_->Take(), "+QUEUED\r\n");
}

TEST_F(PauseTest, AllWaitUntilTheLaterEnd) {
  EXPECT_EQ(Ask(writer_, {"CLIENT", "PAUSE", "5000", "WRITE"}), "+OK\r\n");
  EXPECT_EQ(Ask(writer_, {"CLIENT", "PAUSE", "2000", "ALL"}), "+OK\r\n");
  EXPECT_EQ(Ask(reader_, {"PING"}), "");
  EXPECT_EQ(Ask(writer_, {"CLIENT", "UNPAUSE"}), "");
  clock_.now_us += 2'500'000;
  Settle();
  EXPECT_EQ(reader_->Take(), "");
  clock_.now_us += 2'500'000;
  Settle();
  EXPECT_EQ(reader_->Take(), "+PONG\r\n");
  EXPECT_EQ(writer_->Take(), "+OK\r\n");
}

TEST_F(PauseTest, NothingExpiresMeanwhile) {
  Ask(writer_, {"SET", keys_[1], "1", "PX", "1000"});
  Ask(writer_, {"CLIENT", "PAUSE", "60000", "WRITE"});
  clock_.now_us += 3'000'000;
  Settle();
  EXPECT_EQ(Ask(reader_, {"GET", keys_[1]}), "_\r\n");
  EXPECT_EQ(Ask(reader_, {"DBSIZE"}), ":1\r\n");
  Ask(writer_, {"CLIENT", "UNPAUSE"});
  Settle();
  EXPECT_EQ(Ask(reader_, {"DBSIZE"}), ":0\r\n");
}

TEST_F(PauseTest, AWaitIsEndedFromOutside) {
  const std::string id = IdOf(reader_);
  EXPECT_EQ(Ask(writer_, {"CLIENT", "UNBLOCK", id}), ":0\r\n");
  EXPECT_EQ(Ask(reader_, {"WAIT", "3", "0"}), "");
  EXPECT_EQ(Ask(writer_, {"CLIENT", "UNBLOCK", id, "ERROR"}), ":1\r\n");
  EXPECT_EQ(reader_->Take(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
  EXPECT_EQ(Ask(reader_, {"WAIT", "3", "0"}), "");
  EXPECT_EQ(Ask(writer_, {"CLIENT", "UNBLOCK", id}), ":1\r\n");
  EXPECT_EQ(reader_->Take(), ":0\r\n");
  // Paused is not blocked.
  Ask(writer_, {"CLIENT", "PAUSE", "60000", "WRITE"});
  Ask(reader_, {"SET", keys_[1], "1"});
  EXPECT_EQ(Ask(writer_, {"CLIENT", "UNBLOCK", id}), ":0\r\n");
  Ask(writer_, {"CLIENT", "UNPAUSE"});
  Settle();
  EXPECT_EQ(reader_->Take(), "+OK\r\n");
}

}  // namespace
}  // namespace kvstored::command
