// The pure parts: control messages, frames, rings, proofs, backlog; any bytes are survived.
#include "replication/wire.h"

#include "base/random.h"
#include "gtest/gtest.h"
#include "replication/backlog.h"
#include "replication/frame.h"
#include "replication/handshake.h"
#include "replication/inbox.h"
#include "replication/ring.h"
#include "tests/unit/replication/cluster.h"

namespace kvstored::replication {
namespace {

NodeFacts SomeFacts() {
  NodeFacts facts;
  facts.store_id.bytes.fill(3);
  facts.data_set_id.bytes.fill(4);
  facts.opening_epoch = true;
  facts.shard_count = 2;
  facts.epochs = {{{1, 0x1234}, {1, 1}}, {{4, 0x9999}, {100, 200}}};
  facts.ends = {{120, 5}, {250, 6}};
  facts.committed = {110, 240};
  facts.log_start = {1, 1};
  facts.following = "10.0.0.1:7479";
  facts.members = {3, AckLevel::kPersisted, 1, {{facts.store_id, "10.0.0.2:7479", 7379}}};
  return facts;
}

std::vector<Message> OneOfEach() {
  std::vector<Message> messages;
  Open open;
  open.nonce.fill(9);
  messages.push_back(open);
  messages.push_back(Challenge{{}, true});
  messages.push_back(Prove{});
  messages.push_back(Welcome{});
  messages.push_back(Refused{Refusal::kForked, "why", "h:1"});
  messages.push_back(Hello{SomeFacts(), true, 3});
  messages.push_back(Admission{JoinMode::kCatchUp, false, 2, 7, {1, 2}, SomeFacts()});
  messages.push_back(Ready{4096, 16, {{1, 2}, {3, 4}}, {5, 6}});
  messages.push_back(Start{{7, 8}, 16, 128});
  messages.push_back(SyncDone{});
  messages.push_back(MembersChange{SomeFacts().members});
  messages.push_back(MembersPersisted{5, true, ""});
  messages.push_back(PromotableChange{true});
  messages.push_back(PromotablePersisted{true, false, "no"});
  messages.push_back(ReplicaCondition{true});
  messages.push_back(Credits{1, 2});
  messages.push_back(Ask{2, 7, SomeFacts()});
  messages.push_back(Answer{true, "", SomeFacts()});
  messages.push_back(TailRequest{1, 2, 3});
  messages.push_back(TailPiece{true, false, "", {1, 2, 3}});
  messages.push_back(StateChange{StreamState::kStreaming});
  return messages;
}

TEST(Wire, EveryMessageComesBackAsItWasSent) {
  const std::vector<Message> messages = OneOfEach();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (const Message& message : messages) {
    const std::vector<uint8_t> bytes = EncodeMessage(message);
    std::string error;
    const auto decoded = DecodeMessage(bytes, &error);
    ASSERT_TRUE(decoded.has_value()) << message.index() << " " << error;
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(EncodeMessage(*decoded), bytes);
  }
}

TEST(Wire, AnyChangeOfAnyMessageIsSurvived) {
  base::Random random(1);
  for (const Message& message : OneOfEach()) {
    const std::vector<uint8_t> bytes = EncodeMessage(message);
    std::string error;
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodeMessage(std::span(bytes).first(size), &error).has_value());
    }
    for (int i = 0; i < 500; ++i) {
      std::vector<uint8_t> changed = bytes;
      for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
        changed[random.Below(changed.size())] = static_cast<uint8_t>(random.Next());
      }
      if (const auto decoded = DecodeMessage(changed, &error)) {
        EncodeMessage(*decoded);
      } else {
        EXPECT_FALSE(error.empty());
      }
    }
  }
}

