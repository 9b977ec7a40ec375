#include "command/lcs.h"

#include <algorithm>
#include <bit>

#include "command/multi_key.h"
#include "kvstored/limits.h"
#include "store/chain.h"

namespace kvstored::command {
namespace {

constexpr uint64_t kWordBits = 64;
// Bytes, words of rows and steps back of one slice: each takes one to three nanoseconds.
constexpr uint64_t kSliceUnits = 200'000;

}  // namespace

ValueReader::ValueReader(const CapturedValue* value) : value_(value), size_bytes_(SizeOf(*value)) {
  if (!value->chain) {
    piece_ = value->bytes;
  }
}

void ValueReader::Load(uint64_t at) {
  begin_ = at / store::kPieceBytes * store::kPieceBytes;
  piece_ = value_->chain.PieceAt(begin_);
}

Lcs::Lcs(const CapturedValue* a, const CapturedValue* b, bool traces)
    : a_(a), b_(b), traces_(traces) {
  if (a_.size_bytes() == 0 || b_.size_bytes() == 0) {
    stage_ = Stage::kDone;
  }
}

bool Lcs::IsTooLarge(uint64_t a_bytes, uint64_t b_bytes) {
  constexpr uint64_t kCellBytes = 4;
  return (a_bytes + 1) * (b_bytes + 1) * kCellBytes > kValueBytesMax;
}

bool Lcs::Spend(uint64_t units) {
  const bool left = units_left_ > 0;
  units_left_ -= std::min(units_left_, units);
  return left;
}

bool Lcs::Step() {
  units_left_ = kSliceUnits;
  while (stage_ != Stage::kDone && units_left_ > 0) {
    switch (stage_) {
      case Stage::kScan:
        Scan();
        break;
      case Stage::kMask:
        Mask();
        break;
      case Stage::kRows:
        AddRow();
        break;
      case Stage::kTrace:
        Trace();
        break;
      case Stage::kDone:
        break;
    }
  }
  return stage_ == Stage::kDone;
}

// Which bytes `a` has: only they get a mask, so that all masks take no more than a bit a cell.
void Lcs::Scan() {
  for (; at_ < a_.size_bytes(); ++at_) {
    if (!Spend(1)) {
      return;
    }
    uint16_t& mask = mask_of_[a_.At(at_)];
    if (mask == 0) {
      mask = mask_count_++;
    }
  }
  words_ = (b_.size_bytes() + kWordBits - 1) / kWordBits;
  masks_.resize(mask_count_ * words_);
  row_.assign(words_, ~uint64_t{0});
  if (traces_) {
    kept_.resize((a_.size_bytes() * b_.size_bytes() + kWordBits - 1) / kWordBits + 1);
  }
  at_ = 0;
  stage_ = Stage::kMask;
}

void Lcs::Mask() {
  for (; at_ < b_.size_bytes(); ++at_) {
    if (!Spend(1)) {
      return;
    }
    const uint64_t word = mask_of_[b_.At(at_)] * words_ + at_ / kWordBits;
    masks_[word] |= uint64_t{1} << (at_ % kWordBits);
  }
  at_ = 0;
  stage_ = Stage::kRows;
}

void Lcs::AddRow() {
  Spend(words_);
  const uint64_t* mask = masks_.data() + mask_of_[a_.At(at_)] * words_;
  uint64_t carry = 0;
  for (uint64_t word = 0; word < words_; ++word) {
    const uint64_t before = row_[word];
    const uint64_t matching = before & mask[word];
    const uint64_t sum = before + matching;
    const uint64_t carried = sum + carry;
    carry = (sum < before ? 1 : 0) | (carried < sum ? 1 : 0);
    row_[word] = carried | (before & ~mask[word]);
  }
  if (traces_) {
    KeepRow();
  }
  if (++at_ < a_.size_bytes()) {
    return;
  }
  for (uint64_t j = 0; j < b_.size_bytes(); j += kWordBits) {
    const uint64_t bits = std::min(kWordBits, b_.size_bytes() - j);
    const uint64_t steps = ~row_[j / kWordBits] & (~uint64_t{0} >> (kWordBits - bits));
    length_ += static_cast<uint64_t>(std::popcount(steps));
  }
  text_.resize(traces_ ? length_ : 0);
  text_left_ = length_;
  i_ = a_.size_bytes();
  j_ = b_.size_bytes();
  stage_ = traces_ ? Stage::kTrace : Stage::kDone;
}

void Lcs::KeepRow() {
  const uint64_t row_bits = b_.size_bytes();
  uint64_t to = at_ * row_bits;
  for (uint64_t j = 0; j < row_bits; j += kWordBits) {
    const uint64_t bits = std::min(kWordBits, row_bits - j);
    const uint64_t word = row_[j / kWordBits] & (~uint64_t{0} >> (kWordBits - bits));
    const uint64_t shift = to % kWordBits;
    kept_[to / kWordBits] |= word << shift;
    if (shift != 0) {
      kept_[to / kWordBits + 1] |= word >> (kWordBits - shift);
    }
    to += bits;
  }
}

// From both ends to the beginning. Where the bytes differ Redis drops one of `a` only if that keeps
// a longer sequence than dropping one of `b`.
void Lcs::Trace() {
  while (i_ > 0 && j_ > 0) {
    if (!Spend(1)) {
      return;
    }
    const unsigned char byte = a_.At(i_ - 1);
    if (byte == b_.At(j_ - 1)) {
      --i_;
      --j_;
      text_[--text_left_] = static_cast<char>(byte);
      const uint64_t size_bytes = in_match_ ? matches_.back().size_bytes + 1 : 1;
      if (!in_match_) {
        matches_.emplace_back();
        in_match_ = true;
      }
      matches_.back() = {i_, j_, size_bytes};
      continue;
    }
    in_match_ = false;
    const uint64_t at = (i_ - 1) * b_.size_bytes() + j_ - 1;
    if (((kept_[at / kWordBits] >> (at % kWordBits)) & 1) == 0) {
      --i_;
    } else {
      --j_;
    }
  }
  stage_ = Stage::kDone;
}

}  // namespace kvstored::command
