// Catch-up reads beside the writer: finds the place by the sparse index, walks frames from there.
// A segment may be recycled meanwhile: its new incarnation makes every frame of the old one
// invalid, which reads as "no longer kept".
#include "log/reader.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "log/log.h"
#include "record/cursor.h"

namespace kvstored::log {
namespace {

// A window over a part of a file, refilled as the walk goes on.
class Window {
 public:
  explicit Window(const ReadStart& start) : start_(start) {
  }
  // The bytes [offset, offset + size_bytes), which lie below the readable end.
  absl::StatusOr<std::span<const uint8_t>> Get(uint64_t offset, uint64_t size_bytes) {
    if (offset < base_ || offset + size_bytes > base_ + bytes_.size()) {
      const uint64_t want = std::max<uint64_t>(size_bytes, kWindowBytes);
      base_ = offset;
      bytes_.resize(static_cast<size_t>(std::min(want, start_.end - offset)));
      KVS_RETURN_IF_ERROR(start_.file->Read(base_, bytes_));
    }
    return std::span<const uint8_t>(bytes_).subspan(static_cast<size_t>(offset - base_),
                                                    static_cast<size_t>(size_bytes));
  }

 private:
  static constexpr uint64_t kWindowBytes = 256 << 10;
  const ReadStart& start_;
  uint64_t base_ = 0;
  std::vector<uint8_t> bytes_;
};

// Appends the wanted records of a frame. False: enough.
bool TakeRecords(std::span<const uint8_t> payload, Seq last_seq, uint64_t max_bytes,
                 record::Batch* batch) {
  for (record::Cursor cursor(payload); cursor.at_record(); cursor.Next()) {
    if (cursor.seq() > last_seq) {
      return false;
    }
    if (cursor.seq() != batch->last_seq + 1) {
      continue;  // before the first wanted one
    }
    if (!batch->bytes.empty() && batch->bytes.size() + cursor.size_bytes() > max_bytes) {
      return false;
    }
    const std::span<const uint8_t> bytes = cursor.bytes();
    batch->bytes.insert(batch->bytes.end(), bytes.begin(), bytes.end());
    batch->last_seq = cursor.seq();
  }
  return true;
}

absl::Status NotKept(ShardId shard, Seq seq) {
  return absl::NotFoundError(
      absl::StrFormat("shard %d: record %d is no longer in the log", shard, seq));
}

// Walks the frames of the segment. kDataLoss: a frame is not what the writer wrote.
absl::Status Collect(const ReadStart& start, uint64_t max_bytes, record::Batch* batch) {
  Window window(start);
  uint64_t offset = start.offset;
  while (offset + kFrameHeaderBytes <= start.end && batch->last_seq < start.last_seq) {
    KVS_ASSIGN_OR_RETURN(const auto header_bytes, window.Get(offset, kFrameHeaderBytes));
    FrameHeader header;
    const bool is_frame = DecodeFrameHeader(header_bytes.data(), &header) &&
                          header.incarnation == start.incarnation &&
                          offset + FrameBytes(header.payload_bytes) <= start.end;
    if (!is_frame) {
      return absl::DataLossError(absl::StrFormat("%s: bad frame at %d", start.name, offset));
    }
    if (header.shard == batch->shard && header.record_count != 0) {
      KVS_ASSIGN_OR_RETURN(const auto payload,
                           window.Get(offset + kFrameHeaderBytes, header.payload_bytes));
      if (base::Crc32c(0, payload.data(), payload.size()) != header.payload_crc) {
        return absl::DataLossError(
            absl::StrFormat("%s: checksum of the frame at %d is wrong", start.name, offset));
      }
      batch->committed = std::max(batch->committed, header.committed);
      if (!TakeRecords(payload, start.last_seq, max_bytes, batch)) {
        break;
      }
    }
    offset += FrameBytes(header.payload_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<record::BatchRef> Log::Read(ShardId shard, Seq from_seq, uint64_t max_bytes) const {
  return ReadRecords(index_, shard, from_seq, max_bytes);
}

absl::StatusOr<record::BatchRef> ReadRecords(const SegmentIndex& index, ShardId shard, Seq from_seq,
                                             uint64_t max_bytes) {
  if (from_seq > index.LastSeq(shard)) {
    return record::BatchRef();
  }
  const std::optional<ReadStart> start = index.Find(shard, from_seq);
  if (!start.has_value()) {
    return NotKept(shard, from_seq);
  }
  auto batch = std::make_shared<record::Batch>();
  batch->shard = shard;
  batch->first_seq = from_seq;
  batch->last_seq = from_seq - 1;
  const absl::Status status = Collect(*start, max_bytes, batch.get());
  if (!status.ok() || batch->bytes.empty()) {
    const std::optional<ReadStart> again = index.Find(shard, from_seq);
    if (!again.has_value() || again->incarnation != start->incarnation) {
      return NotKept(shard, from_seq);  // recycled or cut under our feet
    }
    return status.ok() ? absl::DataLossError(absl::StrFormat("%s: record %d of shard %d is missing",
                                                             start->name, from_seq, shard))
                       : status;
  }
  batch->committed = std::min(batch->committed, batch->last_seq);
  return record::BatchRef(std::move(batch));
}

}  // namespace kvstored::log
