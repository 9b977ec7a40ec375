// Real threads, real sockets: transactions over two shard threads stay whole for every reader.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/system_clock.h"
#include "base/thread.h"
#include "net/listener.h"
#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

constexpr int kRounds = 300;

// A client that waits for each reply.
class BlockingClient {
 public:
  explicit BlockingClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~BlockingClient() {
    ::close(fd_);
  }
  // Sends all commands at once, returns their replies.
  std::vector<std::string> AskAll(const std::vector<Words>& commands) {
    std::string bytes;
    for (const Words& words : commands) {
      bytes += Encode(words);
    }
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::vector<std::string> replies;
    for (size_t i = 0; i < commands.size(); ++i) {
      replies.push_back(ReadReply());
    }
    return replies;
  }
  std::string Ask(const Words& words) {
    return AskAll({words})[0];
  }

 private:
  std::string ReadLine() {
    size_t end;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
      if (!Fill()) {
        return "closed";
      }
    }
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 2);
    return line;
  }
  bool Fill() {
    char bytes[4096];
    const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (got > 0) {
      buffer_.append(bytes, static_cast<size_t>(got));
    }
    return got > 0;
  }
  // Elements of an array are joined by commas.
  std::string ReadReply() {
    const std::string line = ReadLine();
    if (line[0] == '*') {
      std::string all = "[";
      for (int i = 0; i < std::stoi(line.substr(1)); ++i) {
        all += ReadReply() + ",";
      }
      return all + "]";
    }
    if (line[0] != '$' || line == "$-1") {
      return line;
    }
    const size_t bytes = std::stoul(line.substr(1));
    while (buffer_.size() < bytes + 2) {
      if (!Fill()) {
        return "closed";
      }
    }
    std::string value = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes + 2);
    return value;
  }

  int fd_;
  std::string buffer_;
};

class StressTest : public SessionFixture {
 protected:
  StressTest() : SessionFixture(2, 4) {
    auto opened = net::Listener::Open("127.0.0.1", 0);
    EXPECT_TRUE(opened.ok()) << opened.status();
    listener_ = *std::move(opened);
    listener_->Start(threads_.thread(0)->poller(), set_.get());
    for (uint32_t i = 0; i < 2; ++i) {
      loops_.push_back(std::make_unique<base::LoopThread>(
          "shard-" + std::to_string(i), [thread = threads_.thread(i)] { thread->Tick(2000); }));
    }
  }
  void Stop() {
    for (auto& loop : loops_) {
      loop->Stop([this] { threads_.WakeAll(); });
    }
    loops_.clear();
    listener_.reset();
  }
  ~StressTest() override {
    Stop();
  }
  std::unique_ptr<net::Listener> listener_;
  std::vector<std::unique_ptr<base::LoopThread>> loops_;
};

