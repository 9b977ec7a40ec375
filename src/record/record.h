// Encode, decode and verify one record (format: kvstored/record_format.h). Pure: no I/O, no state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvstored/record_format.h"
#include "kvstored/types.h"

namespace kvstored::record {

// A record without its bytes' encoding. As result of Decode it borrows key and value from the
// input.
struct Record {
  Seq seq = 0;
  Digest digest;
  uint64_t timestamp_us = 0;
  RecordOp op = RecordOp::kSet;
  uint8_t flags = 0;
  uint32_t epoch = 0;
  uint64_t expiry_ms = 0;
  uint64_t aux = 0;
  std::string_view key;
  std::string_view value;
};

// Bytes of a record with padding. Shapes: key_bytes <= kKeyBytesMax; the sum <= kRecordBytesMax.
constexpr size_t EncodedBytes(size_t key_bytes, size_t value_bytes) {
  return (kRecordHeaderBytes + key_bytes + value_bytes + kRecordAlign - 1) & ~(kRecordAlign - 1);
}

// Appends the record to `out`, checksum included. KVS_CHECKs the shapes.
void Encode(const Record& record, std::vector<uint8_t>* out);

enum class DecodeResult : uint8_t {
  kOk,
  kTruncated,  // the input ends inside the record (header plausible as far as it goes)
  kBad,        // checksum, op, lengths or padding are wrong
};

// Decodes and verifies the record at the start of `input`. On kOk, *size_bytes is its encoded size.
// Never reads beyond the input whatever the bytes are.
[[nodiscard]] DecodeResult Decode(std::span<const uint8_t> input, Record* record,
                                  size_t* size_bytes);

// One participant of a transaction, as kTxnEnd lists it (u16 shard, u64 last_seq, big-endian).
struct TxnPart {
  ShardId shard = 0;
  Seq last_seq = 0;  // seq of that shard's kTxnEnd
  friend bool operator==(const TxnPart&, const TxnPart&) = default;
};
std::string EncodeTxnParts(std::span<const TxnPart> parts);
[[nodiscard]] bool DecodeTxnParts(std::string_view value, std::vector<TxnPart>* parts);

}  // namespace kvstored::record
