#include "replication/wire.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "kvstored/limits.h"

namespace kvstored::replication {
namespace {

constexpr size_t kMessageHeaderBytes = 8;

// The fields of the composite values, written once for both directions.
template <class A, class S>
void EpochFields(A& a, S& s) {
  a(s.epoch.number);
  a(s.epoch.id);
  a(s.first_seq);
}
template <class A, class S>
void EndFields(A& a, S& s) {
  a(s.end);
  a(s.last_checksum);
}
template <class A, class S>
void MemberFields(A& a, S& s) {
  a(s.store_id);
  a(s.address);
  a(s.front_port);
}
template <class A, class S>
void MemberSetFields(A& a, S& s) {
  a(s.version);
  a(s.ack);
  a(s.ack_replicas);
  a(s.members);
}
template <class A, class S>
void FactsFields(A& a, S& s) {
  a(s.store_id);
  a(s.data_set_id);
  a(s.data_seed);
  a(s.incarnation);
  a(s.role);
  a(s.serving);
  a(s.promotable);
  a(s.opening_epoch);
  a(s.shard_count);
  a(s.promised);
  a(s.front_port);
  a(s.replication_port);
  a(s.following);
  a(s.epochs);
  a(s.ends);
  a(s.committed);
  a(s.log_start);
  a(s.members);
}
template <class A, class S>
void RingKeyFields(A& a, S& s) {
  a(s.address);
  a(s.remote_key);
}

class Writer {
 public:
  explicit Writer(std::vector<uint8_t>* out) : out_(out) {
  }
  void operator()(uint8_t v) {
    out_->push_back(v);
  }
  void operator()(bool v) {
    out_->push_back(v ? 1 : 0);
  }
  void operator()(uint16_t v) {
    base::StoreBe16(Grow(2), v);
  }
  void operator()(uint32_t v) {
    base::StoreBe32(Grow(4), v);
  }
  void operator()(uint64_t v) {
    base::StoreBe64(Grow(8), v);
  }
  void operator()(Refusal v) {
    (*this)(static_cast<uint8_t>(v));
  }
  void operator()(JoinMode v) {
    (*this)(static_cast<uint8_t>(v));
  }
  void operator()(StreamState v) {
    (*this)(static_cast<uint8_t>(v));
  }
  void operator()(Role v) {
    (*this)(static_cast<uint8_t>(v));
  }
  void operator()(AckLevel v) {
    (*this)(static_cast<uint8_t>(v));
  }
  template <size_t N>
  void operator()(const std::array<uint8_t, N>& v) {
    std::memcpy(Grow(N), v.data(), N);
  }
  void operator()(const Id128& v) {
    (*this)(v.bytes);
  }
  void operator()(const std::string& v) {
    (*this)(static_cast<uint32_t>(v.size()));
    out_->insert(out_->end(), v.begin(), v.end());
  }
  void operator()(const std::vector<uint8_t>& v) {
    (*this)(static_cast<uint32_t>(v.size()));
    out_->insert(out_->end(), v.begin(), v.end());
  }
  template <class T>
  void operator()(const std::vector<T>& v) {
    (*this)(static_cast<uint32_t>(v.size()));
    for (const T& element : v) {
      (*this)(element);
    }
  }
  void operator()(const EpochEntry& v) {
    EpochFields(*this, v);
  }
  void operator()(const ShardEnd& v) {
    EndFields(*this, v);
  }
  void operator()(const Member& v) {
    MemberFields(*this, v);
  }
  void operator()(const MemberSet& v) {
    MemberSetFields(*this, v);
  }
  void operator()(const NodeFacts& v) {
    FactsFields(*this, v);
  }
  void operator()(const RingKey& v) {
    RingKeyFields(*this, v);
  }

