#include "replication/frame.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace kvstored::replication {
namespace {

constexpr uint32_t kAdvanceBits = 21;
constexpr uint32_t kShardBits = 8;
constexpr size_t kFrameCrcOffset = 60;
constexpr size_t kWatermarkCrcOffset = 28;

bool IsKind(uint32_t kind) {
  return kind >= static_cast<uint32_t>(FrameKind::kUpdate) &&
         kind <= static_cast<uint32_t>(FrameKind::kWatermark);
}

}  // namespace

uint32_t EncodeImmediate(const Immediate& immediate) {
  KVS_CHECK(immediate.advance_bytes % kFrameUnitBytes == 0 &&
                immediate.advance_bytes <= kAdvanceBytesMax && immediate.shard < kShardCountMax,
            "advance=%u shard=%u", immediate.advance_bytes, immediate.shard);
  return static_cast<uint32_t>(immediate.kind) << (kAdvanceBits + kShardBits) |
         static_cast<uint32_t>(immediate.shard) << kAdvanceBits |
         static_cast<uint32_t>(immediate.advance_bytes / kFrameUnitBytes);
}

std::optional<Immediate> DecodeImmediate(uint32_t raw) {
  const uint32_t kind = raw >> (kAdvanceBits + kShardBits);
  if (!IsKind(kind)) {
    return std::nullopt;
  }
  Immediate immediate;
  immediate.kind = static_cast<FrameKind>(kind);
  immediate.shard = static_cast<ShardId>((raw >> kAdvanceBits) & ((1u << kShardBits) - 1));
  immediate.advance_bytes =
      (raw & ((1u << kAdvanceBits) - 1)) * static_cast<uint32_t>(kFrameUnitBytes);
  return immediate;
}

void EncodeFrameHeader(const FrameHeader& header, uint8_t* out) {
  out[0] = static_cast<uint8_t>(header.kind);
  out[1] = header.flags;
  base::StoreBe16(out + 2, header.shard);
  base::StoreBe32(out + 4, header.generation);
  base::StoreBe64(out + 8, header.first_seq);
  base::StoreBe64(out + 16, header.last_seq);
  base::StoreBe64(out + 24, header.committed);
  base::StoreBe64(out + 32, header.clock_us);
  base::StoreBe32(out + 40, header.record_bytes);
  base::StoreBe32(out + 44, header.lane_consumed);
  base::StoreBe64(out + 48, header.extra);
  base::StoreBe32(out + 56, header.position);
  base::StoreBe32(out + kFrameCrcOffset, base::Crc32c(0, out, kFrameCrcOffset));
}

std::optional<FrameHeader> DecodeFrameHeader(std::span<const uint8_t> bytes) {
  if (bytes.size() < kFrameHeaderBytes) {
    return std::nullopt;
  }
  const uint8_t* p = bytes.data();
  if (!IsKind(p[0]) || base::LoadBe32(p + kFrameCrcOffset) != base::Crc32c(0, p, kFrameCrcOffset)) {
    return std::nullopt;
  }
  FrameHeader header;
  header.kind = static_cast<FrameKind>(p[0]);
  header.flags = p[1];
  header.shard = base::LoadBe16(p + 2);
  header.generation = base::LoadBe32(p + 4);
  header.first_seq = base::LoadBe64(p + 8);
  header.last_seq = base::LoadBe64(p + 16);
  header.committed = base::LoadBe64(p + 24);
  header.clock_us = base::LoadBe64(p + 32);
  header.record_bytes = base::LoadBe32(p + 40);
  header.lane_consumed = base::LoadBe32(p + 44);
  header.extra = base::LoadBe64(p + 48);
  header.position = base::LoadBe32(p + 56);
  return header;
}

void EncodeWatermark(const Watermark& watermark, std::vector<uint8_t>* out) {
  out->assign(WatermarkBytes(watermark.entries.size()), 0);
  uint8_t* p = out->data();
  p[0] = static_cast<uint8_t>(FrameKind::kWatermark);
  base::StoreBe16(p + 2, watermark.lane);
  base::StoreBe32(p + 4, watermark.number);
  base::StoreBe32(p + 8, watermark.lane_consumed);
  base::StoreBe32(p + 12, static_cast<uint32_t>(watermark.entries.size()));
  base::StoreBe64(p + 16, watermark.echo_us);
  uint8_t* at = p + kWatermarkHeaderBytes;
  for (const WatermarkEntry& entry : watermark.entries) {
    base::StoreBe16(at, entry.shard);
    base::StoreBe32(at + 4, entry.generation);
    base::StoreBe64(at + 8, entry.received);
    base::StoreBe64(at + 16, entry.persisted);
    base::StoreBe64(at + 24, entry.ring_freed);
    at += kWatermarkEntryBytes;
  }
  base::StoreBe32(p + kWatermarkCrcOffset, base::Crc32c(0, out->data(), out->size()));
}

bool DecodeWatermark(std::span<const uint8_t> bytes, Watermark* watermark) {
  if (bytes.size() < kWatermarkHeaderBytes ||
      bytes[0] != static_cast<uint8_t>(FrameKind::kWatermark)) {
    return false;
  }
  const uint8_t* p = bytes.data();
  const size_t count = base::LoadBe32(p + 12);
  if (count > kShardCountMax || bytes.size() != WatermarkBytes(count)) {
    return false;
  }
  if (base::LoadBe32(p + kWatermarkCrcOffset) !=
      base::Crc32cAround(p, bytes.size(), kWatermarkCrcOffset)) {
    return false;
  }
  watermark->lane = base::LoadBe16(p + 2);
  watermark->number = base::LoadBe32(p + 4);
  watermark->lane_consumed = base::LoadBe32(p + 8);
  watermark->echo_us = base::LoadBe64(p + 16);
  watermark->entries.clear();
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* at = p + kWatermarkHeaderBytes + i * kWatermarkEntryBytes;
    watermark->entries.push_back({.shard = base::LoadBe16(at),
                                  .generation = base::LoadBe32(at + 4),
                                  .received = base::LoadBe64(at + 8),
                                  .persisted = base::LoadBe64(at + 16),
                                  .ring_freed = base::LoadBe64(at + 24)});
  }
  return true;
}

}  // namespace kvstored::replication
