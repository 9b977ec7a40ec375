// What travels by write-with-immediate: the immediate, the 64-byte header before records, and the
// watermarks that come back. Pure. Decision: docs/adr "Immediate layout".
//
//   immediate: kind 3 bits (31..29) | shard 8 bits (28..21) | advance 21 bits, in units of 8 bytes.
// `advance` is by how much the stream's ring position grows: the write, and before it the rest of
// the ring if the write would have crossed its end. The immediate is a hint that is checked against
// the header; it never carries a position alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvstored/limits.h"
#include "kvstored/types.h"

namespace kvstored::replication {

enum class FrameKind : uint8_t {
  kUpdate = 1,     // live records (none: committed and clock only)
  kSnapshot = 2,   // items of a full sync
  kHeartbeat = 3,  // header alone, in the lane's slot of the heartbeat ring
  kWatermark = 4,  // replica -> primary
};

inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr size_t kFrameUnitBytes = 8;
inline constexpr size_t kAdvanceBytesMax = ((size_t{1} << 21) - 1) * kFrameUnitBytes;
static_assert(2 * kRingBytes <= kAdvanceBytesMax, "padding and a write must fit the immediate");
static_assert(kShardCountMax <= 256, "eight bits of shard");

struct Immediate {
  FrameKind kind = FrameKind::kUpdate;
  ShardId shard = 0;
  uint32_t advance_bytes = 0;
};
uint32_t EncodeImmediate(const Immediate& immediate);
std::optional<Immediate> DecodeImmediate(uint32_t raw);

// Flag of a kSnapshot frame: the shard's items are complete, `extra` = its state hash at last_seq.
inline constexpr uint8_t kSnapshotLast = 1;

//   offset size field             offset size field
//        0    1 kind                   32    8 primary's record clock, us
//        1    1 flags                  40    4 bytes of records after the header
//        2    2 shard                  44    4 watermarks consumed on this lane (credit)
//        4    4 generation             48    8 extra: by kind
//        8    8 first seq              56    4 ring position / 8, low bits (heartbeat: its number)
//       16    8 last seq               60    4 CRC-32C of the 60 bytes before
//       24    8 committed
struct FrameHeader {
  FrameKind kind = FrameKind::kUpdate;
  uint8_t flags = 0;
  ShardId shard = 0;
  uint32_t generation = 0;
  Seq first_seq = 0;
  Seq last_seq = 0;  // first_seq - 1: no records. kSnapshot: the seq that the items belong after
  Seq committed = 0;
  uint64_t clock_us = 0;
  uint32_t record_bytes = 0;
  uint32_t lane_consumed = 0;
  uint64_t extra = 0;
  uint32_t position = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};
void EncodeFrameHeader(const FrameHeader& header, uint8_t* out);
std::optional<FrameHeader> DecodeFrameHeader(std::span<const uint8_t> bytes);

// One stream's line in a watermark write.
struct WatermarkEntry {
  ShardId shard = 0;
  uint32_t generation = 0;
  Seq received = 0;
  Seq persisted = 0;
  uint64_t ring_freed = 0;  // ring position up to which the primary may write again
  friend bool operator==(const WatermarkEntry&, const WatermarkEntry&) = default;
};
inline constexpr size_t kWatermarkHeaderBytes = 32;
inline constexpr size_t kWatermarkEntryBytes = 32;

//   0 u8 kind, u8 0, u16 lane, u32 number of this write on the lane, u32 frames consumed on the
//   lane (credit), u32 entries, u64 echo of the newest heartbeat's clock, u32 0, u32 CRC-32C of the
//   whole with this field zero; then the entries: u16 shard, u16 0, u32 generation, u64 x 3.
struct Watermark {
  uint16_t lane = 0;
  uint32_t number = 0;
  uint32_t lane_consumed = 0;
  uint64_t echo_us = 0;
  std::vector<WatermarkEntry> entries;
  friend bool operator==(const Watermark&, const Watermark&) = default;
};
// Replaces `out`.
void EncodeWatermark(const Watermark& watermark, std::vector<uint8_t>* out);
// `watermark->entries` keeps its capacity: no allocation in the steady state.
bool DecodeWatermark(std::span<const uint8_t> bytes, Watermark* watermark);

constexpr size_t WatermarkBytes(size_t entries) {
  return kWatermarkHeaderBytes + entries * kWatermarkEntryBytes;
}

}  // namespace kvstored::replication
