#include "command/bit_commands.h"

#include <algorithm>

#include "command/bits.h"
#include "command/numbers.h"
#include "command/strings.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

// The bits that BITCOUNT and BITPOS look at, both ends included.
struct BitRange {
  int64_t first = 0;
  int64_t last = -1;
};

// BYTE or BIT, what stands behind the range. False: neither.
bool ParseUnit(std::string_view word, int64_t* unit_bits) {
  if (EqualsIgnoreCase(UpToNul(word), "bit")) {
    *unit_bits = 1;
  } else if (EqualsIgnoreCase(UpToNul(word), "byte")) {
    *unit_bits = 8;
  } else {
    return false;
  }
  return true;
}

// Negative ends count from the end of the value.
BitRange ClampRange(int64_t start, int64_t end, int64_t unit_bits, uint64_t value_bytes) {
  const int64_t units = static_cast<int64_t>(value_bytes) * 8 / unit_bits;
  start = std::max<int64_t>(start < 0 ? units + start : start, 0);
  end = std::min<int64_t>(std::max<int64_t>(end < 0 ? units + end : end, 0), units - 1);
  if (start > end) {
    return {};
  }
  return {start * unit_bits, end * unit_bits + unit_bits - 1};
}

}  // namespace

bool ParseBitOffset(std::string_view text, uint64_t unit_bits, uint64_t* offset) {
  const bool counts_units = unit_bits != 0 && text.starts_with('#');
  int64_t number = 0;
  if (!ParseInt64(text.substr(counts_units ? 1 : 0), &number) || number < 0) {
    return false;
  }
  const auto units = static_cast<uint64_t>(number);
  const uint64_t bits_each = counts_units ? unit_bits : 1;
  *offset = units * bits_each;
  return units <= (kValueBytesMax * 8 - 1) / bits_each;
}

uint64_t SetBitBytes(std::span<const std::string_view> args) {
  uint64_t offset = 0;
  return args.size() == 4 && ParseBitOffset(args[2], 0, &offset) ? offset / 8 + 1 : 0;
}

OpResult HandleGetBit(ShardCall& call) {
  uint64_t offset = 0;
  if (!ParseBitOffset(call.args[2], 0, &offset)) {
    call.out->Error(kErrBitOffset);
    return OpResult::kOk;
  }
  const store::Item* item = call.shard->Find(call.keys[0]);
  const bool is_there = item != nullptr && offset / 8 < item->value_bytes();
  call.out->Integer(is_there ? static_cast<int64_t>(CountBits(*item, offset, offset)) : 0);
  return OpResult::kOk;
}

OpResult HandleSetBit(ShardCall& call) {
  uint64_t offset = 0;
  if (!ParseBitOffset(call.args[2], 0, &offset)) {
    call.out->Error(kErrBitOffset);
    return OpResult::kOk;
  }
  int64_t bit = 0;
  if (!ParseInt64(call.args[3], &bit) || (bit != 0 && bit != 1)) {
    call.out->Error("ERR bit is not an integer or out of range");
    return OpResult::kOk;
  }
  const store::Item* item = call.shard->Peek(call.keys[0]);
  const uint64_t at = offset / 8;
  const bool is_there = item != nullptr && at < item->value_bytes();
  char byte = 0;
  if (is_there) {
    item->CopyTo(at, &byte, 1);
  }
  const int shift = 7 - static_cast<int>(offset % 8);
  const int64_t old_bit = (byte >> shift) & 1;
  // A bit that stays as it is is no write, also for WATCH.
  if (!is_there || old_bit != bit) {
    byte = static_cast<char>((byte & ~(1 << shift)) | (bit << shift));
    const OpResult result = WriteBytesAt(call, item, at, {&byte, 1});
    if (result != OpResult::kOk) {
      return result;
    }
  }
  call.out->Integer(old_bit);
  return OpResult::kOk;
}

OpResult HandleBitCount(ShardCall& call) {
  const store::Item* item = call.shard->Find(call.keys[0]);
  if (item == nullptr) {
    call.out->Integer(0);
    return OpResult::kOk;
  }
  const std::span<const std::string_view> args = call.args;
  int64_t start = 0;
  int64_t end = -1;
  int64_t unit_bits = 8;
  if (args.size() == 4 || args.size() == 5) {
    if (!ParseInt64(args[2], &start) || !ParseInt64(args[3], &end)) {
      call.out->Error(kErrNotInteger);
      return OpResult::kOk;
    }
    if (start < 0 && end < 0 && start > end) {
      call.out->Integer(0);
      return OpResult::kOk;
    }
  }
  if (args.size() == 3 || args.size() > 5 ||
      (args.size() == 5 && !ParseUnit(args[4], &unit_bits))) {
    call.out->Error(kErrSyntax);
    return OpResult::kOk;
  }
  const BitRange range = ClampRange(start, end, unit_bits, item->value_bytes());
  uint64_t count = 0;
  if (range.first <= range.last) {
    count = CountBits(*item, static_cast<uint64_t>(range.first), static_cast<uint64_t>(range.last));
  }
  call.out->Integer(static_cast<int64_t>(count));
  return OpResult::kOk;
}

OpResult HandleBitPos(ShardCall& call) {
  const std::span<const std::string_view> args = call.args;
  int64_t bit = 0;
  if (!ParseInt64(args[2], &bit)) {
    call.out->Error(kErrNotInteger);
    return OpResult::kOk;
  }
  if (bit != 0 && bit != 1) {
    call.out->Error("ERR The bit argument must be 1 or 0.");
    return OpResult::kOk;
  }
  const store::Item* item = call.shard->Find(call.keys[0]);
  if (item == nullptr) {
    call.out->Integer(bit == 1 ? -1 : 0);
    return OpResult::kOk;
  }
  if (args.size() > 6) {
    call.out->Error(kErrSyntax);
    return OpResult::kOk;
  }
  int64_t start = 0;
  int64_t end = -1;
  int64_t unit_bits = 8;
  if (args.size() > 3 && !ParseInt64(args[3], &start)) {
    call.out->Error(kErrNotInteger);
    return OpResult::kOk;
  }
  if (args.size() == 6 && !ParseUnit(args[5], &unit_bits)) {
    call.out->Error(kErrSyntax);
    return OpResult::kOk;
  }
  const bool has_end = args.size() > 4;
  if (has_end && !ParseInt64(args[4], &end)) {
    call.out->Error(kErrNotInteger);
    return OpResult::kOk;
  }
  const BitRange range = ClampRange(start, end, unit_bits, item->value_bytes());
  int64_t found = -1;
  if (range.first <= range.last) {
    const uint64_t at = FindBit(*item, static_cast<uint64_t>(range.first),
                                static_cast<uint64_t>(range.last), bit == 1);
    if (at != kNoBit) {
      found = static_cast<int64_t>(at);
    } else if (bit == 0 && !has_end) {
      found = range.last + 1;  // behind the value all bits are 0
    }
  }
  call.out->Integer(found);
  return OpResult::kOk;
}

}  // namespace kvstored::command
