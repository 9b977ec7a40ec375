// Frames and segment headers: the bytes of the log (docs/formats/log.md has the tables).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstored/types.h"

namespace kvstored::log {

inline constexpr uint32_t kLogVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr size_t kFrameAlign = 64;
inline constexpr size_t kSegmentHeaderBytes = 4096;
// A batch above this is cut into several frames at record boundaries.
inline constexpr size_t kFramePayloadMax = size_t{2} << 20;

// A place in the log. Segment 0 = none.
struct LogPosition {
  uint64_t segment = 0;
  uint64_t offset = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): what a defaulted comparison expands to (LLVM 14)
  friend auto operator<=>(const LogPosition&, const LogPosition&) = default;
};

// One frame: the records first_seq .. first_seq + record_count - 1 of one shard. A frame without
// records (record_count 0), a mark, only tells `committed` and `persisted`.
struct FrameHeader {
  ShardId shard = 0;
  uint16_t flags = 0;
  uint64_t incarnation = 0;  // of the segment: stale bytes of a recycled file never match
  Seq first_seq = 0;
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  Seq committed = 0;      // the shard's watermark when the batch was sealed
  LogPosition persisted;  // confirmed by the device when the frame was written
  uint32_t record_count = 0;
};

void EncodeFrameHeader(const FrameHeader& header, uint8_t* out);
// False: magic or CRC is wrong. Needs kFrameHeaderBytes.
[[nodiscard]] bool DecodeFrameHeader(const uint8_t* bytes, FrameHeader* header);

// Bytes that a frame takes in the file.
constexpr uint64_t FrameBytes(uint64_t payload_bytes) {
  return (kFrameHeaderBytes + payload_bytes + kFrameAlign - 1) & ~uint64_t{kFrameAlign - 1};
}

// The first kSegmentHeaderBytes of a segment; synced before the first frame is written.
struct SegmentHeader {
  uint32_t version = kLogVersion;
  uint64_t incarnation = 0;              // random, new with each use of the file
  uint64_t number = 0;                   // 1, 2, 3, ... ; also the file's name
  uint64_t predecessor_incarnation = 0;  // 0: number - 1 was never part of this log
  uint64_t predecessor_end = 0;          // bytes beyond it do not exist
  uint64_t segment_bytes = 0;
  Id128 data_set;
  // Per shard: the newest record that exists before this segment. Lower than what the predecessors
  // hold = those records were cut and do not exist.
  std::vector<Seq> start_seqs;
};

void EncodeSegmentHeader(const SegmentHeader& header, std::span<uint8_t, kSegmentHeaderBytes> out);

enum class SegmentHeaderResult : uint8_t {
  kOk,
  kAbsent,  // all zero: prepared, never used
  kBad,     // torn or damaged
  kNewer,   // whole, of a later version: header->version is set
};
[[nodiscard]] SegmentHeaderResult DecodeSegmentHeader(
    std::span<const uint8_t, kSegmentHeaderBytes> bytes, SegmentHeader* header);

// "log/0000000007.seg"; ParseSegmentName is its inverse (0: not a segment's name).
std::string SegmentName(const std::string& directory, uint64_t number);
uint64_t ParseSegmentName(const std::string& name);

}  // namespace kvstored::log
