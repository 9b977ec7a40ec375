// Bytes on their way to a socket. Small pieces are copied together, large values are sent from
// where they lie: at 16 KiB the copy would cost as much as the rest of the request.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvstored::bench {

class Outbox {
 public:
  void Append(std::string_view bytes) {
    text_.append(bytes);
  }
  // Room for `size` bytes that the caller fills before the next call.
  char* Extend(size_t size) {
    text_.resize(text_.size() + size);
    return text_.data() + text_.size() - size;
  }
  // A value that stays where it is until all is sent.
  void AppendValue(std::string_view value);

  bool empty() const {
    return text_.empty();
  }
  // Fills `pieces`, at most `pieces_max`, with what is still to be sent; returns how many.
  size_t Pieces(iovec* pieces, size_t pieces_max) const;
  // The next `bytes` of Pieces() are with the kernel; frees all when these were the last.
  void Sent(size_t bytes);
  void Clear();

 private:
  struct Value {
    size_t text_before;  // it follows this much of text_
    std::string_view bytes;
  };

  std::string text_;
  std::vector<Value> values_;
  size_t values_bytes_ = 0;
  size_t sent_bytes_ = 0;
};

}  // namespace kvstored::bench
