// The contract of kvstored/fabric.h: what never lands, and what a closed link no longer does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "tests/sim/sim_random.h"
#include "tests/unit/fabric/contract_fixture.h"

namespace kvstored::fabric {
namespace {

template <typename H>
class FabricFence : public FabricContract<H> {};
TYPED_TEST_SUITE(FabricFence, Harnesses);

TYPED_TEST(FabricFence, AnUnknownKeyOrABadOffsetBreaksTheLinkAndNeverLands) {
  struct Case {
    uint32_t key_delta;
    uint64_t offset;
  };
  for (const Case bad : {Case{999, 0}, Case{0, 65536}, Case{0, 65530}, Case{0, UINT64_MAX - 3}}) {
    ASSERT_TRUE(this->harness_.Link(1));
    RingKey ring =
        this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
    ring.remote_key += bad.key_delta;
    this->server().fabric->PostReceives(this->server().link, 0, 4);
    ASSERT_EQ(this->Write(&this->client(), 0, ring, bad.offset, "overrun", 1, 1), OpResult::kOk);
    ASSERT_TRUE(this->harness_.Until([&] {
      return this->server().record().closed.has_value() &&
             this->client().record().closed.has_value();
    }));
    EXPECT_TRUE(this->server().record().writes.empty());
    EXPECT_EQ(std::count(this->server_ring_.data(), this->server_ring_.data() + 65536, 0), 65536);
  }
}

TYPED_TEST(FabricFence, ARingKeyDiesWithItsLink) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey stale =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  this->server().fabric->Close(this->server().link, absl::OkStatus());
  ASSERT_TRUE(this->harness_.Until([&] { return this->client().record().closed.has_value(); }));
  ASSERT_TRUE(this->harness_.Link(1));
  (void)this->server().fabric->RegisterRing(this->server().link, this->client_ring_.span());
  this->server().fabric->PostReceives(this->server().link, 0, 4);
  ASSERT_EQ(this->Write(&this->client(), 0, stale, 0, "stale", 1, 1), OpResult::kOk);
  ASSERT_TRUE(this->harness_.Until([&] {
    return this->server().record().closed.has_value() && this->client().record().closed.has_value();
  }));
  EXPECT_EQ(this->server_ring_.Text(0, 5), std::string(5, '\0'));
  EXPECT_EQ(this->client_ring_.Text(0, 5), std::string(5, '\0'));
}

TYPED_TEST(FabricFence, ARingKeyOfAnEarlierProcessNeverLands) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey stale =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  this->harness_.Restart(&this->server());
  ASSERT_TRUE(this->harness_.Until([&] { return this->client().record().closed.has_value(); }));
  ASSERT_TRUE(this->harness_.Link(1));
  (void)this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  this->server().fabric->PostReceives(this->server().link, 0, 4);
  ASSERT_EQ(this->Write(&this->client(), 0, stale, 0, "stale", 1, 1), OpResult::kOk);
  ASSERT_TRUE(this->harness_.Until([&] {
    return this->server().record().closed.has_value() && this->client().record().closed.has_value();
  }));
  EXPECT_EQ(this->server_ring_.Text(0, 5), std::string(5, '\0'));
}

TYPED_TEST(FabricFence, CloseFencesAtOnce) {
  for (uint32_t round = 0; round < 30; ++round) {
    ASSERT_TRUE(this->harness_.Link(2));
    const RingKey ring =
        this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
    this->server().fabric->PostReceives(this->server().link, 0, 100);
    this->server().fabric->PostReceives(this->server().link, 1, 100);
    const std::string text(600, 'z');
    for (uint32_t i = 0; i < 100; ++i) {
      ASSERT_EQ(this->Write(&this->client(), i % 2, ring, i * 600, text, i, i), OpResult::kOk);
    }
    this->client().fabric->Send(this->client().link, {});
    this->harness_.Settle(static_cast<int>(round % 7));
    const LinkRecord before = this->server().record();
    this->server().fabric->Close(this->server().link, absl::AbortedError("fenced"));
    std::memset(this->server_ring_.data(), 0, 65536);
    ASSERT_TRUE(this->harness_.Until([&] {
      return this->server().record().closed.has_value() &&
             this->client().record().closed.has_value();
    }));
    this->harness_.Settle();
    EXPECT_EQ(std::count(this->server_ring_.data(), this->server_ring_.data() + 65536, 0), 65536);
    EXPECT_EQ(this->server().record().writes.size(), before.writes.size());
    EXPECT_EQ(this->server().record().messages.size(), before.messages.size());
    EXPECT_EQ(this->server().record().closed->message(), "fenced");
  }
}

