#include "kvbench/outbox.h"

namespace kvstored::bench {
namespace {

constexpr size_t kCopyBelowBytes = 4096;

// The pieces from `skip` bytes of the whole on.
class PieceList {
 public:
  PieceList(size_t skip, iovec* pieces, size_t pieces_max)
      : skip_(skip), pieces_(pieces), pieces_max_(pieces_max) {
  }
  void Add(std::string_view bytes) {
    if (skip_ >= bytes.size()) {
      skip_ -= bytes.size();
      return;
    }
    if (count_ < pieces_max_) {
      pieces_[count_++] = {const_cast<char*>(bytes.data()) + skip_, bytes.size() - skip_};
    }
    skip_ = 0;
  }
  size_t count() const {
    return count_;
  }

 private:
  size_t skip_;
  iovec* const pieces_;
  const size_t pieces_max_;
  size_t count_ = 0;
};

}  // namespace

void Outbox::AppendValue(std::string_view value) {
  if (value.size() < kCopyBelowBytes) {
    text_.append(value);
    return;
  }
  values_.push_back({.text_before = text_.size(), .bytes = value});
  values_bytes_ += value.size();
}

size_t Outbox::Pieces(iovec* pieces, size_t pieces_max) const {
  PieceList list(sent_bytes_, pieces, pieces_max);
  const std::string_view text = text_;
  size_t text_at = 0;
  for (const Value& value : values_) {
    list.Add(text.substr(text_at, value.text_before - text_at));
    list.Add(value.bytes);
    text_at = value.text_before;
  }
  list.Add(text.substr(text_at));
  return list.count();
}

void Outbox::Sent(size_t bytes) {
  sent_bytes_ += bytes;
  if (sent_bytes_ == text_.size() + values_bytes_) {
    Clear();
  }
}

void Outbox::Clear() {
  text_.clear();
  values_.clear();
  values_bytes_ = 0;
  sent_bytes_ = 0;
}

}  // namespace kvstored::bench
