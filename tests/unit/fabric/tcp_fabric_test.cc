// What only the TCP fabric can meet: strangers, garbage, limits, names, system calls.
#include "fabric/tcp/tcp_fabric.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "fabric/tcp/socket.h"
#include "fabric/tcp/wire.h"
#include "tests/sim/sim_random.h"
#include "tests/unit/fabric/tcp_harness.h"

namespace kvstored::fabric {
namespace {

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

std::string ControlIntroduction() {
  uint8_t bytes[kIntroductionBytes];
  StoreIntroduction(bytes, kControlConnection, 0, Id128{});
  return {reinterpret_cast<const char*>(bytes), sizeof(bytes)};
}

std::string LaneIntroduction(LaneId lane, const Id128& token) {
  uint8_t bytes[kIntroductionBytes];
  StoreIntroduction(bytes, kLaneConnection, lane, token);
  return {reinterpret_cast<const char*>(bytes), sizeof(bytes)};
}

std::string Control(uint32_t length, uint8_t kind, const std::string& rest) {
  std::string bytes(kControlHeaderBytes, '\0');
  base::StoreBe32(bytes.data(), length);
  bytes[4] = static_cast<char>(kind);
  return bytes + rest;
}

std::string LaneFrame(const LaneHeader& header, const std::string& rest) {
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

TEST_F(TcpFabricTest, RandomBytesAtThePortAreDropped) {
  sim::SimRandom random(3);
  for (int round = 0; round < 100; ++round) {
    RawPeer peer(harness_.address);
    std::string bytes(32 + random.Below(5000), '\0');
    for (char& c : bytes) {
      c = static_cast<char>(random.Next());
    }
    if (round % 3 == 0) {
      bytes.replace(0, 8, std::string("KVSFABR\1", 8));  // right magic, garbage after it
      bytes[8] = static_cast<char>(7);
    }
    peer.Send(bytes);
    ASSERT_TRUE(UntilDropped(&peer)) << round;
  }
  EXPECT_EQ(server().told.last_accepted, 0u);
  EXPECT_EQ(harness_.tcp(&server()).unfinished_handshake_count(), 0u);
  EXPECT_EQ(harness_.tcp(&server()).counters().refused_count, 100u);
  EXPECT_TRUE(harness_.Link(2));  // and the port still serves
}

TEST_F(TcpFabricTest, GarbageAfterTheIntroductionClosesTheLink) {
  sim::SimRandom random(4);
  for (int round = 0; round < 100; ++round) {
    const auto peer = RawLink();
    std::string bytes(1 + random.Below(3000), '\0');
    for (char& c : bytes) {
      c = static_cast<char>(random.Next());
    }
    bytes[0] = static_cast<char>(0x40 | (bytes[0] & 0x3f));  // a length beyond the limit
    bytes.append(8, 'x');
    peer->Send(bytes);
    ASSERT_TRUE(UntilDropped(peer.get()));
    ASSERT_TRUE(harness_.Until([&] { return server().record().closed.has_value(); }));
    EXPECT_EQ(server().record().closed->code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(TcpFabricTest, BadControlItemsCloseTheLink) {
  const std::string bad[] = {
      Control(0, 1, ""),                          // no kind
      Control((1 << 20) + 2, 1, ""),              // one byte too many
      Control(UINT32_MAX, 1, ""),                 //
      Control(1, 0, ""),                          // no such kind
      Control(1, 77, ""),                         //
      Control(1, 2, ""),                          // a request for lanes without a count
      Control(3, 2, std::string("\0\0", 2)),      // for none
      Control(3, 2, std::string("\xff\xff", 2)),  // for too many
      Control(3, 2, std::string("\0\1", 2)) + Control(3, 2, std::string("\0\1", 2)),  // twice
      Control(17, 3, std::string(16, 't')),  // an offer to the side that offers
      Control(1, 4, ""),                     // ready without an offer
  };
  for (const std::string& bytes : bad) {
    const auto peer = RawLink();
    peer->Send(bytes);
    ASSERT_TRUE(harness_.Until([&] {
      peer->Step();
      return server().record().closed.has_value();
    }));
    EXPECT_EQ(server().record().closed->code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(TcpFabricTest, ALimitSizedMessagePassesByteByByte) {
  const auto peer = RawLink();
  const std::string item = Control(5, 1, "four");
  for (const char c : item) {
    peer->Send(std::string(1, c));
    peer->Step();
    harness_.Step();
  }
  ASSERT_TRUE(harness_.Until([&] { return server().record().messages.size() == 1; }));
  EXPECT_EQ(server().record().messages[0], "four");
}

TEST_F(TcpFabricTest, BadLaneFramesCloseTheLinkAndNeverLand) {
  for (int round = 0; round < 5; ++round) {
    const auto control = RawLink();
    const auto lane = RawLane(control.get());
    const RingKey key = server().fabric->RegisterRing(server().link, ring_.span());
    server().fabric->PostReceives(server().link, 0, round == 3 ? 0 : 5);
    const std::string text = "0123456789";
    std::string bytes;
    switch (round) {
      case 0:
        bytes = LaneFrame({key.remote_key + 1, 0, 10, 1}, text);
        break;
      case 1:
        bytes = LaneFrame({key.remote_key, 65530, 10, 1}, text);
        break;
      case 2:
        bytes = LaneFrame({key.remote_key, 0, UINT32_MAX, 1}, text);
        break;
      case 3:
        bytes = LaneFrame({key.remote_key, 0, 10, 1}, text);  // without a receive
        break;
      default:
        bytes = LaneFrame({key.remote_key, UINT64_MAX, 10, 1}, text);
    }
    lane->Send(bytes);
    ASSERT_TRUE(harness_.Until([&] {
      control->Step();
      return !lane->Step() && server().record().closed.has_value();
    }));
    EXPECT_EQ(server().record().closed->code(), absl::StatusCode::kAborted);
    EXPECT_TRUE(server().record().writes.empty());
    EXPECT_EQ(ring_.Text(0, 10), std::string(10, '\0'));
    // The peer was told why.
    EXPECT_NE(control->received.find("write"), std::string::npos);
  }
}

TEST_F(TcpFabricTest, ATruncatedFrameIsNoWrite) {
  for (const size_t keep : {size_t{1}, size_t{19}, size_t{20}, size_t{29}}) {
    const auto control = RawLink();
    auto lane = RawLane(control.get());
    const RingKey key = server().fabric->RegisterRing(server().link, ring_.span());
    server().fabric->PostReceives(server().link, 0, 5);
    lane->Send(LaneFrame({key.remote_key, 0, 10, 1}, "0123456789").substr(0, keep));
    ASSERT_TRUE(harness_.Until([&] { return !lane->Step() || lane->all_sent(); }));
    lane.reset();
    ASSERT_TRUE(harness_.Until([&] { return server().record().closed.has_value(); }));
    EXPECT_TRUE(server().record().writes.empty());
  }
}

TEST_F(TcpFabricTest, FramesInOddPiecesArriveWhole) {
  const auto control = RawLink();
  const auto lane = RawLane(control.get());
  const RingKey key = server().fabric->RegisterRing(server().link, ring_.span());
  server().fabric->PostReceives(server().link, 0, 200);
  sim::SimRandom random(8);
  std::string bytes;
  std::string expected;
  for (uint32_t i = 0; i < 200; ++i) {
    const std::string text(random.Below(300), static_cast<char>('a' + i % 26));
    bytes +=
        LaneFrame({key.remote_key, expected.size(), static_cast<uint32_t>(text.size()), i}, text);
    expected += text;
  }
  for (size_t at = 0; at < bytes.size();) {
    const size_t piece = std::min<size_t>(1 + random.Below(70), bytes.size() - at);
    lane->Send(bytes.substr(at, piece));
    at += piece;
    ASSERT_TRUE(harness_.Until([&] { return !lane->Step() || lane->all_sent(); }));
    harness_.tcp(&server()).Poll(0, &server().told);
  }
  ASSERT_TRUE(harness_.Until([&] { return server().record().writes.size() == 200; }));
  EXPECT_EQ(ring_.Text(0, expected.size()), expected);
}

TEST_F(TcpFabricTest, AWrongTokenOrASecondClaimOpensNoLane) {
  const auto control = RawLink();
  const auto lane = RawLane(control.get());
  Id128 token;
  std::memcpy(token.bytes.data(), control->received.data() + kControlHeaderBytes, 16);
  for (const auto& [id, claim] : {std::pair<LaneId, Id128>{0, token}, {1, token}, {0, Id128{}}}) {
    RawPeer second(harness_.address);
    second.Send(LaneIntroduction(id, claim));
    EXPECT_TRUE(UntilDropped(&second));
  }
  Id128 guess = token;
  guess.bytes[7] ^= 1;
  RawPeer guesser(harness_.address);
  guesser.Send(LaneIntroduction(0, guess));
  EXPECT_TRUE(UntilDropped(&guesser));
  EXPECT_FALSE(server().record().closed.has_value());
}

TEST_F(TcpFabricTest, SilentStrangersAreDroppedInTimeAndInNumber) {
  const TcpOptions options;
  std::vector<std::unique_ptr<RawPeer>> strangers;
  for (uint32_t i = 0; i < options.unfinished_handshake_count_max; ++i) {
    strangers.push_back(std::make_unique<RawPeer>(harness_.address));
  }
  ASSERT_TRUE(harness_.Until(
      [&] { return harness_.tcp(&server()).unfinished_handshake_count() == strangers.size(); }));
  RawPeer one_more(harness_.address);
  ASSERT_TRUE(UntilDropped(strangers.front().get()));  // the oldest makes room
  EXPECT_TRUE(one_more.Step());
  EXPECT_TRUE(harness_.Link(2));  // real nodes come through all the same
  harness_.clock.Advance(options.handshake_timeout_us + 1);
  ASSERT_TRUE(UntilDropped(&one_more));
  EXPECT_EQ(harness_.tcp(&server()).unfinished_handshake_count(), 0u);
  EXPECT_FALSE(server().record().closed.has_value());
}

TEST_F(TcpFabricTest, RandomBytesOnALaneTouchNothingButTheRing) {
  sim::SimRandom random(12);
  for (int round = 0; round < 60; ++round) {
    const auto control = RawLink();
    const auto lane = RawLane(control.get());
    const RingKey key = server().fabric->RegisterRing(server().link, ring_.span());
    server().fabric->PostReceives(server().link, 0, 8);
    std::string bytes;
    for (int frame = 0; frame < 12; ++frame) {  // more than there are receives
      const LaneHeader header{key.remote_key + (random.Below(8) == 0 ? 1u : 0u),
                              random.Below(70'000), static_cast<uint32_t>(random.Below(9'000)),
                              static_cast<uint32_t>(random.Next())};
      std::string payload(random.Below(20) == 0 ? random.Below(9'000) : header.length, '\0');
      for (char& c : payload) {
        c = static_cast<char>(random.Next());
      }
      bytes += LaneFrame(header, payload);
    }
    lane->Send(bytes);
    ASSERT_TRUE(harness_.Until([&] {
      control->Step();
      return !lane->Step() || server().record().closed.has_value();
    })) << round;
    EXPECT_LE(server().record().writes.size(), 8u);
  }
}

TEST_F(TcpFabricTest, AcceptedLinksAreLimited) {
  const uint32_t limit = TcpOptions().accepted_link_count_max;
  std::vector<std::unique_ptr<RawPeer>> links;
  for (uint32_t i = 0; i < limit; ++i) {
    links.push_back(RawLink());
  }
  RawPeer one_more(harness_.address);
  one_more.Send(ControlIntroduction());
  EXPECT_TRUE(UntilDropped(&one_more));
  const LinkId ended = server().link;
  links.pop_back();
  ASSERT_TRUE(harness_.Until([&] { return server().told[ended].closed.has_value(); }));
  EXPECT_TRUE(harness_.Link(1));  // the place is free again
}

TEST_F(TcpFabricTest, MessagesThatNobodyTakesCloseTheLink) {
  const auto peer = RawLink();  // and never reads again
  const std::vector<uint8_t> message(size_t{1} << 20, 'm');
  ASSERT_TRUE(harness_.Until([&] {
    server().fabric->Send(server().link, message);
    return server().record().closed.has_value();
  }));
  EXPECT_EQ(server().record().closed->code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(TcpFabricTest, LanesThatNeverComeTimeOut) {
  const auto control = RawLink();
  control->Send(Control(3, 2, std::string("\0\4", 2)));
  ASSERT_TRUE(harness_.Until([&] {
    control->Step();
    return control->received.size() >= kControlHeaderBytes + 16;
  }));
  EXPECT_FALSE(server().record().closed.has_value());
  harness_.clock.Advance(TcpOptions().handshake_timeout_us + 1);
  ASSERT_TRUE(harness_.Until([&] { return server().record().closed.has_value(); }));
  EXPECT_EQ(server().record().closed->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(server().record().lane_count, 0u);
}

TEST_F(TcpFabricTest, ConnectingToSomethingElseSaysSo) {
  // A listener that answers as an old text protocol would.
  const auto any = Resolve(*SplitAddress("127.0.0.1:0"), true);
  const int listener = *OpenListener(any->front());
  Node& client = harness_.client;
  const LinkId link = client.fabric->Connect(LocalAddress(listener).Text());
  int fd = -1;
  bool answered = false;
  ASSERT_TRUE(harness_.Until([&] {
    if (fd < 0) {
      fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
    } else if (!answered) {
      answered = ::send(fd, "-ERR what?\r\n", 12, MSG_NOSIGNAL) == 12;
    }
    return client.told[link].closed.has_value();
  }));
  const absl::Status& why = *client.told[link].closed;
  EXPECT_EQ(why.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(why.message()).find("-ERR what?"), std::string::npos);
  ::close(fd);

  // And one that says nothing.
  const LinkId silent = client.fabric->Connect(LocalAddress(listener).Text());
  harness_.Settle(5);
  harness_.clock.Advance(TcpOptions().connect_timeout_us + 1);
  ASSERT_TRUE(harness_.Until([&] { return client.told[silent].closed.has_value(); }));
  EXPECT_EQ(client.told[silent].closed->code(), absl::StatusCode::kDeadlineExceeded);
  ::close(listener);
}

TEST_F(TcpFabricTest, AnotherVersionIsNamed) {
  RawPeer peer(harness_.address);
  std::string introduction = ControlIntroduction();
  introduction[kMagicBytes] = 9;
  peer.Send(introduction);
  ASSERT_TRUE(UntilDropped(&peer));
  EXPECT_EQ(peer.received, std::string("KVSFABR\1", 8));
}

TEST_F(TcpFabricTest, NamesAreResolvedAndBadOnesEnd) {
  Node& client = harness_.client;
  const std::string port = harness_.address.substr(harness_.address.rfind(':'));
  const LinkId link = client.fabric->Connect("localhost" + port);
  ASSERT_TRUE(harness_.Until([&] { return client.told[link].connected; }));
  const LinkId closed = client.fabric->Connect("localhost" + port);
  client.fabric->Close(closed, absl::CancelledError("changed my mind"));
  ASSERT_TRUE(harness_.Until([&] { return client.told[closed].closed.has_value(); }));
  EXPECT_FALSE(client.told[closed].connected);
}

TEST_F(TcpFabricTest, Ipv6WhereTheMachineHasIt) {
  const auto bound = server().fabric->Listen("[::1]:0");
  if (!bound.ok()) {
    GTEST_SKIP() << "no IPv6 loopback here: " << bound.status();
  }
  harness_.address = *bound;
  ASSERT_TRUE(harness_.Link(3));
  EXPECT_TRUE(server().record().loopback);
  EXPECT_EQ(server().record().peer.rfind("[::1]:", 0), 0u);
}

TEST_F(TcpFabricTest, TheReasonOfACloseReachesThePeer) {
  ASSERT_TRUE(harness_.Link(2));
  Node& client = harness_.client;
  const std::string refusal = "refused";
  server().fabric->Send(server().link,
                        {reinterpret_cast<const uint8_t*>(refusal.data()), refusal.size()});
  server().fabric->Close(server().link, absl::PermissionDeniedError("wrong secret\n\x01"));
  ASSERT_TRUE(harness_.Until([&] { return client.record().closed.has_value(); }));
  EXPECT_EQ(client.record().closed->message(), "the peer closed the link: wrong secret??");
  EXPECT_EQ(client.record().messages, std::vector<std::string>{"refused"});
}

TEST_F(TcpFabricTest, SmallWritesShareSystemCalls) {
  ASSERT_TRUE(harness_.Link(1));
  const RingKey key = server().fabric->RegisterRing(server().link, ring_.span());
  Node& client = harness_.client;
  const TcpCounters sent_before = harness_.tcp(&client).counters();
  const TcpCounters received_before = harness_.tcp(&server()).counters();
  const std::string text(100, 'b');
  for (uint32_t round = 0; round < 50; ++round) {
    server().fabric->PostReceives(server().link, 0, 32);
    for (uint32_t i = 0; i < 32; ++i) {
      const iovec piece{const_cast<char*>(text.data()), text.size()};
      ASSERT_EQ(client.fabric->PostWrite(client.link, 0, key, i * 128, {&piece, 1}, i, i),
                OpResult::kOk);
    }
    ASSERT_TRUE(harness_.Until(
        [&] { return server().record().writes.size() == (round + 1) * size_t{32}; }));
  }
  const uint64_t sends =
      harness_.tcp(&client).counters().send_call_count - sent_before.send_call_count;
  const uint64_t receives =
      harness_.tcp(&server()).counters().receive_call_count - received_before.receive_call_count;
  EXPECT_LE(sends, 100u);
  EXPECT_LE(receives, 200u);
}

// One lane full of large writes must not hold up another lane's small one.
TEST_F(TcpFabricTest, ALargeLaneDoesNotStarveTheOthers) {
  RingMemory large_ring(32 << 20);
  ASSERT_TRUE(harness_.Link(2));
  Node& client = harness_.client;
  const RingKey key = server().fabric->RegisterRing(server().link, large_ring.span());
  server().fabric->PostReceives(server().link, 0, 100);
  server().fabric->PostReceives(server().link, 1, 100);
  const std::string block(size_t{1} << 20, 'L');
  for (uint32_t i = 0; i < 31; ++i) {
    const iovec piece{const_cast<char*>(block.data()), block.size()};
    ASSERT_EQ(client.fabric->PostWrite(client.link, 0, key, i << 20, {&piece, 1}, i, i),
              OpResult::kOk);
  }
  const iovec piece{const_cast<char*>(block.data()), 10};
  ASSERT_EQ(client.fabric->PostWrite(client.link, 1, key, 31 << 20, {&piece, 1}, 99, 99),
            OpResult::kOk);
  ASSERT_TRUE(harness_.Until([&] { return server().record().writes.size() == 32; }));
  const auto& writes = server().record().writes;
  size_t small_at = 0;
  while (writes[small_at].lane != 1) {
    ++small_at;
  }
  EXPECT_LT(small_at, 16u);
}

TEST_F(TcpFabricTest, WakeEndsAWaitingPoll) {
  std::thread waker([&] { server().fabric->Wake(); });
  server().fabric->Poll(-1, &server().told);  // for ever, but for the wake
  waker.join();
}

}  // namespace
}  // namespace kvstored::fabric