TEST_F(StressTest, TransactionsAreWholeForEveryReader) {
  const std::vector<std::string> keys = {KeyOn(0), KeyOn(1), KeyOn(2), KeyOn(3)};
  std::atomic<int> torn{0};
  std::atomic<int> raised{0};
  std::atomic<int> moved_wrong{0};
  std::atomic<int> claims{0};
  std::atomic<int> claimed_twice{0};
  std::vector<std::thread> clients;
  clients.reserve(10);
  // Two write the same value to all keys, one by MSET, one by MULTI; the third reads all.
  for (int writer = 0; writer < 2; ++writer) {
    clients.emplace_back([&, writer] {
      BlockingClient client(listener_->port());
      for (int i = 0; i < kRounds; ++i) {
        const std::string value = std::to_string(writer) + ":" + std::to_string(i);
        if (writer == 0) {
          client.Ask({"MSET", keys[0], value, keys[1], value, keys[2], value, keys[3], value});
        } else {
          client.AskAll({{"MULTI"},
                         {"SET", keys[3], value},
                         {"SET", keys[0], value},
                         {"SET", keys[1], value},
                         {"SET", keys[2], value},
                         {"EXEC"}});
        }
      }
    });
  }
  clients.emplace_back([&] {
    BlockingClient client(listener_->port());
    for (int i = 0; i < kRounds; ++i) {
      const std::string all = client.Ask({"MGET", keys[0], keys[1], keys[2], keys[3]});
      const std::string one = all.substr(1, all.find(',') - 1);
      if (all != "[" + one + "," + one + "," + one + "," + one + ",]") {
        ++torn;
      }
    }
  });
  // Optimistic increments by three clients: each EXEC that succeeds counts once.
  for (int n = 0; n < 3; ++n) {
    clients.emplace_back([&] {
      BlockingClient client(listener_->port());
      for (int i = 0; i < kRounds; ++i) {
        const std::vector<std::string> seen =
            client.AskAll({{"WATCH", "counter"}, {"GET", "counter"}});
        const int value = seen[1] == "$-1" ? 0 : std::stoi(seen[1]);
        const std::vector<std::string> done =
            client.AskAll({{"MULTI"}, {"SET", "counter", std::to_string(value + 1)}, {"EXEC"}});
        if (done[2] == "[+OK,]") {
          ++raised;
        }
      }
    });
  }
  // One key walks between two shards: it is always in exactly one place.
  clients.emplace_back([&] {
    BlockingClient client(listener_->port());
    client.Ask({"SET", "here", "x"});
    for (int i = 0; i < kRounds; ++i) {
      client.Ask(i % 2 == 0 ? Words{"RENAME", "here", "there"} : Words{"RENAME", "there", "here"});
    }
  });
  clients.emplace_back([&] {
    BlockingClient client(listener_->port());
    while (client.Ask({"MGET", "here", "there"}) == "[$-1,$-1,]") {
    }
    for (int i = 0; i < kRounds; ++i) {
      const std::string both = client.Ask({"MGET", "here", "there"});
      if (both != "[x,$-1,]" && both != "[$-1,x,]") {
        ++moved_wrong;
      }
    }
  });
  // Two claim the same keys on all shards, all of them or none: never both at a time.
  std::atomic<int> holders{0};
  const std::vector<std::string> claim = {KeyOn(0, 1), KeyOn(1, 1), KeyOn(2, 1), KeyOn(3, 1)};
  for (int n = 0; n < 2; ++n) {
    clients.emplace_back([&, n] {
      BlockingClient client(listener_->port());
      const std::string mine = std::to_string(n);
      for (int i = 0; i < kRounds; ++i) {
        if (client.Ask({"MSETNX", claim[3], mine, claim[0], mine, claim[1], mine, claim[2],
                        mine}) != ":1") {
          continue;
        }
        ++claims;
        if (holders.fetch_add(1) != 0 ||
            client.Ask({"MGET", claim[0], claim[1], claim[2], claim[3]}) !=
                "[" + mine + "," + mine + "," + mine + "," + mine + ",]") {
          ++claimed_twice;
        }
        holders.fetch_sub(1);
        client.Ask({"DEL", claim[0], claim[1], claim[2], claim[3]});
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  BlockingClient client(listener_->port());
  EXPECT_EQ(torn.load(), 0);
  EXPECT_EQ(claimed_twice.load(), 0);
  EXPECT_GT(claims.load(), 1);
  EXPECT_EQ(moved_wrong.load(), 0);
  EXPECT_GT(raised.load(), 0);
  EXPECT_EQ(client.Ask({"GET", "counter"}), std::to_string(raised.load()));
  EXPECT_EQ(client.Ask({"DBSIZE"}), ":6");
}

TEST_F(StressTest, ManyClientsComeAndGo) {
  std::vector<std::thread> clients;
  clients.reserve(4);
  for (int n = 0; n < 4; ++n) {
    clients.emplace_back([&, n] {
      for (int i = 0; i < 40; ++i) {
        BlockingClient client(listener_->port());
        std::vector<Words> commands;
        for (int k = 0; k < 20; ++k) {
          commands.push_back({"SET", "k" + std::to_string(k), std::to_string(n)});
          commands.push_back({"GET", "k" + std::to_string(k)});
        }
        const std::vector<std::string> replies = client.AskAll(commands);
        EXPECT_EQ(replies[0], "+OK");
        if (i % 4 == 0) {
          client.Ask({"CLIENT", "LIST"});
        }
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  BlockingClient client(listener_->port());
  EXPECT_EQ(client.Ask({"DBSIZE"}), ":20");
}

}  // namespace
}  // namespace kvstored::command
