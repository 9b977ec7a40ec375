// Numbers as Redis reads and writes them: what it refuses (" 1", "+1", "01") is refused here too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "resp/parser.h"

namespace kvstored::command {

using resp::ParseInt64;

// What strtold reads whole, without leading space; NaN and overflow are refused, "inf" is not.
[[nodiscard]] bool ParseLongDouble(std::string_view text, long double* value);

// 17 digits after the point, trailing zeros trimmed, never an exponent: INCRBYFLOAT's reply.
std::string FormatLongDouble(long double value);

// SCAN's cursor: strtoul's reading (leading zeros and signs pass, other text does not).
[[nodiscard]] bool ParseCursor(std::string_view text, uint64_t* cursor);

// a + b, false on overflow.
[[nodiscard]] bool AddInt64(int64_t a, int64_t b, int64_t* sum);

// As Redis reads an int (32 bits): empty, or the error.
std::string_view ParseInt32(std::string_view text, int64_t* value);

// What Redis sees of a text where it compares or prints C strings.
inline std::string_view UpToNul(std::string_view text) {
  return text.substr(0, text.find('\0'));
}
// ASCII only, as option words are compared.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);
std::string ToLower(std::string_view text);

}  // namespace kvstored::command