TEST(Wire, GarbageOnALinkIsRefusedAndTheNodeGoesOn) {
  Cluster cluster;
  cluster.AddNode();
  cluster.AddNode();
  cluster.MakePrimary(0, AckLevel::kNone, 0);
  struct Garbage : FabricHandler {
    void OnAccepted(LinkId, std::string_view, bool) override {
    }
    void OnConnected(LinkId link) override {
      std::vector<uint8_t> bytes(200);
      for (uint8_t& byte : bytes) {
        byte = static_cast<uint8_t>(random.Next());
      }
      if (random.Below(2) == 0) {
        const auto start = EncodeMessage(Open{});
        std::copy(start.begin(), start.begin() + 7, bytes.begin());
      }
      fabric->Send(link, bytes);
    }
    void OnMessage(LinkId link, std::span<const uint8_t> message) override {
      std::string error;
      const auto decoded = DecodeMessage(message, &error);
      ASSERT_TRUE(decoded.has_value()) << error;
      refused += std::holds_alternative<Refused>(*decoded) ? 1 : 0;
      fabric->Close(link, absl::OkStatus());
    }
    void OnLanesOpen(LinkId, LaneId) override {
    }
    void OnWrite(LinkId, LaneId, uint32_t) override {
    }
    void OnPosted(LinkId, LaneId, uint64_t) override {
    }
    void OnClosed(LinkId, const absl::Status&) override {
    }
    base::Random random{5};
    Fabric* fabric = nullptr;
    int refused = 0;
  } garbage;
  sim::SimFabric fabric(&cluster.network, "garbage");
  garbage.fabric = &fabric;
  for (int i = 0; i < 50; ++i) {
    fabric.Connect(cluster.addresses[0]);
    cluster.RunUntil(
        [&] {
          fabric.Poll(0, &garbage);
          return garbage.refused > i;
        },
        100'000);
  }
  EXPECT_EQ(garbage.refused, 50);
  EXPECT_EQ(cluster.engines[0]->counters().bad_messages, 50u);
  cluster.Follow(1);
  ASSERT_TRUE(cluster.WaitEqual(1)) << "and replicas are still served";
}

TEST(Handshake, OutOfOrderMessagesAreRefused) {
  for (const Message& first : OneOfEach()) {
    AcceptorHandshake acceptor("secret", {}, "peer", true);
    const HandshakeResult result = acceptor.OnMessage(first);
    EXPECT_EQ(result.step == HandshakeStep::kRefused, !std::holds_alternative<Open>(first));
    ConnectorHandshake connector("secret", {});
    EXPECT_EQ(connector.OnMessage(first).step == HandshakeStep::kRefused,
              !std::holds_alternative<Challenge>(first));
  }
}

TEST(Handshake, AProofCannotBeReflected) {
  const Nonce a{1};
  const Nonce b{2};
  const Proof proof = ComputeProof("s", LinkSide::kConnector, a, b);
  EXPECT_TRUE(ProofsEqual(proof, ComputeProof("s", LinkSide::kConnector, a, b)));
  EXPECT_FALSE(ProofsEqual(proof, ComputeProof("s", LinkSide::kAcceptor, a, b)));
  EXPECT_FALSE(ProofsEqual(proof, ComputeProof("s", LinkSide::kConnector, b, a)));
  EXPECT_FALSE(ProofsEqual(proof, ComputeProof("t", LinkSide::kConnector, a, b)));
}

TEST(Frame, HeaderAndWatermarkComeBackAndAreChecked) {
  FrameHeader header{FrameKind::kSnapshot, 1, 200, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  uint8_t bytes[kFrameHeaderBytes];
  EncodeFrameHeader(header, bytes);
  EXPECT_EQ(DecodeFrameHeader(bytes), header);
  Watermark watermark;
  watermark.lane = 3;
  watermark.entries = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
  std::vector<uint8_t> encoded;
  EncodeWatermark(watermark, &encoded);
  Watermark decoded;
  ASSERT_TRUE(DecodeWatermark(encoded, &decoded));
  EXPECT_EQ(decoded, watermark);
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    bytes[i] ^= 1;
    EXPECT_FALSE(DecodeFrameHeader(bytes).has_value()) << i;
    bytes[i] ^= 1;
  }
  for (size_t i = 0; i < encoded.size(); ++i) {
    encoded[i] ^= 1;
    EXPECT_FALSE(DecodeWatermark(encoded, &decoded)) << i;
    encoded[i] ^= 1;
  }
  const Immediate immediate{FrameKind::kWatermark, 255, kAdvanceBytesMax};
  const auto back = DecodeImmediate(EncodeImmediate(immediate));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->shard, 255);
  EXPECT_EQ(back->advance_bytes, kAdvanceBytesMax);
  EXPECT_FALSE(DecodeImmediate(0).has_value());
}

