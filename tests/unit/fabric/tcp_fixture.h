// A TCP fabric and peers of bare bytes, which say what no fabric would.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "fabric/tcp/socket.h"
#include "fabric/tcp/tcp_fabric.h"
#include "fabric/tcp/wire.h"
#include "tests/unit/fabric/tcp_harness.h"

namespace kvstored::fabric {

// A peer of bare bytes.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) {
    const auto where = Resolve(*SplitAddress(address), true);
    fd_ = *StartConnect(where->front());
  }
  ~RawPeer() {
    ::close(fd_);
  }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  void Send(const std::string& bytes) {
    pending_ += bytes;
  }
  // Moves bytes both ways. False once the other side has closed.
  bool Step() {
    if (!pending_.empty()) {
      const ssize_t sent =
          ::send(fd_, pending_.data(), pending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        pending_.erase(0, static_cast<size_t>(sent));
      } else if (sent < 0 && !IsTransient(errno)) {
        return false;
      }
    }
    char bytes[4096];
    const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0) {
      received.append(bytes, static_cast<size_t>(got));
      return true;
    }
    return got < 0 && IsTransient(errno);
  }
  bool all_sent() const {
    return pending_.empty();
  }

  std::string received;

 private:
  int fd_ = -1;
  std::string pending_;
};

inline std::string ControlIntroduction() {
  uint8_t bytes[kIntroductionBytes];
  StoreIntroduction(bytes, kControlConnection, 0, Id128{});
  return {reinterpret_cast<const char*>(bytes), sizeof(bytes)};
}

inline std::string LaneIntroduction(LaneId lane, const Id128& token) {
  uint8_t bytes[kIntroductionBytes];
  StoreIntroduction(bytes, kLaneConnection, lane, token);
  return {reinterpret_cast<const char*>(bytes), sizeof(bytes)};
}

inline std::string Control(uint32_t length, uint8_t kind, const std::string& rest) {
  std::string bytes(kControlHeaderBytes, '\0');
  base::StoreBe32(bytes.data(), length);
  bytes[4] = static_cast<char>(kind);
  return bytes + rest;
}

inline std::string LaneFrame(const LaneHeader& header, const std::string& rest) {
  std::string bytes(kLaneHeaderBytes, '\0');
  StoreLaneHeader(reinterpret_cast<uint8_t*>(bytes.data()), header);
  return bytes + rest;
}

class TcpFabricTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(harness_.Listen());
  }
  bool UntilDropped(RawPeer* peer) {
    return harness_.Until([&] { return !peer->Step(); });
  }
  // A raw control connection that the server has accepted.
  std::unique_ptr<RawPeer> RawLink() {
    auto peer = std::make_unique<RawPeer>(harness_.address);
    peer->Send(ControlIntroduction());
    server().told.last_accepted = 0;
    const bool accepted = harness_.Until([&] {
      peer->Step();
      return server().told.last_accepted != 0 && peer->received.size() >= kGreetingBytes;
    });
    EXPECT_TRUE(accepted);
    server().link = server().told.last_accepted;
    peer->received.erase(0, kGreetingBytes);
    return peer;
  }
  // And one lane of it.
  std::unique_ptr<RawPeer> RawLane(RawPeer* control) {
    control->Send(Control(3, 2, std::string("\0\1", 2)));
    EXPECT_TRUE(harness_.Until([&] {
      control->Step();
      return control->received.size() >= kControlHeaderBytes + 16;
    }));
    Id128 token;
    std::memcpy(token.bytes.data(), control->received.data() + kControlHeaderBytes, 16);
    auto lane = std::make_unique<RawPeer>(harness_.address);
    lane->Send(LaneIntroduction(0, token));
    EXPECT_TRUE(harness_.Until([&] {
      lane->Step();
      return server().record().lane_count == 1;
    }));
    return lane;
  }
  Node& server() {
    return harness_.server;
  }

  RingMemory ring_{1 << 16};
  TcpHarness harness_;
};

}  // namespace kvstored::fabric
