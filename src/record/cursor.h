// Walks over encoded records by their lengths alone, without verifying checksums: for bytes whose
// checksum was verified as a whole (a frame, a block, a sealed batch).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/endian.h"
#include "kvstored/limits.h"
#include "record/layout.h"
#include "record/record.h"

namespace kvstored::record {

// Borrows the bytes. Never reads beyond them whatever they are: a length that does not fit ends the
// walk with is_bad().
class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> bytes) : rest_(bytes) {
    Look();
  }
  // Is there a record at the cursor?
  bool at_record() const {
    return size_bytes_ != 0;
  }
  // The bytes that are left hold no whole record.
  bool is_bad() const {
    return size_bytes_ == 0 && !rest_.empty();
  }
  void Next() {
    rest_ = rest_.subspan(size_bytes_);
    offset_ += size_bytes_;
    Look();
  }

  size_t offset() const {
    return offset_;
  }
  size_t size_bytes() const {
    return size_bytes_;
  }
  Seq seq() const {
    return base::LoadBe64(rest_.data() + kSeqOffset);
  }
  RecordOp op() const {
    return static_cast<RecordOp>(rest_[kOpOffset]);
  }
  uint8_t flags() const {
    return rest_[kFlagsOffset];
  }
  uint32_t checksum() const {
    return base::LoadBe32(rest_.data() + kChecksumOffset);
  }
  uint64_t digest_high() const {
    return base::LoadBe64(rest_.data() + kDigestOffset);
  }
  uint64_t timestamp_us() const {
    return base::LoadBe64(rest_.data() + kTimestampOffset);
  }
  uint64_t aux() const {
    return base::LoadBe64(rest_.data() + kAuxOffset);
  }
  std::string_view value() const {
    return {reinterpret_cast<const char*>(rest_.data()) + kRecordHeaderBytes + key_bytes_,
            value_bytes_};
  }
  std::span<const uint8_t> bytes() const {
    return rest_.first(size_bytes_);
  }

 private:
  void Look() {
    size_bytes_ = 0;
    if (rest_.size() < kRecordHeaderBytes) {
      return;
    }
    key_bytes_ = base::LoadBe16(rest_.data() + kKeyLengthOffset);
    value_bytes_ = base::LoadBe32(rest_.data() + kValueLengthOffset);
    const size_t total = EncodedBytes(key_bytes_, value_bytes_);
    if (total <= kRecordBytesMax && total <= rest_.size()) {
      size_bytes_ = total;
    }
  }

  std::span<const uint8_t> rest_;
  size_t offset_ = 0;
  size_t size_bytes_ = 0;
  size_t key_bytes_ = 0;
  size_t value_bytes_ = 0;
};

}  // namespace kvstored::record