 private:
  uint8_t* Grow(size_t bytes) {
    out_->resize(out_->size() + bytes);
    return out_->data() + out_->size() - bytes;
  }
  std::vector<uint8_t>* out_;
};

// After the first thing that does not fit every read gives zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {
  }
  bool ok() const {
    return ok_;
  }
  bool at_end() const {
    return bytes_.empty();
  }
  void operator()(uint8_t& v) {
    const uint8_t* p = Take(1);
    v = p == nullptr ? uint8_t{0} : *p;
  }
  void operator()(bool& v) {
    uint8_t raw = 0;
    (*this)(raw);
    ok_ = ok_ && raw <= 1;
    v = raw == 1;
  }
  void operator()(uint16_t& v) {
    const uint8_t* p = Take(2);
    v = p == nullptr ? uint16_t{0} : base::LoadBe16(p);
  }
  void operator()(uint32_t& v) {
    const uint8_t* p = Take(4);
    v = p == nullptr ? 0 : base::LoadBe32(p);
  }
  void operator()(uint64_t& v) {
    const uint8_t* p = Take(8);
    v = p == nullptr ? 0 : base::LoadBe64(p);
  }
  void operator()(Refusal& v) {
    v = Enum(Refusal::kNone, Refusal::kDiverged);
  }
  void operator()(JoinMode& v) {
    v = Enum(JoinMode::kRefused, JoinMode::kFullSync);
  }
  void operator()(StreamState& v) {
    v = Enum(StreamState::kConnecting, StreamState::kStreaming);
  }
  void operator()(Role& v) {
    v = Enum(Role::kPrimary, Role::kReplica);
  }
  void operator()(AckLevel& v) {
    v = Enum(AckLevel::kNone, AckLevel::kPersisted);
  }
  template <size_t N>
  void operator()(std::array<uint8_t, N>& v) {
    if (const uint8_t* p = Take(N)) {
      std::memcpy(v.data(), p, N);
    }
  }
  void operator()(Id128& v) {
    (*this)(v.bytes);
  }
  void operator()(std::string& v) {
    const uint32_t count = Count(1);
    if (const uint8_t* p = Take(count)) {
      v.assign(reinterpret_cast<const char*>(p), count);
    }
  }
  void operator()(std::vector<uint8_t>& v) {
    const uint32_t count = Count(1);
    if (const uint8_t* p = Take(count)) {
      v.assign(p, p + count);
    }
  }
  template <class T>
  void operator()(std::vector<T>& v) {
    // Allocates as elements arrive, never from the declared count.
    const uint32_t count = Count(std::is_same_v<T, Seq> ? 8 : 12);
    for (uint32_t i = 0; i < count && ok_; ++i) {
      (*this)(v.emplace_back());
    }
  }
  void operator()(EpochEntry& v) {
    EpochFields(*this, v);
  }
  void operator()(ShardEnd& v) {
    EndFields(*this, v);
  }
  void operator()(Member& v) {
    MemberFields(*this, v);
  }
  void operator()(MemberSet& v) {
    MemberSetFields(*this, v);
    ok_ = ok_ && v.ack_replicas <= kReplicaCountMax && v.members.size() <= kReplicaCountMax;
  }
  void operator()(NodeFacts& v) {
    FactsFields(*this, v);
    ok_ = ok_ && v.shard_count <= kShardCountMax && PerShard(v.ends.size(), v) &&
          PerShard(v.committed.size(), v) && PerShard(v.log_start.size(), v);
    for (const EpochEntry& entry : v.epochs) {
      ok_ = ok_ && PerShard(entry.first_seq.size(), v);
    }
    // Only a node that holds nothing has no history.
    ok_ = ok_ && (v.data_set_id.empty() || (v.shard_count > 0 && v.ends.size() == v.shard_count));
  }
  void operator()(RingKey& v) {
    RingKeyFields(*this, v);
  }

 private:
  static bool PerShard(size_t size, const NodeFacts& facts) {
    return size == facts.shard_count || (size == 0 && facts.data_set_id.empty());
  }
  const uint8_t* Take(size_t count) {
    if (!ok_ || bytes_.size() < count) {
      ok_ = false;
      return nullptr;
    }
    const uint8_t* p = bytes_.data();
    bytes_ = bytes_.subspan(count);
    return p;
  }
  uint32_t Count(size_t element_bytes_min) {
    uint32_t count = 0;
    (*this)(count);
    if (count > bytes_.size() / element_bytes_min) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  template <class E>
  E Enum(E least, E most) {
    uint8_t raw = 0;
    (*this)(raw);
    if (raw < static_cast<uint8_t>(least) || raw > static_cast<uint8_t>(most)) {
      ok_ = false;
      return least;
    }
    return static_cast<E>(raw);
  }
  std::span<const uint8_t> bytes_;
  bool ok_ = true;
};

template <size_t I>
std::optional<Message> DecodeBody(std::span<const uint8_t> body) {
  std::variant_alternative_t<I, Message> value;
  Reader reader(body);
  value.Fields(reader, value);
  if (!reader.ok() || !reader.at_end()) {
    return std::nullopt;
  }
  return Message(std::move(value));
}

template <size_t... I>
std::optional<Message> DecodeAs(size_t index, std::span<const uint8_t> body,
                                std::index_sequence<I...>) {
  using Decoder = std::optional<Message> (*)(std::span<const uint8_t>);
  static constexpr Decoder kDecoders[] = {&DecodeBody<I>...};
  return kDecoders[index](body);
}

}  // namespace

std::vector<uint8_t> EncodeMessage(const Message& message) {
  std::vector<uint8_t> out;
  Writer writer(&out);
  writer(kWireMagic);
  writer(kWireVersion);
  writer(static_cast<uint8_t>(message.index() + 1));
  writer(uint8_t{0});
  std::visit([&writer](const auto& value) { value.Fields(writer, value); }, message);
  return out;
}

std::optional<Message> DecodeMessage(std::span<const uint8_t> bytes, std::string* error) {
  constexpr size_t kTypes = std::variant_size_v<Message>;
  if (bytes.size() < kMessageHeaderBytes || base::LoadBe32(bytes.data()) != kWireMagic) {
    *error = "not a kvstored replication message (is this a replication port?)";
    return std::nullopt;
  }
  if (const uint16_t version = base::LoadBe16(bytes.data() + 4); version != kWireVersion) {
    *error = absl::StrFormat("wire version %d, this node speaks %d: run the same release on both",
                             version, kWireVersion);
    return std::nullopt;
  }
  const uint8_t type = bytes[6];
  if (type == 0 || type > kTypes || bytes[7] != 0) {
    *error = absl::StrFormat("unknown message type %d", type);
    return std::nullopt;
  }
  std::optional<Message> message =
      DecodeAs(type - 1u, bytes.subspan(kMessageHeaderBytes), std::make_index_sequence<kTypes>());
  if (!message) {
    *error = absl::StrFormat("malformed message of type %d, %d bytes", type, bytes.size());
  }
  return message;
}

}  // namespace kvstored::replication
