// CRC-32C (Castagnoli, RFC 3720 appendix B.4): SSE4.2 where the processor has it, chosen at run
// time, otherwise slicing by eight. Crc32c("123456789") == 0xe3069283.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvstored::base {

// Extends `crc` (0 to begin) by the bytes. Crc32c(Crc32c(0, a), b) is the checksum of a then b.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size_bytes);

// Of bytes that hold their own checksum, 4 bytes at `offset`: as if these were zero.
uint32_t Crc32cAround(const void* data, size_t size_bytes, size_t offset);

}  // namespace kvstored::base
