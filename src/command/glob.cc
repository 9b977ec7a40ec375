#include "command/glob.h"

#include <cstddef>
#include <utility>

namespace kvstored::command {
namespace {

// Redis compares plain chars, signed on the platforms it is used on; ranges depend on it.
int Fold(char c, bool ignore_case) {
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): the sign is meant
  const int value = static_cast<signed char>(c);
  return ignore_case && value >= 'A' && value <= 'Z' ? value - 'A' + 'a' : value;
}

// Does the class that starts after '[' at `pattern[*at]` hold `c`? Leaves *at on the closing
// bracket, or on the last byte if there is none (an unclosed class ends with the pattern).
bool ClassHolds(std::string_view pattern, size_t* at, char c, bool ignore_case) {
  size_t p = *at;
  const bool negated = p < pattern.size() && pattern[p] == '^';
  p += negated ? 1 : 0;
  bool match = false;
  for (;; ++p) {
    const size_t left = pattern.size() - p;
    if (left == 0) {
      --p;
      break;
    }
    if (left >= 2 && pattern[p] == '\\') {
      ++p;
      match = match || pattern[p] == c;
    } else if (pattern[p] == ']') {
      break;
    } else if (left >= 3 && pattern[p + 1] == '-') {
      int low = Fold(pattern[p], ignore_case);
      int high = Fold(pattern[p + 2], ignore_case);
      if (static_cast<signed char>(pattern[p]) > static_cast<signed char>(pattern[p + 2])) {
        std::swap(low, high);
      }
      const int value = Fold(c, ignore_case);
      match = match || (value >= low && value <= high);
      p += 2;
    } else {
      match = match || Fold(pattern[p], ignore_case) == Fold(c, ignore_case);
    }
  }
  *at = p;
  return match != negated;
}

// Matches one element (not '*') at pattern[*at] against c; moves *at beyond the element.
bool ElementMatches(std::string_view pattern, size_t* at, char c, bool ignore_case) {
  size_t p = *at;
  bool match = true;
  switch (pattern[p]) {
    case '?':
      break;
    case '[':
      ++p;
      match = ClassHolds(pattern, &p, c, ignore_case);
      break;
    case '\\':
      p += p + 1 < pattern.size() ? 1 : 0;
      [[fallthrough]];
    default:
      match = Fold(pattern[p], ignore_case) == Fold(c, ignore_case);
  }
  *at = p + 1;
  return match;
}

}  // namespace

bool GlobMatch(std::string_view pattern, std::string_view text, bool ignore_case) {
  if (text.empty()) {
    return pattern.empty();
  }
  size_t p = 0;
  size_t t = 0;
  // After the newest star, and where in the text it is tried next; only the newest star ever needs
  // to be tried again, since every other element takes exactly one byte.
  size_t retry_pattern = std::string_view::npos;
  size_t retry_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      retry_pattern = ++p;
      retry_text = t;
      continue;
    }
    if (p < pattern.size() && ElementMatches(pattern, &p, text[t], ignore_case)) {
      ++t;
      continue;
    }
    if (retry_pattern == std::string_view::npos) {
      return false;
    }
    p = retry_pattern;
    t = ++retry_text;
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace kvstored::command