TYPED_TEST(FabricFence, CloseInsideAnUpcallIsTheLastOne) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey ring =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  this->server().fabric->PostReceives(this->server().link, 0, 10);
  this->server().told.on_write = [&](LinkId link, LaneId, uint32_t) {
    this->server().fabric->Close(link, absl::AbortedError("first write"));
    std::memset(this->server_ring_.data(), 0, 65536);
  };
  for (uint32_t i = 0; i < 10; ++i) {
    ASSERT_EQ(this->Write(&this->client(), 0, ring, 64 * i, "bytes", i, i), OpResult::kOk);
  }
  ASSERT_TRUE(this->harness_.Until([&] {
    return this->server().record().closed.has_value() && this->client().record().closed.has_value();
  }));
  EXPECT_EQ(this->server().record().writes.size(), 1u);
  EXPECT_EQ(std::count(this->server_ring_.data(), this->server_ring_.data() + 65536, 0), 65536);
}

TYPED_TEST(FabricFence, CallsOnAClosedLinkDoNothing) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey ring =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  Node& client = this->client();
  client.fabric->Close(client.link, absl::CancelledError("done"));
  const auto touch = [&] {
    client.fabric->Send(client.link, {});
    client.fabric->PostReceives(client.link, 0, 1);
    client.fabric->OpenLanes(client.link, 1);
    EXPECT_EQ(client.fabric->RegisterRing(client.link, this->client_ring_.span()).remote_key, 0u);
    EXPECT_EQ(this->Write(&client, 0, ring, 0, "late", 1, 1), OpResult::kOk);
    client.fabric->Close(client.link, absl::UnknownError("twice"));
  };
  touch();
  ASSERT_TRUE(this->harness_.Until([&] {
    return this->server().record().closed.has_value() && client.record().closed.has_value();
  }));
  touch();
  this->harness_.Settle();
  EXPECT_EQ(client.record().closed->message(), "done");
  EXPECT_TRUE(client.record().posted.empty());
  EXPECT_TRUE(this->server().record().writes.empty());
}

TYPED_TEST(FabricFence, SourcesAreFreeAfterOnClosed) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(this->harness_.Link(2));
    const RingKey ring =
        this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
    this->server().fabric->PostReceives(this->server().link, 0, 200);
    auto source = std::make_unique<std::string>(30'000, 's');
    for (uint32_t i = 0; i < 60; ++i) {
      ASSERT_EQ(this->Write(&this->client(), 0, ring, 0, *source, i, i), OpResult::kOk);
    }
    this->harness_.Settle(round);
    if (round % 2 == 0) {
      this->server().fabric->Close(this->server().link, absl::OkStatus());
    } else {
      this->client().fabric->Close(this->client().link, absl::OkStatus());
    }
    ASSERT_TRUE(this->harness_.Until([&] { return this->client().record().closed.has_value(); }));
    source.reset();  // a late read of it is what the address sanitizer finds
    this->harness_.Settle(20);
    ASSERT_TRUE(this->harness_.Until([&] { return this->server().record().closed.has_value(); }));
  }
}

TYPED_TEST(FabricFence, ConnectAndKillTwoHundredTimes) {
  sim::SimRandom random(11);
  for (int round = 0; round < 200; ++round) {
    const auto lane_count = static_cast<LaneId>(random.Below(5));
    ASSERT_TRUE(this->harness_.Link(lane_count)) << round;
    if (lane_count > 0) {
      const RingKey ring =
          this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
      this->server().fabric->PostReceives(this->server().link, 0, 5);
      ASSERT_EQ(this->Write(&this->client(), 0, ring, 0, "abc", 1, 1), OpResult::kOk);
    }
    this->harness_.Settle(static_cast<int>(random.Below(4)));
    Node& killed = random.Below(2) == 0 ? this->server() : this->client();
    Node& other = &killed == &this->server() ? this->client() : this->server();
    if (random.Below(3) == 0) {
      const LinkId link = other.link;
      this->harness_.Restart(&killed);
      ASSERT_TRUE(this->harness_.Until([&] { return other.told[link].closed.has_value(); }));
    } else {
      killed.fabric->Close(killed.link, absl::OkStatus());
      ASSERT_TRUE(this->harness_.Until(
          [&] { return killed.record().closed.has_value() && other.record().closed.has_value(); }));
    }
  }
}

}  // namespace
}  // namespace kvstored::fabric
