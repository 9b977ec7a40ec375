// Glob patterns with Redis's own rules (*, ?, [a-z], [^x], backslash), on bytes. Without recursion:
// a hostile pattern costs pattern x text steps at most and no stack.
#pragma once

#include <string_view>

namespace kvstored::command {

// As in Redis an empty text matches only an empty pattern; callers treat the pattern "*" as "all".
bool GlobMatch(std::string_view pattern, std::string_view text, bool ignore_case = false);

}  // namespace kvstored::command
