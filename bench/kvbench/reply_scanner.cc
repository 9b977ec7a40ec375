#include "kvbench/reply_scanner.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace kvstored::bench {
namespace {

// The number that `text` begins with; 0 if none.
int64_t NumberOf(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// RESP2 and RESP3. A reply of several elements (that of HELLO) is one reply.
class RespScanner : public ReplyScanner {
 public:
  using ReplyScanner::ReplyScanner;

 private:
  void OnLine(std::string_view line) override {
    const char type = line.empty() ? '+' : line[0];
    const std::string_view rest = line.substr(line.empty() ? 0 : 1);
    switch (type) {
      case '$':
      case '=':
        if (const int64_t bytes = NumberOf(rest); bytes >= 0) {
          SkipValue(static_cast<uint64_t>(bytes));
          return;
        }
        OnElement({.kind = Reply::Kind::kMiss});
        return;
      case '*':
      case '~':
      case '%':
        elements_left_ +=
            static_cast<uint64_t>(std::max<int64_t>(NumberOf(rest), 0)) * (type == '%' ? 2 : 1);
        OnElement({});
        return;
      case '_':
        OnElement({.kind = Reply::Kind::kMiss});
        return;
      case '-':
        OnElement({.kind = Reply::Kind::kError, .text = rest});
        return;
      case ':':
        OnElement({.kind = Reply::Kind::kNumber, .number = NumberOf(rest)});
        return;
      default:
        OnElement({});
    }
  }
  void OnValueEnd() override {
    OnElement({});
  }
  void OnElement(const Reply& reply) {
    if (--elements_left_ == 0) {
      elements_left_ = 1;
      sink().OnReply(reply);
    }
  }

  uint64_t elements_left_ = 1;
};

// The text protocol (doc/protocol.txt of memcached): a get is answered by VALUE and END, or END
// alone.
class MemcachedScanner : public ReplyScanner {
 public:
  using ReplyScanner::ReplyScanner;

 private:
  void OnLine(std::string_view line) override {
    if (line.substr(0, 6) == "VALUE ") {
      found_ = true;
      SkipValue(static_cast<uint64_t>(NumberOf(line.substr(line.rfind(' ') + 1))));
    } else if (line == "END") {
      const Reply::Kind kind = found_ ? Reply::Kind::kDone : Reply::Kind::kMiss;
      found_ = false;
      sink().OnReply({.kind = kind});
    } else if (line == "STORED") {
      sink().OnReply({});
    } else {
      sink().OnReply({.kind = Reply::Kind::kError, .text = line});
    }
  }
  void OnValueEnd() override {
  }

  bool found_ = false;
};

}  // namespace

void ReplyScanner::Skip(size_t bytes) {
  skip_bytes_ -= bytes;
  if (skip_bytes_ == 0) {
    OnValueEnd();
  }
}

void ReplyScanner::Scan(const char* at, size_t size) {
  const char* const end = at + size;
  while (at != end) {
    if (skip_bytes_ > 0) {
      const size_t step = std::min(skip_bytes_, static_cast<size_t>(end - at));
      at += step;
      Skip(step);
      continue;
    }
    const auto* newline =
        static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    if (newline == nullptr) {
      partial_line_.append(at, end);
      return;
    }
    std::string_view line(at, static_cast<size_t>(newline - at));
    std::string whole;
    if (!partial_line_.empty()) {
      whole.swap(partial_line_);
      whole.append(line);
      line = whole;
    }
    OnLine(line.substr(0, line.size() - (!line.empty() && line.back() == '\r' ? 1 : 0)));
    at = newline + 1;
  }
}

std::unique_ptr<ReplyScanner> NewReplyScanner(Dialect dialect, ReplySink* sink) {
  if (dialect == Dialect::kMemcached) {
    return std::make_unique<MemcachedScanner>(sink);
  }
  return std::make_unique<RespScanner>(sink);
}

}  // namespace kvstored::bench
