// Every compile-time bound of the system in one place, each with its unit and, where two bounds
// depend on each other, the relation checked at compile time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvstored {

inline constexpr size_t kKeyBytesMax = 65535;
inline constexpr size_t kValueBytesMax = size_t{512} << 20;

// A record, header and padding included. A larger value is a run of parts (see record_format.h).
inline constexpr size_t kRecordBytesMax = size_t{1} << 20;
// Largest value that travels in one record whatever the key's length; also the size of a part.
inline constexpr size_t kPartBytesMax = kRecordBytesMax - 64 - kKeyBytesMax - 9;

inline constexpr uint32_t kShardCountMax = 256;
inline constexpr uint32_t kThreadCountMax = 256;
inline constexpr uint32_t kReplicaCountMax = 8;

// Values from this size are chains of reference-counted slots.
inline constexpr size_t kChainBytesMin = size_t{64} << 10;

// One region-pool chunk and one huge page.
inline constexpr size_t kChunkBytes = size_t{2} << 20;

// No index operation moves more entries than this.
inline constexpr uint32_t kIndexMoveMax = 4096;

// Bytes that a node may hold applied but not committed; shared out evenly to the shards.
inline constexpr size_t kUncommittedBytesMax = size_t{64} << 20;

// Commands under way from one thread to another; a full mailbox is back-pressure.
inline constexpr uint32_t kMailboxSlots = 4096;

// Replication ring of one shard at one replica.
inline constexpr size_t kRingBytes = size_t{4} << 20;
static_assert(kRingBytes >= 2 * kRecordBytesMax, "a ring must hold the largest record twice");
static_assert((kRingBytes & (kRingBytes - 1)) == 0, "ring offsets are masked");

}  // namespace kvstored
