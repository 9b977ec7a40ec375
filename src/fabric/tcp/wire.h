// Bytes of the TCP fabric, big-endian.
//
// Every connection begins with the connecting side's introduction (32 bytes):
//   0  7  "KVSFABR"      7  1  version (1)
//   8  2  kind: 1 control connection of a new link, 2 a lane of an existing link
//  10  2  lane          12  4  zero
//  16 16  token of the link (lanes; zero on a control connection)
// The accepting side answers a control connection with the first 8 bytes, a lane with nothing.
//
// Control connection, both ways: { u32 length of what follows, u8 ControlKind, bytes }.
// Lane, both ways: { u32 ring key, u64 offset, u32 length, u32 immediate, bytes }.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/endian.h"
#include "kvstored/fabric.h"
#include "kvstored/types.h"

namespace kvstored::fabric {

inline constexpr size_t kMessageBytesMax = size_t{1} << 20;
inline constexpr LaneId kLaneCountMax = 64;

inline constexpr char kMagic[] = "KVSFABR";
inline constexpr size_t kMagicBytes = 7;
inline constexpr uint8_t kWireVersion = 1;
inline constexpr size_t kGreetingBytes = 8;
inline constexpr size_t kIntroductionBytes = 32;
inline constexpr uint16_t kControlConnection = 1;
inline constexpr uint16_t kLaneConnection = 2;

enum class ControlKind : uint8_t {
  kMessage = 1,
  kOpenLanes = 2,   // u16 count; connecting -> accepting side
  kLanesOffer = 3,  // token; the answer: now connect the lanes
  kLanesReady = 4,  // every lane has arrived
  kGoodbye = 5,     // text: why this side closes
};
inline constexpr size_t kControlHeaderBytes = 5;
inline constexpr size_t kGoodbyeBytesMax = 256;

inline constexpr size_t kLaneHeaderBytes = 20;

struct LaneHeader {
  uint32_t ring_key = 0;
  uint64_t offset = 0;
  uint32_t length = 0;
  uint32_t immediate = 0;
};

inline void StoreLaneHeader(uint8_t* to, const LaneHeader& header) {
  base::StoreBe32(to, header.ring_key);
  base::StoreBe64(to + 4, header.offset);
  base::StoreBe32(to + 12, header.length);
  base::StoreBe32(to + 16, header.immediate);
}

inline LaneHeader LoadLaneHeader(const uint8_t* from) {
  return {base::LoadBe32(from), base::LoadBe64(from + 4), base::LoadBe32(from + 12),
          base::LoadBe32(from + 16)};
}

inline void StoreGreeting(uint8_t* to) {
  std::memcpy(to, kMagic, kMagicBytes);
  to[kMagicBytes] = kWireVersion;
}

inline void StoreIntroduction(uint8_t* to, uint16_t kind, LaneId lane, const Id128& token) {
  std::memset(to, 0, kIntroductionBytes);
  StoreGreeting(to);
  base::StoreBe16(to + 8, kind);
  base::StoreBe16(to + 10, lane);
  std::memcpy(to + 16, token.bytes.data(), token.bytes.size());
}

}  // namespace kvstored::fabric
