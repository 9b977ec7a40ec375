// Whatever a client sends, in whatever pieces: the same commands come out as when it came whole,
// and no byte is read twice or out of bounds (the sanitizers judge that).
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "resp/parser.h"

namespace {

using kvstored::resp::Parser;
using kvstored::resp::ParseResult;
using kvstored::resp::ParserLimits;

// All commands of the input, fed in growing pieces of `step` bytes; ends at the first error.
std::vector<std::string> Commands(std::string_view input, size_t step, const ParserLimits& limits) {
  std::vector<std::string> commands;
  Parser parser;
  size_t begin = 0;
  size_t end = 0;
  while (true) {
    std::vector<std::string_view> args;
    const ParseResult result = parser.Next(input.substr(begin, end - begin), limits, &args);
    if (result == ParseResult::kNeedMore) {
      if (end == input.size()) {
        return commands;
      }
      end = std::min(input.size(), end + step);
      continue;
    }
    if (result == ParseResult::kError) {
      commands.push_back("!" + parser.error());
      return commands;
    }
    std::string joined;
    for (const std::string_view arg : args) {
      joined.append(arg).push_back('\0');
    }
    if (parser.command_bytes() == 0 || parser.command_bytes() > end - begin) {
      std::abort();
    }
    commands.push_back(joined);
    begin += parser.command_bytes();
  }
}

}  // namespace

// The first byte chooses the limits and the size of the pieces.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  const ParserLimits limits =
      (data[0] & 1) != 0 ? ParserLimits{} : kvstored::resp::kUnauthenticatedLimits;
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  if (Commands(input, 1 + data[0] / 2, limits) != Commands(input, input.size(), limits)) {
    std::abort();
  }
  return 0;
}
