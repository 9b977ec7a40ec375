// The contract of kvstored/fabric.h, the same for every fabric.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>

#include "base/crc32c.h"
#include "tests/sim/sim_random.h"
#include "tests/unit/fabric/sim_harness.h"
#include "tests/unit/fabric/tcp_harness.h"

namespace kvstored::fabric {
namespace {

template <typename H>
class FabricContract : public ::testing::Test {
 protected:
  OpResult Write(Node* from, LaneId lane, RingKey ring, uint64_t offset, std::string_view bytes,
                 uint32_t immediate, uint64_t wr_id) {
    const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    return from->fabric->PostWrite(from->link, lane, ring, offset, {&piece, 1}, immediate, wr_id);
  }
  Node& server() {
    return harness_.server;
  }
  Node& client() {
    return harness_.client;
  }

  RingMemory server_ring_{1 << 16};
  RingMemory client_ring_{1 << 16};
  H harness_;
};

using Harnesses = ::testing::Types<SimHarness, TcpHarness>;
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
  for (int i = 0; i < 300; ++i) {  // more pieces than one system call takes here
    texts.push_back(std::string(static_cast<size_t>(i % 7), static_cast<char>('A' + i % 26)));
    whole += texts.back();
  }
  std::vector<iovec> pieces;
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

TYPED_TEST(FabricContract, AnUnknownKeyOrABadOffsetBreaksTheLinkAndNeverLands) {
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

TYPED_TEST(FabricContract, ARingKeyDiesWithItsLink) {
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

TYPED_TEST(FabricContract, ARingKeyOfAnEarlierProcessNeverLands) {
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

TYPED_TEST(FabricContract, CloseFencesAtOnce) {
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

TYPED_TEST(FabricContract, CloseInsideAnUpcallIsTheLastOne) {
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

TYPED_TEST(FabricContract, CallsOnAClosedLinkDoNothing) {
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

TYPED_TEST(FabricContract, SourcesAreFreeAfterOnClosed) {
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

TYPED_TEST(FabricContract, WritesOfOneMebibyteOverSeveralLanes) {
  RingMemory ring_memory(4 << 20);
  ASSERT_TRUE(this->harness_.Link(3));
  const RingKey ring = this->server().fabric->RegisterRing(this->server().link, ring_memory.span());
  sim::SimRandom random(5);
  std::vector<std::string> blocks;
  for (LaneId lane = 0; lane < 3; ++lane) {
    std::string block(size_t{1} << 20, '\0');
    for (size_t i = 0; i < block.size(); i += 8) {
      const uint64_t word = random.Next();
      std::memcpy(&block[i], &word, 8);
    }
    blocks.push_back(std::move(block));
    this->server().fabric->PostReceives(this->server().link, lane, 2);
  }
  for (LaneId lane = 0; lane < 3; ++lane) {
    ASSERT_EQ(this->Write(&this->client(), lane, ring, size_t{lane} << 20, blocks[lane], lane, 1),
              OpResult::kOk);
    ASSERT_EQ(this->Write(&this->client(), lane, ring, 3 << 20, "small", lane, 2), OpResult::kOk);
  }
  ASSERT_TRUE(this->harness_.Until([&] { return this->server().record().writes.size() == 6; }));
  for (LaneId lane = 0; lane < 3; ++lane) {
    EXPECT_TRUE(ring_memory.Text(size_t{lane} << 20, size_t{1} << 20) == blocks[lane]);
  }
}

TYPED_TEST(FabricContract, ConnectAndKillTwoHundredTimes) {
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

// A client that keeps the ring protocol: random sizes, wrap at the end of the ring, credits
// returned in messages, every write with a checksum over its bytes as immediate.
template <typename H>
class RingStream {
 public:
  RingStream(H* harness, LaneId lane_count, uint64_t seed, uint32_t write_count)
      : harness_(harness), random_(seed), lanes_(lane_count), write_count_(write_count) {
    Node& server = harness->server;
    for (LaneId lane = 0; lane < lane_count; ++lane) {
      lanes_[lane].ring = std::make_unique<RingMemory>(kRing);
      lanes_[lane].key = server.fabric->RegisterRing(server.link, lanes_[lane].ring->span());
      server.fabric->PostReceives(server.link, lane, kCredits);
      lanes_[lane].credits = kCredits;
      lanes_[lane].free_bytes = kRing;
    }
    server.told.on_write = [this](LinkId, LaneId lane, uint32_t imm) {
      Take(lane, imm);
    };
    harness->client.told.on_posted = [this](LinkId, LaneId lane, uint64_t wr_id) {
      auto& sources = lanes_[lane].sources;
      KVS_CHECK(sources.front().first == wr_id, "wr_id");
      // The owner reuses the buffer at once.
      std::fill(sources.front().second->begin(), sources.front().second->end(), '!');
      sources.pop_front();
    };
  }

  void PostSome() {
    for (LaneId lane = 0; lane < lanes_.size(); ++lane) {
      while (Post(lane)) {
      }
    }
  }
  bool done() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [this](const Lane& lane) {
      return lane.taken_count == write_count_ && lane.sources.empty();
    });
  }
  uint64_t bad_count() const {
    return bad_count_;
  }

 private:
  static constexpr size_t kRing = 1 << 17;
  static constexpr uint32_t kCredits = 40;
  struct Lane {
    std::unique_ptr<RingMemory> ring;
    RingKey key;
    uint32_t credits = 0;
    size_t free_bytes = 0;
    size_t head = 0;  // next offset to write
    uint32_t posted_count = 0;
    uint32_t taken_count = 0;
    std::deque<std::pair<uint64_t, std::unique_ptr<std::string>>> sources;
    std::deque<std::pair<size_t, size_t>> expected;  // offset, size (what a header would tell)
  };

  bool Post(LaneId lane_id) {
    Lane& lane = lanes_[lane_id];
    if (lane.posted_count == write_count_ || lane.credits == 0) {
      return false;
    }
    const size_t cap = random_.Below(20) == 0 ? 60'000 : 300;
    const size_t size_bytes =
        std::min({random_.Below(cap) + 1, kRing - lane.head, lane.free_bytes});
    if (size_bytes == 0) {
      return false;
    }
    auto source = std::make_unique<std::string>(size_bytes, '\0');
    for (char& c : *source) {
      c = static_cast<char>(random_.Next());
    }
    const size_t cut = random_.Below(size_bytes + 1);
    const iovec pieces[] = {{source->data(), cut}, {source->data() + cut, size_bytes - cut}};
    const uint32_t crc = base::Crc32c(0, source->data(), size_bytes);
    Node& client = harness_->client;
    if (client.fabric->PostWrite(client.link, lane_id, lane.key, lane.head, pieces, crc,
                                 lane.posted_count) != OpResult::kOk) {
      return false;
    }
    lane.expected.emplace_back(lane.head, size_bytes);
    lane.sources.emplace_back(lane.posted_count, std::move(source));
    lane.head = (lane.head + size_bytes) % kRing;
    lane.free_bytes -= size_bytes;
    --lane.credits;
    ++lane.posted_count;
    return true;
  }
  void Take(LaneId lane_id, uint32_t immediate) {
    Lane& lane = lanes_[lane_id];
    const auto [offset, size_bytes] = lane.expected.front();
    lane.expected.pop_front();
    if (base::Crc32c(0, lane.ring->data() + offset, size_bytes) != immediate) {
      ++bad_count_;
    }
    std::memset(lane.ring->data() + offset, 0, size_bytes);
    ++lane.taken_count;
    harness_->server.fabric->PostReceives(harness_->server.link, lane_id, 1);
    ++lane.credits;
    lane.free_bytes += size_bytes;
  }

  H* const harness_;
  sim::SimRandom random_;
  std::vector<Lane> lanes_;
  const uint32_t write_count_;
  uint64_t bad_count_ = 0;
};

TYPED_TEST(FabricContract, RandomStreamsKeepEveryByte) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    ASSERT_TRUE(this->harness_.Link(4));
    RingStream<TypeParam> stream(&this->harness_, 4, seed, 1500);
    ASSERT_TRUE(this->harness_.Until([&] {
      stream.PostSome();
      return stream.done();
    }));
    EXPECT_EQ(stream.bad_count(), 0u);
    this->server().told.on_write = nullptr;
    this->client().told.on_posted = nullptr;
    this->client().fabric->Close(this->client().link, absl::OkStatus());
    ASSERT_TRUE(this->harness_.Until([&] { return this->server().record().closed.has_value(); }));
  }
}

}  // namespace
}  // namespace kvstored::fabric
