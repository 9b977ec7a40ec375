// The contract of kvstored/fabric.h: every byte of large and of random writes over several lanes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "tests/sim/sim_random.h"
#include "tests/unit/fabric/contract_fixture.h"

namespace kvstored::fabric {
namespace {

template <typename H>
class FabricStreams : public FabricContract<H> {};
TYPED_TEST_SUITE(FabricStreams, Harnesses);

TYPED_TEST(FabricStreams, WritesOfOneMebibyteOverSeveralLanes) {
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

TYPED_TEST(FabricStreams, RandomStreamsKeepEveryByte) {
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
