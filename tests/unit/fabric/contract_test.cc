// The contract of kvstored/fabric.h: links, messages, writes and their credits.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/fabric/contract_fixture.h"

namespace kvstored::fabric {
namespace {

TYPED_TEST_SUITE(FabricContract, Harnesses);

TYPED_TEST(FabricContract, ConnectTellsBothEnds) {
  ASSERT_TRUE(this->harness_.Link(0));
  EXPECT_TRUE(this->client().record().connected);
  EXPECT_FALSE(this->client().record().accepted);
  EXPECT_TRUE(this->server().record().accepted);
  EXPECT_TRUE(this->server().record().loopback);
  EXPECT_EQ(this->server().record().peer.rfind("127.0.0.1:", 0), 0u);
}

TYPED_TEST(FabricContract, ConnectToNobodyEndsInOnClosed) {
  ASSERT_TRUE(this->harness_.Listen());
  const std::string address = this->harness_.address;
  this->harness_.Restart(&this->server());  // nobody listens there any more
  const LinkId link = this->client().fabric->Connect(address);
  ASSERT_TRUE(this->harness_.Until([&] { return this->client().told[link].closed.has_value(); }));
  EXPECT_FALSE(this->client().told[link].connected);
  EXPECT_FALSE(this->client().told[link].closed->ok());
}

TYPED_TEST(FabricContract, AnUnusableAddressEndsInOnClosed) {
  for (const char* address : {"nonsense", "127.0.0.1:", ":", "127.0.0.1:99999"}) {
    const LinkId link = this->client().fabric->Connect(address);
    ASSERT_TRUE(this->harness_.Until([&] { return this->client().told[link].closed.has_value(); }))
        << address;
  }
}

TYPED_TEST(FabricContract, AnAddressIsListenedOnOnce) {
  ASSERT_TRUE(this->harness_.Listen());
  EXPECT_FALSE(this->client().fabric->Listen(this->harness_.address).ok());
  EXPECT_FALSE(this->client().fabric->Listen("no address").ok());
}

TYPED_TEST(FabricContract, MessagesKeepTheirOrderAndBounds) {
  ASSERT_TRUE(this->harness_.Link(0));
  std::vector<std::string> sent;
  for (size_t i = 0; i < 300; ++i) {
    sent.push_back(std::string(i * 17 % 700, static_cast<char>('a' + i % 26)));
  }
  sent.push_back("");
  sent.push_back(std::string(size_t{1} << 20, 'x'));
  sent.push_back("last");
  for (Node* node : {&this->client(), &this->server()}) {
    for (const std::string& text : sent) {
      node->fabric->Send(node->link, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    }
  }
  ASSERT_TRUE(this->harness_.Until([&] {
    return this->server().record().messages.size() == sent.size() &&
           this->client().record().messages.size() == sent.size();
  }));
  EXPECT_EQ(this->server().record().messages, sent);
  EXPECT_EQ(this->client().record().messages, sent);
}

TYPED_TEST(FabricContract, BytesLandAtTheOffsetBeforeOnWrite) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey ring =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  this->server().fabric->PostReceives(this->server().link, 0, 2);
  std::vector<std::string> seen;
  this->server().told.on_write = [&](LinkId, LaneId, uint32_t immediate) {
    seen.push_back(this->server_ring_.Text(immediate, 5));
  };
  ASSERT_EQ(this->Write(&this->client(), 0, ring, 4096, "hello", 4096, 7), OpResult::kOk);
  ASSERT_EQ(this->Write(&this->client(), 0, ring, 65531, "world", 65531, 8), OpResult::kOk);
  ASSERT_TRUE(this->harness_.Until([&] {
    return this->server().record().writes.size() == 2 && this->client().record().posted.size() == 2;
  }));
  EXPECT_EQ(seen, (std::vector<std::string>{"hello", "world"}));
  EXPECT_EQ(this->client().record().posted[0].wr_id, 7u);
  EXPECT_EQ(this->client().record().posted[1].wr_id, 8u);
  // Nothing else was touched.
  EXPECT_EQ(std::count(this->server_ring_.data(), this->server_ring_.data() + 65536, 0),
            65536 - 10);
}

TYPED_TEST(FabricContract, BothDirectionsWrite) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey at_server =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  const RingKey at_client =
      this->client().fabric->RegisterRing(this->client().link, this->client_ring_.span());
  this->server().fabric->PostReceives(this->server().link, 0, 1);
  this->client().fabric->PostReceives(this->client().link, 0, 1);
  ASSERT_EQ(this->Write(&this->client(), 0, at_server, 0, "there", 1, 1), OpResult::kOk);
  ASSERT_EQ(this->Write(&this->server(), 0, at_client, 8, "back", 2, 2), OpResult::kOk);
  ASSERT_TRUE(this->harness_.Until([&] {
    return this->server().record().writes.size() == 1 && this->client().record().writes.size() == 1;
  }));
  EXPECT_EQ(this->server_ring_.Text(0, 5), "there");
  EXPECT_EQ(this->client_ring_.Text(8, 4), "back");
}

TYPED_TEST(FabricContract, GatherListsAndEmptyWrites) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey ring =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  this->server().fabric->PostReceives(this->server().link, 0, 3);
  std::vector<std::string> texts;
  std::string whole;
  texts.reserve(300);
  for (int i = 0; i < 300; ++i) {  // more pieces than one system call takes here
    texts.push_back(std::string(static_cast<size_t>(i % 7), static_cast<char>('A' + i % 26)));
    whole += texts.back();
  }
  std::vector<iovec> pieces;
  pieces.reserve(texts.size());
  for (std::string& text : texts) {
    pieces.push_back({text.data(), text.size()});
  }
  Node& client = this->client();
  ASSERT_EQ(client.fabric->PostWrite(client.link, 0, ring, 100, pieces, 1, 1), OpResult::kOk);
  ASSERT_EQ(
      client.fabric->PostWrite(client.link, 0, RingKey{ring.address, ring.remote_key}, 0, {}, 2, 2),
      OpResult::kOk);
  ASSERT_EQ(this->Write(&client, 0, ring, 0, "end", 3, 3), OpResult::kOk);
  ASSERT_TRUE(this->harness_.Until([&] { return this->server().record().writes.size() == 3; }));
  EXPECT_EQ(this->server_ring_.Text(100, whole.size()), whole);
  EXPECT_EQ(this->server().record().writes[1].immediate, 2u);
}

