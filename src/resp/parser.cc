#include "resp/parser.h"

#include <cstring>
#include <utility>

namespace kvstored::resp {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}

bool IsSpace(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

char Unescape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

// Reads a quoted stretch that starts behind its quote. Returns the position behind the closing
// quote, or npos if there is none, or if something other than a blank follows it.
size_t ReadQuoted(std::string_view line, size_t i, char quote, std::string* bytes) {
  for (; i < line.size(); ++i) {
    const char c = line[i];
    if (c == quote) {
      return i + 1 < line.size() && !IsSpace(line[i + 1]) ? std::string_view::npos : i + 1;
    }
    if (c == '\\' && quote == '"' && i + 3 < line.size() && line[i + 1] == 'x' &&
        HexValue(line[i + 2]) >= 0 && HexValue(line[i + 3]) >= 0) {
      bytes->push_back(static_cast<char>(HexValue(line[i + 2]) * 16 + HexValue(line[i + 3])));
      i += 3;
    } else if (c == '\\' && quote == '"' && i + 1 < line.size()) {
      bytes->push_back(Unescape(line[++i]));
    } else if (c == '\\' && quote == '\'' && i + 1 < line.size() && line[i + 1] == '\'') {
      bytes->push_back(line[++i]);
    } else {
      bytes->push_back(c);
    }
  }
  return std::string_view::npos;
}

}  // namespace

bool ParseInt64(std::string_view text, int64_t* value) {
  if (text.empty() || text.size() > 20) {
    return false;
  }
  size_t i = 0;
  const bool negative = text[0] == '-';
  if (negative) {
    i = 1;
  }
  if (i == text.size()) {
    return false;
  }
  if (text[i] == '0') {
    *value = 0;
    return text.size() == 1;
  }
  const bool may_overflow = text.size() - i > 18;
  uint64_t sum = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c < '0' || c > '9') {
      return false;
    }
    const uint64_t digit = static_cast<uint64_t>(c - '0');
    if (may_overflow && sum > (UINT64_MAX - digit) / 10) {
      return false;
    }
    sum = sum * 10 + digit;
  }
  const uint64_t max = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (sum > max) {
    return false;
  }
  *value = static_cast<int64_t>(negative ? 0 - sum : sum);
  return true;
}

bool SplitWords(std::string_view line, std::string* bytes, std::vector<size_t>* sizes) {
  // Redis' line is a C string: it ends at a NUL.
  line = line.substr(0, line.find('\0'));
  size_t i = 0;
  while (true) {
    while (i < line.size() && IsSpace(line[i])) {
      ++i;
    }
    if (i == line.size()) {
      return true;
    }
    const size_t start = bytes->size();
    while (i < line.size() && !IsSpace(line[i])) {
      if (line[i] == '"' || line[i] == '\'') {
        i = ReadQuoted(line, i + 1, line[i], bytes);
        if (i == std::string_view::npos) {
          return false;
        }
        break;  // a closing quote ends the word
      }
      bytes->push_back(line[i++]);
    }
    sizes->push_back(bytes->size() - start);
  }
}

void Parser::Reset() {
  position_ = 0;
  args_left_ = -1;
  bulk_bytes_ = -1;
  spans_.clear();
  if (spans_.capacity() > 1024) {
    spans_.shrink_to_fit();
  }
}

ParseResult Parser::Fail(std::string error) {
  error_ = "Protocol error: " + std::move(error);
  return ParseResult::kError;
}

