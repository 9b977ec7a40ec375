// BITFIELD, BITFIELD_RO: integers of 1 to 64 bits anywhere in a string. What a command writes lies
// in one window of bytes, which is read, changed and written back as a whole: one record.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "command/bit_commands.h"
#include "command/numbers.h"
#include "command/strings.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

enum class FieldAction : uint8_t { kGet, kSet, kIncrBy };
enum class Overflow : uint8_t { kWrap, kSaturate, kFail };

struct FieldOp {
  FieldAction action = FieldAction::kGet;
  Overflow overflow = Overflow::kWrap;
  bool is_signed = false;
  uint64_t bits = 0;
  uint64_t offset = 0;  // of its first bit
  int64_t operand = 0;

  uint64_t begin_byte() const {
    return offset / 8;
  }
  uint64_t end_byte() const {
    return (offset + bits + 7) / 8;
  }
};

// "i16", "u8": at most i64 and u63, as a reply is a signed number.
bool ParseFieldType(std::string_view text, FieldOp* op) {
  text = UpToNul(text);
  int64_t bits = 0;
  if (text.empty() || (text[0] != 'i' && text[0] != 'u') || !ParseInt64(text.substr(1), &bits)) {
    return false;
  }
  op->is_signed = text[0] == 'i';
  op->bits = static_cast<uint64_t>(bits);
  return bits >= 1 && bits <= (op->is_signed ? 64 : 63);
}

bool ParseOverflow(std::string_view word, Overflow* overflow) {
  if (EqualsIgnoreCase(UpToNul(word), "wrap")) {
    *overflow = Overflow::kWrap;
  } else if (EqualsIgnoreCase(UpToNul(word), "sat")) {
    *overflow = Overflow::kSaturate;
  } else if (EqualsIgnoreCase(UpToNul(word), "fail")) {
    *overflow = Overflow::kFail;
  } else {
    return false;
  }
  return true;
}

// The words behind the key. Empty, or the error.
std::string_view ParseFields(std::span<const std::string_view> words, std::vector<FieldOp>* ops) {
  Overflow overflow = Overflow::kWrap;
  while (!words.empty()) {
    const std::string_view name = UpToNul(words[0]);
    FieldOp op;
    size_t word_count = 0;
    if (EqualsIgnoreCase(name, "get") && words.size() >= 3) {
      word_count = 3;
    } else if (EqualsIgnoreCase(name, "set") && words.size() >= 4) {
      op.action = FieldAction::kSet;
      word_count = 4;
    } else if (EqualsIgnoreCase(name, "incrby") && words.size() >= 4) {
      op.action = FieldAction::kIncrBy;
      word_count = 4;
    } else if (EqualsIgnoreCase(name, "overflow") && words.size() >= 2) {
      if (!ParseOverflow(words[1], &overflow)) {
        return "ERR Invalid OVERFLOW type specified";
      }
      words = words.subspan(2);
      continue;
    } else {
      return kErrSyntax;
    }
    if (!ParseFieldType(words[1], &op)) {
      return "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported "
             "but i64 is.";
    }
    if (!ParseBitOffset(words[2], op.bits, &op.offset) ||
        (op.action != FieldAction::kGet && op.end_byte() > kValueBytesMax)) {
      return kErrBitOffset;
    }
    if (op.action != FieldAction::kGet && !ParseInt64(words[3], &op.operand)) {
      return kErrNotInteger;
    }
    op.overflow = overflow;
    ops->push_back(op);
    words = words.subspan(word_count);
  }
  return {};
}

// Bytes of the value, those of the window as they are going to be. What is behind the end is 0.
class FieldBytes {
 public:
  FieldBytes(const store::Item* item, uint64_t begin, uint64_t end)
      : item_(item), begin_(begin), window_(end - begin, '\0') {
    const uint64_t there = item == nullptr ? 0 : item->value_bytes();
    if (begin < std::min(there, end)) {
      item->CopyTo(begin, window_.data(), std::min(there, end) - begin);
    }
  }

  uint64_t Load(const FieldOp& op) const {
    uint64_t value = 0;
    for (uint64_t bit = op.offset; bit < op.offset + op.bits; ++bit) {
      value = (value << 1) | ((ByteAt(bit / 8) >> (7 - bit % 8)) & 1);
    }
    return value;
  }
  void Store(const FieldOp& op, uint64_t value) {
    for (uint64_t i = 0; i < op.bits; ++i) {
      const uint64_t bit = op.offset + i;
      const auto mask = static_cast<uint8_t>(0x80 >> (bit % 8));
      char& byte = window_[bit / 8 - begin_];
      const bool is_set = ((value >> (op.bits - 1 - i)) & 1) != 0;
      byte = static_cast<char>(is_set ? byte | mask : byte & ~mask);
    }
  }
  const std::string& window() const {
    return window_;
  }