TEST(Ring, BothEndsAgreeOnEveryPlace) {
  base::Random random(9);
  RingWriter writer(4096);
  RingReader reader(4096);
  std::deque<uint64_t> ends;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bytes = 8 * (1 + random.Below(200));
    const auto place = writer.Place(bytes);
    if (!place) {
      ASSERT_FALSE(ends.empty()) << "an empty ring takes anything up to half of it";
      ASSERT_TRUE(writer.Free(ends.front()));
      ends.pop_front();
      continue;
    }
    ASSERT_LE(place->offset + bytes, 4096u) << "never wraps";
    const auto seen = reader.Arrive(place->advance_bytes, writer.freed());
    ASSERT_TRUE(seen.has_value());
    writer.Commit(*place);
    EXPECT_EQ(seen->size(), bytes);
    EXPECT_EQ(seen->data() - reader.memory().data(), static_cast<ptrdiff_t>(place->offset));
    EXPECT_EQ(reader.arrived(), writer.posted());
    ends.push_back(writer.posted());
  }
  EXPECT_FALSE(reader.Arrive(8192, writer.freed()).has_value());
  EXPECT_FALSE(writer.Free(writer.posted() + 8));
}

TEST(Backlog, KeepsTheNewestWithinItsBytes) {
  int64_t charged = 0;
  Backlog backlog({0, 10}, 2000, [&charged](int64_t bytes) { charged += bytes; });
  for (Seq seq = 1; seq <= 50; ++seq) {
    auto batch = std::make_shared<record::Batch>();
    batch->first_seq = 2 * seq - 1;
    batch->last_seq = 2 * seq;
    batch->bytes.resize(100);
    backlog.Add(std::move(batch), /*keep=*/true);
  }
  EXPECT_LE(backlog.bytes(), 1000u);
  EXPECT_GE(backlog.bytes(), 900u);
  EXPECT_EQ(static_cast<uint64_t>(charged), backlog.bytes());
  EXPECT_EQ(backlog.end(0), 100u);
  EXPECT_EQ(backlog.end(1), 10u);
  EXPECT_EQ(backlog.Find(0, 100)->first_seq, 99u);
  EXPECT_EQ(backlog.Find(0, 95)->first_seq, 95u);
  EXPECT_EQ(backlog.Find(0, 10), nullptr);
  EXPECT_EQ(backlog.Find(0, 101), nullptr);
  auto gap = std::make_shared<record::Batch>();
  gap->first_seq = gap->last_seq = 200;
  backlog.Add(std::move(gap), /*keep=*/true);
  EXPECT_EQ(backlog.Find(0, 100), nullptr) << "what is missing comes from the log";
  EXPECT_EQ(backlog.end(0), 200u);
  // Nobody is there who may want it.
  for (Seq seq = 201; seq <= 205; ++seq) {
    auto batch = std::make_shared<record::Batch>();
    batch->first_seq = batch->last_seq = seq;
    batch->bytes.resize(100);
    backlog.Add(std::move(batch), /*keep=*/seq < 205);
  }
  EXPECT_EQ(backlog.Find(0, 204), nullptr);
  EXPECT_EQ(backlog.Find(0, 205)->first_seq, 205u);
  EXPECT_EQ(charged, 100);
}

TEST(Inbox, KeepsEachProducersOrder) {
  Inbox<int> inbox;
  EXPECT_TRUE(inbox.Push(1));
  EXPECT_FALSE(inbox.Push(2));
  std::vector<int> got;
  EXPECT_TRUE(inbox.Drain([&](int& value) { got.push_back(value); }));
  EXPECT_EQ(got, (std::vector<int>{1, 2}));
  EXPECT_FALSE(inbox.Drain([&](int&) {}));
}

}  // namespace
}  // namespace kvstored::replication
