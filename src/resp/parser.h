// Incremental parser of commands (RESP multibulk and inline). Pure: it borrows the caller's bytes,
// remembers how far it got, and never looks at a byte of a value twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvstored::resp {

// Bounds that hold before a client has shown a password (CVE-2021-32675, CVE-2025-21605) and after.
struct ParserLimits {
  int64_t args_max = 1 << 20;
  int64_t bulk_bytes_max = int64_t{512} << 20;
  bool authenticated = true;  // only words the error
};
inline constexpr ParserLimits kUnauthenticatedLimits{10, 16384, false};
// Longest line: an inline command, or the count or length before its CRLF has come.
inline constexpr size_t kLineBytesMax = 64 << 10;

enum class ParseResult : uint8_t {
  kCommand,   // a command was appended to *args (at least one word)
  kEmpty,     // an empty line or "*0": consumed, there is nothing to run
  kNeedMore,  // the input ends inside a command
  kError,     // not the protocol; error() says why. The connection cannot go on.
};

// One per connection. `input` of each call starts at the first byte of the command under way, so
// after kNeedMore it must hold the same bytes as before and perhaps more. After kCommand and kEmpty
// the next command starts command_bytes() later.
class Parser {
 public:
  // The views in *args point into `input`, or (inline commands with quotes) into this parser until
  // its next call.
  ParseResult Next(std::string_view input, const ParserLimits& limits,
                   std::vector<std::string_view>* args);
  // Bytes of the command just returned.
  size_t command_bytes() const {
    return command_bytes_;
  }
  // "Protocol error: ...", to be sent as "-ERR <error>\r\n".
  const std::string& error() const {
    return error_;
  }
  // Forgets progress: the caller will offer the same command from its start again.
  void Reset();
  // Bytes from the command's start that are known to be needed; 0 = unknown. Lets the connection
  // make room for a large value at once instead of doubling, but only when that much has nearly
  // arrived.
  size_t bytes_wanted() const {
    return bulk_bytes_ >= 0 ? position_ + static_cast<size_t>(bulk_bytes_) + 2 : 0;
  }

 private:
  struct Span {
    size_t offset;
    size_t bytes;
  };
  ParseResult NextInline(std::string_view input, std::vector<std::string_view>* args);
  ParseResult ReadCount(std::string_view input, const ParserLimits& limits);
  ParseResult ReadBulkHeader(std::string_view input, const ParserLimits& limits);
  ParseResult Fail(std::string error);

  size_t position_ = 0;      // bytes of the command under way that were understood
  int64_t args_left_ = -1;   // < 0: the count has not been read
  int64_t bulk_bytes_ = -1;  // < 0: the length of the next argument has not been read
  size_t command_bytes_ = 0;
  std::vector<Span> spans_;   // arguments so far, as offsets: the input may move between calls
  std::string inline_words_;  // unquoted words of an inline command
  std::string error_;
};

// As Redis' string2ll, the whole text: strict decimal without blanks, '+', leading zeros or "-0".
// False: not a number or out of range.
[[nodiscard]] bool ParseInt64(std::string_view text, int64_t* value);

// Splits a line as redis-cli and inline commands do: words, "..." with \n \r \t \b \a \xHH \" \\,
// and '...' with \'. Appends the words to *bytes and their lengths to *sizes. False: unbalanced
// quotes.
bool SplitWords(std::string_view line, std::string* bytes, std::vector<size_t>* sizes);

}  // namespace kvstored::resp