ParseResult Parser::NextInline(std::string_view input, std::vector<std::string_view>* args) {
  // A line that is not complete is short, so it may be searched again.
  const size_t end = input.find('\n');
  if (end == std::string_view::npos) {
    return input.size() > kLineBytesMax ? Fail("too big inline request") : ParseResult::kNeedMore;
  }
  size_t line_bytes = end;
  if (line_bytes > 0 && input[line_bytes - 1] == '\r') {
    --line_bytes;
  }
  inline_words_.clear();
  std::vector<size_t> sizes;
  if (!SplitWords(input.substr(0, line_bytes), &inline_words_, &sizes)) {
    return Fail("unbalanced quotes in request");
  }
  command_bytes_ = end + 1;
  size_t offset = 0;
  for (const size_t bytes : sizes) {
    args->emplace_back(inline_words_.data() + offset, bytes);
    offset += bytes;
  }
  return sizes.empty() ? ParseResult::kEmpty : ParseResult::kCommand;
}

// Returns kCommand when the count was understood.
ParseResult Parser::ReadCount(std::string_view input, const ParserLimits& limits) {
  const size_t end = input.find('\r', 1);
  if (end == std::string_view::npos) {
    return input.size() > kLineBytesMax ? Fail("too big mbulk count string")
                                        : ParseResult::kNeedMore;
  }
  if (end + 1 >= input.size()) {
    return ParseResult::kNeedMore;  // the LF has not come
  }
  int64_t count = 0;
  if (!ParseInt64(input.substr(1, end - 1), &count) || count > ParserLimits{}.args_max) {
    return Fail("invalid multibulk length");
  }
  if (count > limits.args_max) {
    return Fail(limits.authenticated ? "invalid multibulk length"
                                     : "unauthenticated multibulk length");
  }
  position_ = end + 2;
  args_left_ = count < 0 ? 0 : count;
  return ParseResult::kCommand;
}

// Returns kCommand when the length was understood.
ParseResult Parser::ReadBulkHeader(std::string_view input, const ParserLimits& limits) {
  const std::string_view rest = input.substr(position_);
  const size_t end = rest.find('\r');
  if (end == std::string_view::npos) {
    return rest.size() > kLineBytesMax ? Fail("too big bulk count string") : ParseResult::kNeedMore;
  }
  if (end + 1 >= rest.size()) {
    return ParseResult::kNeedMore;
  }
  if (rest[0] != '$') {
    return Fail(std::string("expected '$', got '") + rest[0] + "'");
  }
  int64_t bytes = 0;
  // Refused here, before any arithmetic with it.
  if (!ParseInt64(rest.substr(1, end - 1), &bytes) || bytes < 0 ||
      bytes > ParserLimits{}.bulk_bytes_max) {
    return Fail("invalid bulk length");
  }
  if (bytes > limits.bulk_bytes_max) {
    return Fail(limits.authenticated ? "invalid bulk length" : "unauthenticated bulk length");
  }
  position_ += end + 2;
  bulk_bytes_ = bytes;
  return ParseResult::kCommand;
}

ParseResult Parser::Next(std::string_view input, const ParserLimits& limits,
                         std::vector<std::string_view>* args) {
  if (input.empty()) {
    return ParseResult::kNeedMore;
  }
  if (args_left_ < 0) {
    if (input[0] != '*') {
      return NextInline(input, args);
    }
    if (const ParseResult read = ReadCount(input, limits); read != ParseResult::kCommand) {
      return read;
    }
    if (args_left_ == 0) {
      command_bytes_ = position_;
      Reset();
      return ParseResult::kEmpty;
    }
  }
  while (args_left_ > 0) {
    if (bulk_bytes_ < 0) {
      if (const ParseResult read = ReadBulkHeader(input, limits); read != ParseResult::kCommand) {
        return read;
      }
    }
    const size_t bytes = static_cast<size_t>(bulk_bytes_);
    if (input.size() - position_ < bytes + 2) {
      return ParseResult::kNeedMore;
    }
    spans_.push_back({position_, bytes});  // the two bytes behind a value are not looked at (Redis)
    position_ += bytes + 2;
    bulk_bytes_ = -1;
    --args_left_;
  }
  for (const Span& span : spans_) {
    args->emplace_back(input.data() + span.offset, span.bytes);
  }
  command_bytes_ = position_;
  Reset();
  return ParseResult::kCommand;
}

}  // namespace kvstored::resp
