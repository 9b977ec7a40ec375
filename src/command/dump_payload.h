// The bytes of DUMP and RESTORE: those of Redis, so that values go from one to the other both ways
// (docs/formats/dump.md). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvstored::command {

// Version and checksum, behind the value.
inline constexpr size_t kDumpFooterBytes = 10;

// What stands before the bytes of a value that is no number.
std::string DumpHead(uint64_t value_bytes);
// Head and value; a whole number of 32 bits is shorter.
std::string DumpSmall(std::string_view value);
// `crc`: of all bytes before.
std::string DumpFooter(uint64_t crc);

// Is there a footer with a version that can be read? Its checksum is judged by ChecksumHolds.
bool HasDumpVersion(std::string_view payload);
// What the checksum covers.
std::string_view ChecksummedBytes(std::string_view payload);
// `crc`: of ChecksummedBytes().
bool ChecksumHolds(std::string_view payload, uint64_t crc);

// The string in a payload.
struct DumpedString {
  bool packed = false;     // `bytes` are compressed: LzfUnpacker makes value_bytes of them
  std::string_view bytes;  // in the payload
  uint64_t value_bytes = 0;
  std::string number;  // instead of bytes
  std::string_view plain() const {
    return number.empty() ? bytes : std::string_view(number);
  }
};
// nullopt: no string, or damaged.
std::optional<DumpedString> ParseDump(std::string_view payload);

// Unpacks LZF: literal runs, and copies of what came up to 8 KiB before.
class LzfUnpacker {
 public:
  // Can so many bytes come of `packed`? More than 88 of each is impossible.
  static bool IsPossible(std::string_view packed, uint64_t value_bytes);
  LzfUnpacker(std::string_view packed, uint64_t value_bytes);

  enum class Result : uint8_t { kMore, kDone, kDamaged };
  // Goes on, about `bytes_max` bytes further. `packed`: the same bytes as in the beginning,
  // perhaps in another place.
  Result Step(std::string_view packed, uint64_t bytes_max);
  const std::string& value() const {
    return value_;
  }

 private:
  bool CopyLiteral(std::string_view packed, size_t count);
  bool CopyEarlier(std::string_view packed, size_t control);

  size_t at_ = 0;  // of the packed bytes
  const uint64_t value_bytes_;
  std::string value_;
};

}  // namespace kvstored::command
