// Replies out of a stream of bytes, in two dialects. Values are counted and skipped, never kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kvbench/options.h"

namespace kvstored::bench {

struct Reply {
  enum class Kind { kDone, kMiss, kError, kNumber };

  Kind kind = Kind::kDone;
  int64_t number = 0;     // kNumber
  std::string_view text;  // kError: without the leading "-"; lives during the call
};

// Who is told of each reply.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void OnReply(const Reply& reply) = 0;
};

// One per connection. Base: lines, and values of a length that a line announced.
class ReplyScanner {
 public:
  explicit ReplyScanner(ReplySink* sink) : sink_(sink) {
  }
  virtual ~ReplyScanner() = default;
  void Scan(const char* at, size_t size);
  // That many of the next bytes belong to a value: they may go to Skip() without being read.
  size_t skippable_bytes() const {
    return skip_bytes_;
  }
  void Skip(size_t bytes);

 protected:
  // `line` is without its line end.
  virtual void OnLine(std::string_view line) = 0;
  // The value that SkipValue() announced is over.
  virtual void OnValueEnd() = 0;
  // A value of so many bytes and its line end follow.
  void SkipValue(uint64_t value_bytes) {
    skip_bytes_ = value_bytes + 2;
  }
  ReplySink& sink() {
    return *sink_;
  }

 private:
  ReplySink* const sink_;
  std::string partial_line_;
  size_t skip_bytes_ = 0;
};

std::unique_ptr<ReplyScanner> NewReplyScanner(Dialect dialect, ReplySink* sink);

}  // namespace kvstored::bench
