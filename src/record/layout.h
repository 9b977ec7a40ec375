// Byte offsets inside a record's header (the table is in kvstored/record_format.h).
#pragma once

#include <cstddef>

#include "kvstored/record_format.h"

namespace kvstored::record {

inline constexpr size_t kSeqOffset = 0;
inline constexpr size_t kDigestOffset = 8;
inline constexpr size_t kValueLengthOffset = 24;
inline constexpr size_t kChecksumOffset = 28;
inline constexpr size_t kTimestampOffset = 32;
inline constexpr size_t kOpOffset = 40;
inline constexpr size_t kFlagsOffset = 41;
inline constexpr size_t kKeyLengthOffset = 42;
inline constexpr size_t kEpochOffset = 44;
inline constexpr size_t kExpiryOffset = 48;
inline constexpr size_t kAuxOffset = 56;
static_assert(kAuxOffset + 8 == kRecordHeaderBytes);

}  // namespace kvstored::record
