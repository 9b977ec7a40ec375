#include "command/monitor.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "command/numbers.h"
#include "command/sensitive_args.h"

namespace kvstored::command {
namespace {

void AppendQuoted(std::string_view word, std::string* line) {
  constexpr std::string_view kFrom = "\\\"\n\r\t\a\b";
  constexpr std::string_view kTo = "\\\"nrtab";
  constexpr std::string_view kHex = "0123456789abcdef";
  line->append(" \"");
  for (const char c : word) {
    if (line->size() > kMonitorOutputBytesMax) {
      break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\' && c != '"') {
      line->push_back(c);
    } else if (const size_t at = kFrom.find(c); at != std::string_view::npos) {
      line->append({'\\', kTo[at]});
    } else {
      line->append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  line->push_back('"');
}

}  // namespace

bool IsShownToMonitors(const CommandSpec& spec, std::span<const std::string_view> args) {
  constexpr std::array<std::string_view, 6> kAdminOfClient = {"kill",  "list",    "no-evict",
                                                              "pause", "unblock", "unpause"};
  if (spec.name == std::string_view("client")) {
    return std::none_of(kAdminOfClient.begin(), kAdminOfClient.end(),
                        [&](std::string_view word) { return EqualsIgnoreCase(args[1], word); });
  }
  return (spec.flags & kFlagAdmin) == 0;
}

void AppendMonitorLine(int64_t wall_us, std::string_view peer, const CommandSpec& spec,
                       std::span<const std::string_view> args, std::string* lines) {
  std::string line =
      absl::StrFormat("+%d.%06d [0 %s]", wall_us / 1'000'000, wall_us % 1'000'000, peer);
  for (const std::string_view word : WithoutSecrets(spec, args)) {
    AppendQuoted(word, &line);
  }
  lines->append(line).append("\r\n");
}

}  // namespace kvstored::command
