// Control messages of a link: one value type each, encode and decode. Pure; the decoder takes any
// bytes. What carries records is not here but in frame.h. Byte rules: docs/formats/wire.md.
//
//   u32 magic "KVR1", u16 version, u8 type (1 + place in Message), u8 zero, then the fields in
//   order: integers big-endian, strings and lists with a u32 count before them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kvstored/fabric.h"
#include "kvstored/types.h"
#include "replication/apply_sink.h"
#include "replication/auth.h"
#include "replication/join_plan.h"
#include "replication/node_facts.h"

namespace kvstored::replication {

inline constexpr uint32_t kWireMagic = 0x4b565231;
inline constexpr uint16_t kWireVersion = 1;
inline constexpr size_t kMessageBytesMax = size_t{1} << 20;
// Before a peer has proved the secret nothing longer is looked at.
inline constexpr size_t kEarlyMessageBytesMax = 4096;
inline constexpr size_t kTailPieceBytesMax = size_t{512} << 10;

// --- Handshake: Open -> Challenge -> Prove -> Welcome, or Refused at any step. ---

struct Open {
  Nonce nonce{};
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.nonce);
  }
};
struct Challenge {
  Nonce nonce{};
  bool secret_required = false;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.nonce);
    a(s.secret_required);
  }
};
struct Prove {
  Proof proof{};
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.proof);
  }
};
struct Welcome {
  Proof proof{};
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.proof);
  }
};
struct Refused {
  Refusal refusal = Refusal::kNone;
  std::string text;
  std::string primary;  // kNotPrimary: whom to ask instead, if known
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.refusal);
    a(s.text);
    a(s.primary);
  }
};

// --- Joining: Hello -> Admission -> (lanes open) Ready -> Start. ---

struct Hello {
  NodeFacts facts;
  bool discard = false;
  uint16_t lane_count_max = 1;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.facts);
    a(s.discard);
    a(s.lane_count_max);
  }
};
struct Admission {
  JoinMode mode = JoinMode::kRefused;
  bool adopt = false;
  uint16_t lane_count = 1;
  uint64_t dropped_records = 0;
  std::vector<Seq> common;
  NodeFacts primary;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.mode);
    a(s.adopt);
    a(s.lane_count);
    a(s.dropped_records);
    a(s.common);
    a(s.primary);
  }
};
// Replica: all rings are registered, lane_credits receives are posted on each lane.
struct Ready {
  uint64_t ring_bytes = 0;
  uint32_t lane_credits = 0;
  std::vector<RingKey> rings;  // per shard
  RingKey heartbeat_ring;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.ring_bytes);
    a(s.lane_credits);
    a(s.rings);
    a(s.heartbeat_ring);
  }
};
// Primary: watermark_credits receives are posted on each lane; the k-th watermark of lane l goes to
// slot l * watermark_credits + k % watermark_credits of its ring.
struct Start {
  RingKey watermark_ring;
  uint32_t watermark_credits = 0;
  uint32_t slot_bytes = 0;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.watermark_ring);
    a(s.watermark_credits);
    a(s.slot_bytes);
  }
};

// --- While streaming. ---

// Replica: the full sync is published.
struct SyncDone {
  template <class A, class S>
  static void Fields(A&, S&) {
  }
};
// Primary: this is the set now (or will be, once a joining member has persisted it).
struct MembersChange {
  MemberSet members;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.members);
  }
};
struct MembersPersisted {
  uint64_t version = 0;
  bool ok = false;
  std::string text;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.version);
    a(s.ok);
    a(s.text);
  }
};
struct PromotableChange {
  bool promotable = false;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.promotable);
  }
};
struct PromotablePersisted {
  bool promotable = false;
  bool ok = false;
  std::string text;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.promotable);
    a(s.ok);
    a(s.text);
  }
};
struct ReplicaCondition {
  bool disk_full = false;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.disk_full);
  }
};
// Receives given back when no lane write can carry them.
struct Credits {
  uint16_t lane = 0;
  uint32_t consumed = 0;  // since the lane opened, modulo 2^32
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.lane);
    a(s.consumed);
  }
};

// Primary: where the replica stands.
struct StateChange {
  StreamState state = StreamState::kConnecting;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.state);
  }
};

// --- Questions. ---

struct Ask {
  uint8_t question = 0;  // PeerQuestion
  uint32_t number = 0;
  NodeFacts facts;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.question);
    a(s.number);
    a(s.facts);
  }
};
struct Answer {
  bool ok = false;
  std::string text;
  NodeFacts facts;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.ok);
    a(s.text);
    a(s.facts);
  }
};
struct TailRequest {
  ShardId shard = 0;
  Seq from_seq = 0;
  uint32_t max_bytes = 0;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.shard);
    a(s.from_seq);
    a(s.max_bytes);
  }
};
// An answer to a TailRequest is a run of pieces; the last of them has is_last. No bytes at all: the
// end.
struct TailPiece {
  bool ok = false;
  bool is_last = false;
  std::string text;
  std::vector<uint8_t> bytes;
  template <class A, class S>
  static void Fields(A& a, S& s) {
    a(s.ok);
    a(s.is_last);
    a(s.text);
    a(s.bytes);
  }
};

// The order is the type code: only ever add at the end.
using Message =
    std::variant<Open, Challenge, Prove, Welcome, Refused, Hello, Admission, Ready, Start, SyncDone,
                 MembersChange, MembersPersisted, PromotableChange, PromotablePersisted,
                 ReplicaCondition, Credits, Ask, Answer, TailRequest, TailPiece, StateChange>;

std::vector<uint8_t> EncodeMessage(const Message& message);
// Null, with a reason in *error (the version of another release is named), whatever the bytes are.
// What it returns is consistent: enums in range, per-shard lists of one length.
std::optional<Message> DecodeMessage(std::span<const uint8_t> bytes, std::string* error);

}  // namespace kvstored::replication
