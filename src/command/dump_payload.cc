#include "command/dump_payload.h"

#include <algorithm>
#include <limits>

#include "base/crc64.h"
#include "base/endian.h"
#include "command/numbers.h"

namespace kvstored::command {
namespace {

// Written; of Redis 7.0.
constexpr uint16_t kVersion = 10;
// Read: no version up to this one (Redis 8.0) has changed how strings are written.
constexpr uint16_t kVersionMax = 12;
constexpr char kTypeString = '\0';

// The first byte of a length: two bits say what follows.
constexpr uint8_t kLength14Bits = 0x40;
constexpr uint8_t kLength32Bits = 0x80;
constexpr uint8_t kLength64Bits = 0x81;
constexpr uint8_t kEncoded = 0xc0;  // no length: how the string is encoded
enum class Encoding : uint8_t { kInt8 = 0, kInt16 = 1, kInt32 = 2, kLzf = 3 };

void PutLittleEndian(std::string* to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    to->push_back(static_cast<char>(value >> (8 * i)));
  }
}

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

template <typename Int>
bool Fits(int64_t value) {
  return value >= std::numeric_limits<Int>::min() && value <= std::numeric_limits<Int>::max();
}

class Reader {
 public:
  explicit Reader(std::string_view payload) : rest_(payload) {
  }
  bool Take(uint64_t count, std::string_view* bytes) {
    if (rest_.size() < count) {
      return false;
    }
    *bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }
  // A length, or with *encoded the number of an encoding.
  bool TakeLength(uint64_t* length, bool* encoded) {
    std::string_view bytes;
    if (!Take(1, &bytes)) {
      return false;
    }
    const auto first = static_cast<uint8_t>(bytes[0]);
    *encoded = first >= kEncoded;
    *length = first & 0x3f;
    if (first < kLength14Bits || *encoded) {
      return true;
    }
    if (first < kLength32Bits) {
      return Take(1, &bytes) && SetLength(*length, bytes, length);
    }
    if (first == kLength32Bits) {
      return Take(4, &bytes) && SetLength(0, bytes, length);
    }
    return first == kLength64Bits && Take(8, &bytes) && SetLength(0, bytes, length);
  }

 private:
  static bool SetLength(uint64_t high, std::string_view bytes, uint64_t* length) {
    for (const char c : bytes) {
      high = high << 8 | static_cast<unsigned char>(c);
    }
    *length = high;
    return true;
  }

  std::string_view rest_;
};

bool TakeNumber(Reader* reader, Encoding encoding, DumpedString* string) {
  std::string_view bytes;
  if (!reader->Take(size_t{1} << static_cast<int>(encoding), &bytes)) {
    return false;
  }
  const uint64_t raw = LittleEndian(bytes);
  int64_t value = 0;
  switch (encoding) {
    case Encoding::kInt8:
      value = static_cast<int64_t>(raw << 56) >> 56;  // its sign
      break;
    case Encoding::kInt16:
      value = static_cast<int16_t>(raw);
      break;
    case Encoding::kInt32:
    case Encoding::kLzf:
      value = static_cast<int32_t>(raw);
      break;
  }
  string->number = std::to_string(value);
  string->value_bytes = string->number.size();
  return true;
}

bool TakePacked(Reader* reader, DumpedString* string) {
  uint64_t packed_bytes = 0;
  bool encoded = false;  // means nothing here, as in Redis
  string->packed = true;
  return reader->TakeLength(&packed_bytes, &encoded) &&
         reader->TakeLength(&string->value_bytes, &encoded) &&
         reader->Take(packed_bytes, &string->bytes) &&
         LzfUnpacker::IsPossible(string->bytes, string->value_bytes);
}

}  // namespace

std::string DumpHead(uint64_t value_bytes) {
  std::string head(1, kTypeString);
  if (value_bytes < 1 << 6) {
    head.push_back(static_cast<char>(value_bytes));
  } else if (value_bytes < 1 << 14) {
    head.push_back(static_cast<char>(kLength14Bits | value_bytes >> 8));
    head.push_back(static_cast<char>(value_bytes));
  } else {
    head.push_back(static_cast<char>(kLength32Bits));
    const size_t at = head.size();
    head.resize(at + 4);
    base::StoreBe32(head.data() + at, static_cast<uint32_t>(value_bytes));
  }
  return head;
}