TYPED_TEST(FabricContract, ImmediatesKeepTheirOrderInEachOfOneToEightLanes) {
  for (LaneId lane_count = 1; lane_count <= 8; ++lane_count) {
    ASSERT_TRUE(this->harness_.Link(lane_count));
    const RingKey ring =
        this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
    constexpr uint32_t kWrites = 50;
    for (LaneId lane = 0; lane < lane_count; ++lane) {
      this->server().fabric->PostReceives(this->server().link, lane, kWrites);
    }
    const std::string text = "0123456789";
    for (uint32_t i = 0; i < kWrites; ++i) {
      for (LaneId lane = 0; lane < lane_count; ++lane) {
        ASSERT_EQ(this->Write(&this->client(), lane, ring, i * 16, text, i, i), OpResult::kOk);
      }
    }
    ASSERT_TRUE(this->harness_.Until([&] {
      return this->server().record().writes.size() == kWrites * lane_count &&
             this->client().record().posted.size() == kWrites * lane_count;
    }));
    std::vector<uint32_t> next(lane_count, 0);
    for (const ArrivedWrite& write : this->server().record().writes) {
      EXPECT_EQ(write.immediate, next[write.lane]++);
    }
    std::vector<uint64_t> next_posted(lane_count, 0);
    for (const CompletedPost& post : this->client().record().posted) {
      EXPECT_EQ(post.wr_id, next_posted[post.lane]++);
    }
    this->client().fabric->Close(this->client().link, absl::OkStatus());
    ASSERT_TRUE(this->harness_.Until([&] {
      return this->server().record().closed.has_value() &&
             this->client().record().closed.has_value();
    }));
  }
}

TYPED_TEST(FabricContract, AWriteWithoutAReceiveIsAnErrorOfTheLinkAtBothEnds) {
  ASSERT_TRUE(this->harness_.Link(2));
  const RingKey ring =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  this->server().fabric->PostReceives(this->server().link, 0, 2);
  this->server().fabric->PostReceives(this->server().link, 1, 10);  // another lane's do not help
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_EQ(this->Write(&this->client(), 0, ring, i * 8, "12345678", i, i), OpResult::kOk);
  }
  ASSERT_TRUE(this->harness_.Until([&] {
    return this->server().record().closed.has_value() && this->client().record().closed.has_value();
  }));
  EXPECT_LE(this->server().record().writes.size(), 2u);
  EXPECT_EQ(this->server_ring_.Text(16, 8), std::string(8, '\0'));
  EXPECT_FALSE(this->server().record().closed->ok());
  EXPECT_FALSE(this->client().record().closed->ok());
}

TYPED_TEST(FabricContract, ExactlyTheCreditsThatWerePostedAreGood) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey ring =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  for (uint32_t round = 0; round < 20; ++round) {
    this->server().fabric->PostReceives(this->server().link, 0, 3);
    for (uint32_t i = 0; i < 3; ++i) {
      ASSERT_EQ(this->Write(&this->client(), 0, ring, 0, "x", round, i), OpResult::kOk);
    }
    ASSERT_TRUE(this->harness_.Until(
        [&] { return this->server().record().writes.size() == (round + 1) * 3; }));
  }
  EXPECT_FALSE(this->server().record().closed.has_value());
}

TYPED_TEST(FabricContract, AFullSendQueueSaysWaitThenGoesOn) {
  ASSERT_TRUE(this->harness_.Link(1));
  const RingKey ring =
      this->server().fabric->RegisterRing(this->server().link, this->server_ring_.span());
  this->server().fabric->PostReceives(this->server().link, 0, 1'000'000);
  const std::string text(1000, 'q');
  uint32_t posted = 0;
  uint32_t waits = 0;
  while (posted < 5000) {
    if (this->Write(&this->client(), 0, ring, 0, text, posted, posted) == OpResult::kWait) {
      ++waits;
      const size_t before = this->client().record().posted.size();
      ASSERT_TRUE(
          this->harness_.Until([&] { return this->client().record().posted.size() > before; }));
    } else {
      ++posted;
    }
  }
  EXPECT_GT(waits, 0u);
  ASSERT_TRUE(this->harness_.Until([&] { return this->server().record().writes.size() == 5000; }));
  for (uint32_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(this->server().record().writes[i].immediate, i);
  }
}

}  // namespace
}  // namespace kvstored::fabric
