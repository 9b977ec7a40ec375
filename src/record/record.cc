// Encode, decode and verify one record. Decode trusts nothing: it is fed bytes from disks and
// peers.
#include "record/record.h"

#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "kvstored/limits.h"
#include "record/layout.h"

namespace kvstored::record {
namespace {

constexpr size_t kTxnPartBytes = 10;

bool IsKnownOp(uint8_t op) {
  return op >= static_cast<uint8_t>(RecordOp::kSet) &&
         op <= static_cast<uint8_t>(RecordOp::kEpochBegin);
}

}  // namespace

void Encode(const Record& record, std::vector<uint8_t>* out) {
  KVS_CHECK(record.key.size() <= kKeyBytesMax, "key_bytes=%zu", record.key.size());
  KVS_CHECK(record.value.size() <= kRecordBytesMax, "value_bytes=%zu", record.value.size());
  const size_t size_bytes = EncodedBytes(record.key.size(), record.value.size());
  KVS_CHECK(size_bytes <= kRecordBytesMax, "record_bytes=%zu", size_bytes);
  const size_t start = out->size();
  out->resize(start + size_bytes);  // zeroes the padding
  uint8_t* p = out->data() + start;
  base::StoreBe64(p + kSeqOffset, record.seq);
  base::StoreBe64(p + kDigestOffset, record.digest.high);
  base::StoreBe64(p + kDigestOffset + 8, record.digest.low);
  base::StoreBe32(p + kValueLengthOffset, static_cast<uint32_t>(record.value.size()));
  base::StoreBe64(p + kTimestampOffset, record.timestamp_us);
  p[kOpOffset] = static_cast<uint8_t>(record.op);
  p[kFlagsOffset] = record.flags;
  base::StoreBe16(p + kKeyLengthOffset, static_cast<uint16_t>(record.key.size()));
  base::StoreBe32(p + kEpochOffset, record.epoch);
  base::StoreBe64(p + kExpiryOffset, record.expiry_ms);
  base::StoreBe64(p + kAuxOffset, record.aux);
  uint8_t* body = p + kRecordHeaderBytes;
  if (!record.key.empty()) {
    std::memcpy(body, record.key.data(), record.key.size());
  }
  if (!record.value.empty()) {
    std::memcpy(body + record.key.size(), record.value.data(), record.value.size());
  }
  base::StoreBe32(p + kChecksumOffset, base::Crc32cAround(p, size_bytes, kChecksumOffset));
}

DecodeResult Decode(std::span<const uint8_t> input, Record* record, size_t* size_bytes) {
  if (input.size() < kRecordHeaderBytes) {
    return DecodeResult::kTruncated;
  }
  const uint8_t* p = input.data();
  const size_t key_bytes = base::LoadBe16(p + kKeyLengthOffset);
  const size_t value_bytes = base::LoadBe32(p + kValueLengthOffset);
  if (!IsKnownOp(p[kOpOffset]) || value_bytes > kRecordBytesMax) {
    return DecodeResult::kBad;
  }
  const size_t total = EncodedBytes(key_bytes, value_bytes);
  if (total > kRecordBytesMax) {
    return DecodeResult::kBad;
  }
  if (input.size() < total) {
    return DecodeResult::kTruncated;
  }
  const size_t used = kRecordHeaderBytes + key_bytes + value_bytes;
  for (size_t i = used; i < total; ++i) {
    if (p[i] != 0) {
      return DecodeResult::kBad;
    }
  }
  if (base::LoadBe32(p + kChecksumOffset) != base::Crc32cAround(p, total, kChecksumOffset)) {
    return DecodeResult::kBad;
  }
  record->seq = base::LoadBe64(p + kSeqOffset);
  record->digest = {base::LoadBe64(p + kDigestOffset), base::LoadBe64(p + kDigestOffset + 8)};
  record->timestamp_us = base::LoadBe64(p + kTimestampOffset);
  record->op = static_cast<RecordOp>(p[kOpOffset]);
  record->flags = p[kFlagsOffset];
  record->epoch = base::LoadBe32(p + kEpochOffset);
  record->expiry_ms = base::LoadBe64(p + kExpiryOffset);
  record->aux = base::LoadBe64(p + kAuxOffset);
  const char* body = reinterpret_cast<const char*>(p + kRecordHeaderBytes);
  record->key = {body, key_bytes};
  record->value = {body + key_bytes, value_bytes};
  *size_bytes = total;
  return DecodeResult::kOk;
}

std::string EncodeTxnParts(std::span<const TxnPart> parts) {
  std::string value(parts.size() * kTxnPartBytes, '\0');
  char* p = value.data();
  for (const TxnPart& part : parts) {
    base::StoreBe16(p, part.shard);
    base::StoreBe64(p + 2, part.last_seq);
    p += kTxnPartBytes;
  }
  return value;
}

bool DecodeTxnParts(std::string_view value, std::vector<TxnPart>* parts) {
  parts->clear();
  if (value.size() % kTxnPartBytes != 0 || value.size() / kTxnPartBytes > kShardCountMax) {
    return false;
  }
  for (size_t i = 0; i < value.size(); i += kTxnPartBytes) {
    const char* p = value.data() + i;
    parts->push_back({base::LoadBe16(p), base::LoadBe64(p + 2)});
  }
  return true;
}

}  // namespace kvstored::record
