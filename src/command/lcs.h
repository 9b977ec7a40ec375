// The longest common subsequence of two values, as LCS answers it. Pure: no shard, no thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "command/transaction.h"
#include "shard/run.h"

namespace kvstored::command {

// Reads the bytes of a captured value in any order; neighbours cost least.
class ValueReader {
 public:
  explicit ValueReader(const CapturedValue* value);
  uint64_t size_bytes() const {
    return size_bytes_;
  }
  unsigned char At(uint64_t at) {
    if (at - begin_ >= piece_.size()) {
      Load(at);
    }
    return static_cast<unsigned char>(piece_[at - begin_]);
  }

 private:
  void Load(uint64_t at);

  const CapturedValue* value_;
  uint64_t size_bytes_;
  std::string_view piece_;
  uint64_t begin_ = 0;  // of the piece in the value
};

// Row by row, 64 columns at a time: bit j of row i is 0 where the LCS of a's first i + 1 bytes and
// of b's first j + 1 is longer than that without b's byte j (Hyyro, "Bit-parallel LCS-length
// computation revisited", 2004). These bits are also all that the way back needs in order to choose
// as Redis does, so that the table takes a bit a cell where Redis takes 32.
class Lcs : public shard::Progress {
 public:
  // `a` and `b` must outlive it. `traces`: the text and the matches are wanted, not only the
  // length.
  Lcs(const CapturedValue* a, const CapturedValue* b, bool traces);
  // Where Redis refuses: its table of 4-byte cells would exceed proto-max-bulk-len.
  static bool IsTooLarge(uint64_t a_bytes, uint64_t b_bytes);

  // Does about a millisecond of the work; true when all of it is done.
  bool Step();

  uint64_t length() const {
    return length_;
  }
  const std::string& text() const {
    return text_;
  }
  // Bytes that both values have, next to each other; the last ones first.
  struct Match {
    uint64_t a_begin = 0;
    uint64_t b_begin = 0;
    uint64_t size_bytes = 0;
  };
  const std::vector<Match>& matches() const {
    return matches_;
  }

 private:
  enum class Stage : uint8_t { kScan, kMask, kRows, kTrace, kDone };
  void Scan();
  void Mask();
  void AddRow();
  void KeepRow();
  void Trace();
  // May another unit of this slice's work be done?
  bool Spend(uint64_t units);

  ValueReader a_;
  ValueReader b_;
  const bool traces_;
  Stage stage_ = Stage::kScan;
  uint64_t units_left_ = 0;
  uint64_t at_ = 0;  // of the stage that runs: byte of a or b, row
  uint64_t words_ = 0;
  std::array<uint16_t, 256> mask_of_{};  // of a byte of `a`; 0: none
  uint16_t mask_count_ = 1;              // the one of bytes that `a` lacks included
  std::vector<uint64_t> masks_;          // where `b` has the byte: words_ each
  std::vector<uint64_t> row_;
  std::vector<uint64_t> kept_;  // every row, without gaps between their bits
  uint64_t i_ = 0;              // the way back: bytes of `a` and `b` that are left
  uint64_t j_ = 0;
  uint64_t text_left_ = 0;
  bool in_match_ = false;
  uint64_t length_ = 0;
  std::string text_;
  std::vector<Match> matches_;
};

}  // namespace kvstored::command
