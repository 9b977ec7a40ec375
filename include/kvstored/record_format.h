// The one record format: log, replication stream and checkpoint carry the same bytes.
// All integers are big-endian. Byte table with a worked example: docs/formats/record.md.
//
//   offset size field
//        0    8 seq_id        per shard, +1 each record
//        8   16 key           XXH3-128 digest of the key (high, low)
//       24    4 value_len     bytes of value
//       28    4 checksum      CRC-32C of the whole record (padding included), this field zero
//       32    8 timestamp     microseconds since the Unix epoch by the primary's clock
//       40    1 op            RecordOp
//       41    1 flags         RecordFlag bits
//       42    2 key_len       bytes of key
//       44    4 epoch         number of the epoch that wrote it
//       48    8 expiry_ms     absolute expiry, Unix milliseconds; 0 = none
//       56    8 aux           by op, see RecordOp
//       64      key, value, zero padding to a multiple of 8
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvstored {

inline constexpr size_t kRecordHeaderBytes = 64;
inline constexpr size_t kRecordAlign = 8;

enum class RecordOp : uint8_t {
  kSet = 1,     // key := value, expiry_ms; aux 0
  kDelete = 2,  // removes the key if its item is older than this record; aux 0
  kAppend = 3,  // value is appended; aux = seq of the item it changes
  kSetRange =
      4,  // value = u64 offset, then the bytes; aux = seq of the item it changes (0: absent)
  kSetExpiry = 5,  // only expiry_ms changes; aux = seq of the item it changes
  kFlush = 6,      // removes every item older than this record
  kPart = 7,       // a piece of a large value, inert; aux = run id (0: this is the first part, its
                   // seq is the id); expiry_ms = total bytes of the value
  kLink = 8,       // closes a run: key := its parts; aux = run id; value = u64 total bytes
  kTxnEnd = 9,     // closes a transaction; aux = transaction id; value = {u16 shard, u64 last_seq}*
  kEpochBegin = 10,  // first record of an epoch; value = u32 number, u64 id
};

// Bits of `flags`.
inline constexpr uint8_t kRecordInTxn = 1;  // part of a transaction; kTxnEnd closes it
inline constexpr uint8_t kRecordSnapshot =
    2;                                        // an item of a checkpoint or full sync: keeps its seq
inline constexpr uint8_t kRecordExpired = 4;  // a delete because of expiry
inline constexpr uint8_t kRecordEvicted = 8;  // a delete because of memory

}  // namespace kvstored
