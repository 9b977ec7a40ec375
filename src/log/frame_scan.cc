#include "log/frame_scan.h"

#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"

namespace kvstored::log {

absl::StatusOr<Chunk> ReadChunk(NvmFile* file, uint64_t incarnation, uint64_t offset,
                                uint64_t limit, Chunk reuse) {
  static_assert(kScanChunkBytes > FrameBytes(kFramePayloadMax), "a chunk holds any frame");
  Chunk chunk = std::move(reuse);
  chunk.frames.clear();
  chunk.next_offset = offset;
  chunk.ended = true;
  if (offset >= limit) {
    return chunk;
  }
  const uint64_t size_bytes = std::min(kScanChunkBytes, limit - offset);
  chunk.bytes.resize(static_cast<size_t>(size_bytes));
  KVS_RETURN_IF_ERROR(file->Read(offset, chunk.bytes));
  uint64_t at = 0;
  while (true) {
    if (at + kFrameHeaderBytes > size_bytes) {
      chunk.ended = offset + at + kFrameHeaderBytes > limit;
      break;
    }
    ScannedFrame frame;
    if (!DecodeFrameHeader(chunk.bytes.data() + at, &frame.header) ||
        frame.header.incarnation != incarnation || frame.header.payload_bytes > kFramePayloadMax) {
      break;
    }
    const uint64_t total = FrameBytes(frame.header.payload_bytes);
    if (at + total > size_bytes) {
      chunk.ended = offset + at + total > limit;
      break;
    }
    frame.offset = offset + at;
    frame.payload =
        std::span<const uint8_t>(chunk.bytes)
            .subspan(static_cast<size_t>(at) + kFrameHeaderBytes, frame.header.payload_bytes);
    chunk.frames.push_back(frame);
    at += total;
  }
  chunk.next_offset = offset + at;
  return chunk;
}

bool PayloadIsWhole(const ScannedFrame& frame) {
  return base::Crc32c(0, frame.payload.data(), frame.payload.size()) == frame.header.payload_crc;
}

absl::StatusOr<TailClaim> SearchTail(NvmFile* file, std::optional<uint64_t> incarnation,
                                     uint64_t offset, uint64_t limit) {
  TailClaim claim;
  std::vector<uint8_t> bytes;
  offset = (offset + kFrameAlign - 1) & ~uint64_t{kFrameAlign - 1};
  while (offset + kFrameHeaderBytes <= limit) {
    bytes.resize(static_cast<size_t>(std::min(kScanChunkBytes, limit - offset)));
    KVS_RETURN_IF_ERROR(file->Read(offset, bytes));
    for (size_t at = 0; at + kFrameHeaderBytes <= bytes.size(); at += kFrameAlign) {
      FrameHeader header;
      if (!DecodeFrameHeader(bytes.data() + at, &header) ||
          (incarnation.has_value() && header.incarnation != *incarnation)) {
        continue;
      }
      if (!claim.has_frames) {
        claim.has_frames = true;
        claim.first_frame = offset + at;
      }
      claim.persisted = std::max(claim.persisted, header.persisted);
      claim.last_frame_end = offset + at + FrameBytes(header.payload_bytes);
    }
    offset += bytes.size() & ~size_t{kFrameAlign - 1};
  }
  return claim;
}

}  // namespace kvstored::log
