#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/poller.h"
#include "net/listener.h"
#include "net/socket_connection.h"

namespace kvstored::net {
namespace {

class Recorder : public ConnHandler {
 public:
  size_t OnInput(std::span<const char> input) override {
    seen = std::string(input.data(), input.size());
    ++calls;
    const size_t taken = consume < input.size() ? consume : input.size();
    consumed.append(input.data(), taken);
    return taken;
  }
  bool CanRead() const override {
    return can_read;
  }
  size_t BytesWanted() const override {
    return wanted;
  }
  void OnWritable() override {
    ++writable;
  }
  void OnEof() override {
    eof = true;
  }
  void OnClosed() override {
    closed = true;
  }

  size_t consume = SIZE_MAX;
  size_t wanted = 0;
  bool can_read = true;
  bool eof = false;
  bool closed = false;
  int calls = 0;
  int writable = 0;
  std::string seen;
  std::string consumed;
};

class NetTest : public ::testing::Test, public ConnAcceptor {
 protected:
  NetTest() : thread_(&poller_) {
    auto opened = Listener::Open("127.0.0.1", 0);
    EXPECT_TRUE(opened.ok()) << opened.status();
    listener_ = *std::move(opened);
    listener_->Start(&poller_, this);
  }
  ~NetTest() override {
    for (const int fd : clients_) {
      ::close(fd);
    }
    listener_.reset();
  }

  void OnAccept(int fd) override {
    connections_.push_back(thread_.Adopt(fd, &recorder_));
  }

  int Connect() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(listener_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    clients_.push_back(fd);
    const size_t before = connections_.size();
    while (connections_.size() == before) {
      poller_.Poll(1'000'000);
    }
    return fd;
  }
  void SendAll(int fd, const std::string& bytes) {
    ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  template <typename Predicate>
  void PollUntil(Predicate done) {
    for (int i = 0; i < 10000 && !done(); ++i) {
      poller_.Poll(100'000);
    }
    ASSERT_TRUE(done());
  }

  base::Poller poller_;
  SocketThread thread_;
  Recorder recorder_;
  std::unique_ptr<Listener> listener_;
  std::vector<Connection*> connections_;
  std::vector<int> clients_;
};

TEST_F(NetTest, WhatIsLeftIsOfferedAgain) {
  const int fd = Connect();
  recorder_.consume = 2;
  SendAll(fd, "abcde");
  PollUntil([&] { return recorder_.seen == "abcde"; });
  EXPECT_EQ(connections_[0]->input_bytes(), 3u);
  SendAll(fd, "fg");
  PollUntil([&] { return recorder_.seen == "cdefg"; });
  recorder_.consume = SIZE_MAX;
  connections_[0]->Resume();
  EXPECT_EQ(recorder_.consumed, "abcdefg");
  EXPECT_EQ(connections_[0]->input_bytes(), 0u);
  EXPECT_EQ(thread_.counters().received_bytes.value(), 7u);
}

TEST_F(NetTest, ReadingStopsAndResumes) {
  const int fd = Connect();
  recorder_.can_read = false;
  SendAll(fd, "abc");
  for (int i = 0; i < 20; ++i) {
    poller_.Poll(1000);
  }
  EXPECT_EQ(recorder_.calls, 0);
  recorder_.can_read = true;
  connections_[0]->Resume();
  PollUntil([&] { return recorder_.consumed == "abc"; });
}

TEST_F(NetTest, LargeInputArrivesWhole) {
  const int fd = Connect();
  const std::string bytes(3 << 20, 'x');
  recorder_.consume = 0;
  recorder_.wanted = bytes.size();
  size_t sent = 0;
  PollUntil([&] {
    const ssize_t count =
        ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    sent += count > 0 ? static_cast<size_t>(count) : 0;
    return recorder_.seen.size() == bytes.size();
  });
  EXPECT_EQ(recorder_.seen, bytes);
  recorder_.consume = SIZE_MAX;
  connections_[0]->Resume();
  EXPECT_EQ(recorder_.consumed.size(), bytes.size());
}

TEST_F(NetTest, ShortSendsGoOnWhenWritable) {
  const int fd = Connect();
  const std::string bytes(64 << 10, 'y');
  uint64_t sent = 0;
  int64_t taken = 0;
  do {
    taken = connections_[0]->Send(std::vector<std::string_view>{bytes, bytes});
    ASSERT_GE(taken, 0);
    sent += static_cast<uint64_t>(taken);
  } while (taken == static_cast<int64_t>(2 * bytes.size()));
  std::string sink(1 << 20, 0);
  uint64_t received = 0;
  PollUntil([&] {
    const ssize_t count = ::recv(fd, sink.data(), sink.size(), MSG_DONTWAIT);
    received += count > 0 ? static_cast<uint64_t>(count) : 0;
    return received == sent && recorder_.writable > 0;
  });
}

TEST_F(NetTest, EndOfStreamThenClose) {
  const int fd = Connect();
  ::shutdown(fd, SHUT_WR);
  PollUntil([&] { return recorder_.eof; });
  EXPECT_FALSE(recorder_.closed);
  EXPECT_EQ(connections_[0]->Send(std::vector<std::string_view>{"bye"}), 3);
  connections_[0]->Close();
  EXPECT_TRUE(recorder_.closed);
  char text[8];
  EXPECT_EQ(::recv(fd, text, sizeof(text), 0), 3);
  EXPECT_EQ(::recv(fd, text, sizeof(text), 0), 0);
  thread_.FreeClosed();
}

TEST_F(NetTest, ResetByPeerCloses) {
  const int fd = Connect();
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  ::close(fd);
  clients_.clear();
  PollUntil([&] { return recorder_.closed; });
}

TEST_F(NetTest, AddressesOfBothEnds) {
  Connect();
  EXPECT_EQ(connections_[0]->local(), "127.0.0.1:" + std::to_string(listener_->port()));
  EXPECT_EQ(connections_[0]->peer().substr(0, 10), "127.0.0.1:");
}

TEST_F(NetTest, ABusyPortIsAnErrorThatHelps) {
  const auto second = Listener::Open("127.0.0.1", listener_->port());
  ASSERT_FALSE(second.ok());
  const std::string text(second.status().message());
  EXPECT_NE(text.find("127.0.0.1 port " + std::to_string(listener_->port())), std::string::npos);
  EXPECT_NE(text.find("Address already in use"), std::string::npos);
  EXPECT_NE(text.find("server.port"), std::string::npos);
  EXPECT_FALSE(Listener::Open("localhost", 0).ok());
  EXPECT_FALSE(Listener::Open("203.0.113.7", 0).ok());
}

}  // namespace
}  // namespace kvstored::net