 private:
  uint8_t ByteAt(uint64_t at) const {
    char byte = 0;
    if (at >= begin_ && at - begin_ < window_.size()) {
      byte = window_[at - begin_];
    } else if (item_ != nullptr && at < item_->value_bytes()) {
      item_->CopyTo(at, &byte, 1);
    }
    return static_cast<uint8_t>(byte);
  }

  const store::Item* const item_;
  const uint64_t begin_;
  std::string window_;
};

using Wide = __int128;

// The field's number out of its lowest bits.
int64_t Narrowed(const FieldOp& op, uint64_t bits) {
  const uint64_t unused = 64 - op.bits;
  bits <<= unused;
  return op.is_signed ? static_cast<int64_t>(bits) >> unused : static_cast<int64_t>(bits >> unused);
}

// What the field holds for `wanted`, by the rule for overflows. Nothing: it fails.
std::optional<int64_t> Fitted(const FieldOp& op, Wide wanted) {
  const Wide max = (Wide{1} << (op.bits - (op.is_signed ? 1 : 0))) - 1;
  const Wide min = op.is_signed ? -max - 1 : 0;
  if (wanted >= min && wanted <= max) {
    return static_cast<int64_t>(wanted);
  }
  switch (op.overflow) {
    case Overflow::kSaturate:
      return static_cast<int64_t>(wanted > max ? max : min);
    case Overflow::kFail:
      return std::nullopt;
    case Overflow::kWrap:
      break;
  }
  return Narrowed(op, static_cast<uint64_t>(wanted));
}

// Runs one operation; its reply. Sets `changed` if the bytes are others now.
std::optional<int64_t> Run(const FieldOp& op, FieldBytes* bytes, bool* changed) {
  const int64_t old_value = Narrowed(op, bytes->Load(op));
  if (op.action == FieldAction::kGet) {
    return old_value;
  }
  Wide wanted = Wide{old_value} + op.operand;
  if (op.action == FieldAction::kSet) {
    // A negative number is a large one in an unsigned field, as in C.
    wanted = op.is_signed ? Wide{op.operand} : Wide{static_cast<uint64_t>(op.operand)};
  }
  const std::optional<int64_t> new_value = Fitted(op, wanted);
  if (!new_value) {
    return std::nullopt;
  }
  bytes->Store(op, static_cast<uint64_t>(*new_value));
  *changed = *changed || *new_value != old_value;
  return op.action == FieldAction::kSet ? old_value : *new_value;
}

// The bytes that are written: from the first write to the end of the last.
struct Window {
  uint64_t begin = 0;
  uint64_t end = 0;
};

Window WindowOf(const std::vector<FieldOp>& ops) {
  Window window;
  for (const FieldOp& op : ops) {
    if (op.action != FieldAction::kGet) {
      window.begin = window.end == 0 ? op.begin_byte() : std::min(window.begin, op.begin_byte());
      window.end = std::max(window.end, op.end_byte());
    }
  }
  return window;
}

}  // namespace

uint64_t BitFieldBytes(std::span<const std::string_view> args) {
  std::vector<FieldOp> ops;
  return args.size() >= 2 && ParseFields(args.subspan(2), &ops).empty() ? WindowOf(ops).end : 0;
}

OpResult HandleBitField(ShardCall& call) {
  std::vector<FieldOp> ops;
  if (const std::string_view error = ParseFields(call.args.subspan(2), &ops); !error.empty()) {
    call.out->Error(error);
    return OpResult::kOk;
  }
  const Window window = WindowOf(ops);
  const bool writes = window.end > 0;
  if (writes && EqualsIgnoreCase(call.args[0], "bitfield_ro")) {
    call.out->Error("ERR BITFIELD_RO only supports the GET subcommand");
    return OpResult::kOk;
  }
  const store::Item* item =
      writes ? call.shard->Peek(call.keys[0]) : call.shard->Find(call.keys[0]);
  FieldBytes bytes(item, window.begin, window.end);
  std::vector<std::optional<int64_t>> replies;
  // It becomes as long as its writes reach even if all of them fail.
  bool changed = writes && (item == nullptr || item->value_bytes() < window.end);
  replies.reserve(ops.size());
  for (const FieldOp& op : ops) {
    replies.push_back(Run(op, &bytes, &changed));
  }
  if (changed) {
    const OpResult result = WriteBytesAt(call, item, window.begin, bytes.window());
    if (result != OpResult::kOk) {
      return result;
    }
  }
  call.out->Array(replies.size());
  for (const std::optional<int64_t>& reply : replies) {
    if (reply) {
      call.out->Integer(*reply);
    } else {
      call.out->Null();
    }
  }
  return OpResult::kOk;
}

bool BitFieldOnlyReads(std::span<const std::string_view> args) {
  for (size_t i = 2; i < args.size();) {
    const size_t more = args.size() - 1 - i;
    if (EqualsIgnoreCase(args[i], "get") && more >= 2) {
      i += 3;
    } else if (EqualsIgnoreCase(args[i], "overflow") && more >= 1) {
      i += 2;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace kvstored::command