std::string DumpSmall(std::string_view value) {
  int64_t number = 0;
  if (!ParseInt64(value, &number) || !Fits<int32_t>(number)) {
    return DumpHead(value.size()).append(value);
  }
  const int log_bytes = Fits<int8_t>(number) ? 0 : Fits<int16_t>(number) ? 1 : 2;
  std::string body(1, kTypeString);
  body.push_back(static_cast<char>(kEncoded | log_bytes));
  PutLittleEndian(&body, static_cast<uint64_t>(number), 1 << log_bytes);
  return body;
}

std::string DumpFooter(uint64_t crc) {
  std::string footer;
  PutLittleEndian(&footer, kVersion, 2);
  PutLittleEndian(&footer, base::Crc64(crc, footer), 8);
  return footer;
}

bool HasDumpVersion(std::string_view payload) {
  return payload.size() >= kDumpFooterBytes &&
         LittleEndian(payload.substr(payload.size() - kDumpFooterBytes, 2)) <= kVersionMax;
}

std::string_view ChecksummedBytes(std::string_view payload) {
  return payload.substr(0, payload.size() - 8);
}

bool ChecksumHolds(std::string_view payload, uint64_t crc) {
  return LittleEndian(payload.substr(payload.size() - 8)) == crc;
}

// As Redis, which reads on into the footer where a length says so: the checksum has held.
std::optional<DumpedString> ParseDump(std::string_view payload) {
  Reader reader(payload);
  std::string_view type;
  uint64_t length = 0;
  bool encoded = false;
  DumpedString string;
  if (!reader.Take(1, &type) || type[0] != kTypeString || !reader.TakeLength(&length, &encoded)) {
    return std::nullopt;
  }
  bool whole = false;
  if (!encoded) {
    string.value_bytes = length;
    whole = reader.Take(length, &string.bytes);
  } else if (length < static_cast<uint64_t>(Encoding::kLzf)) {
    whole = TakeNumber(&reader, static_cast<Encoding>(length), &string);
  } else if (length == static_cast<uint64_t>(Encoding::kLzf)) {
    whole = TakePacked(&reader, &string);
  }
  return whole ? std::optional(string) : std::nullopt;
}

bool LzfUnpacker::IsPossible(std::string_view packed, uint64_t value_bytes) {
  constexpr uint64_t kGrowthMax = 88;  // three bytes make 264
  return value_bytes <= packed.size() * kGrowthMax;
}

LzfUnpacker::LzfUnpacker(std::string_view packed, uint64_t value_bytes)
    : value_bytes_(IsPossible(packed, value_bytes) ? value_bytes : 0) {
  value_.reserve(value_bytes_);
}

LzfUnpacker::Result LzfUnpacker::Step(std::string_view packed, uint64_t bytes_max) {
  const uint64_t begin = value_.size();
  while (at_ < packed.size() && value_bytes_ > 0) {
    if (value_.size() - begin >= bytes_max) {
      return Result::kMore;
    }
    constexpr size_t kLiteralMax = 32;
    const auto control = static_cast<unsigned char>(packed[at_++]);
    const bool copied = control < kLiteralMax ? CopyLiteral(packed, size_t{control} + 1)
                                              : CopyEarlier(packed, control);
    if (!copied) {
      return Result::kDamaged;
    }
  }
  return value_.size() == value_bytes_ ? Result::kDone : Result::kDamaged;
}

bool LzfUnpacker::CopyLiteral(std::string_view packed, size_t count) {
  if (count > packed.size() - at_ || count > value_bytes_ - value_.size()) {
    return false;
  }
  value_.append(packed, at_, count);
  at_ += count;
  return true;
}

bool LzfUnpacker::CopyEarlier(std::string_view packed, size_t control) {
  constexpr size_t kLongLength = 7;  // another byte of length follows
  size_t count = control >> 5;
  const size_t wanted = count == kLongLength ? 2 : 1;
  if (packed.size() - at_ < wanted) {
    return false;
  }
  if (count == kLongLength) {
    count += static_cast<unsigned char>(packed[at_++]);
  }
  count += 2;
  const size_t back =
      ((control & 0x1f) << 8 | static_cast<unsigned char>(packed[at_++])) + size_t{1};
  if (back > value_.size() || count > value_bytes_ - value_.size()) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {  // the copy may overlap what it makes
    value_.push_back(value_[value_.size() - back]);
  }
  return true;
}

}  // namespace kvstored::command
