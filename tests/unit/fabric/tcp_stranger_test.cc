// What strangers send to the TCP fabric: garbage, frames that break its rules, nothing at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/sim_random.h"
#include "tests/unit/fabric/tcp_fixture.h"

namespace kvstored::fabric {
namespace {

class TcpStrangerTest : public TcpFabricTest {};

TEST_F(TcpStrangerTest, RandomBytesAtThePortAreDropped) {
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

TEST_F(TcpStrangerTest, GarbageAfterTheIntroductionClosesTheLink) {
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

TEST_F(TcpStrangerTest, BadControlItemsCloseTheLink) {
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

TEST_F(TcpStrangerTest, ALimitSizedMessagePassesByteByByte) {
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

TEST_F(TcpStrangerTest, BadLaneFramesCloseTheLinkAndNeverLand) {
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

TEST_F(TcpStrangerTest, ATruncatedFrameIsNoWrite) {
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

TEST_F(TcpStrangerTest, FramesInOddPiecesArriveWhole) {
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

TEST_F(TcpStrangerTest, AWrongTokenOrASecondClaimOpensNoLane) {
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

TEST_F(TcpStrangerTest, RandomBytesOnALaneTouchNothingButTheRing) {
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

TEST_F(TcpStrangerTest, SilentStrangersAreDroppedInTimeAndInNumber) {
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

}  // namespace
}  // namespace kvstored::fabric
