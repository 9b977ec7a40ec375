// CRC-64 with the polynomial of D. Jones, reflected, no inversions: the checksum of Redis' DUMP
// payloads (https://reveng.sourceforge.io/crc-catalogue/ as CRC-64/REDIS).
#pragma once

#include <cstdint>
#include <string_view>

namespace kvstored::base {

// Continues `crc` (0 at the beginning) over the bytes.
uint64_t Crc64(uint64_t crc, std::string_view bytes);

}  // namespace kvstored::base
