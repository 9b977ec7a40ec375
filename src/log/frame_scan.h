// Walks the frames of one segment, chunk by chunk: for recovery and for the operator's dump.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstored/nvm_device.h"
#include "log/frame.h"

namespace kvstored::log {

struct ScannedFrame {
  FrameHeader header;
  uint64_t offset = 0;
  std::span<const uint8_t> payload;  // borrows the chunk; its checksum is not yet verified
};

// A piece of a segment with the whole frames in it.
struct Chunk {
  std::vector<uint8_t> bytes;
  std::vector<ScannedFrame> frames;
  uint64_t next_offset = 0;  // of the first frame after them
  bool ended = false;        // what stands at next_offset is no frame of this segment, or the limit
};

inline constexpr uint64_t kScanChunkBytes = uint64_t{8} << 20;

// Reads from `offset` (a frame's start), never beyond `limit`. Frames have a valid header with this
// incarnation and fit below the limit. An error is the device's.
absl::StatusOr<Chunk> ReadChunk(NvmFile* file, uint64_t incarnation, uint64_t offset,
                                uint64_t limit, Chunk reuse = {});

[[nodiscard]] bool PayloadIsWhole(const ScannedFrame& frame);

// What the bytes from `offset` on tell: the highest position that a valid frame header of this
// incarnation names as persisted (segment 0: none), and whether there is any such header.
struct TailClaim {
  LogPosition persisted;
  bool has_frames = false;
  uint64_t first_frame = 0;
  uint64_t last_frame_end = 0;
};
// incarnation: nothing = frames of any incarnation count.
absl::StatusOr<TailClaim> SearchTail(NvmFile* file, std::optional<uint64_t> incarnation,
                                     uint64_t offset, uint64_t limit);

}  // namespace kvstored::log
