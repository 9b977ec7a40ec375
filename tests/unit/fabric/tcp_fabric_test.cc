// What only the TCP fabric can meet between nodes: limits, time-outs, names, system calls.
#include "fabric/tcp/tcp_fabric.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/fabric/tcp_fixture.h"

namespace kvstored::fabric {
namespace {

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
  std::ifstream hosts("/etc/hosts");
  const std::string text{std::istreambuf_iterator<char>(hosts), std::istreambuf_iterator<char>()};
  if (text.find("localhost") == std::string::npos) {
    GTEST_SKIP() << "/etc/hosts does not name localhost here: no name is known for sure";
  }
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
