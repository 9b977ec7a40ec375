#include "command/subcommand.h"

#include <string>

namespace kvstored::command {
namespace {

// As much of a client's word as Redis repeats in an error.
constexpr size_t kEchoedBytesMax = 128;

}  // namespace

void WriteUnknownSubcommand(resp::Writer& out, std::string_view command, std::string_view word) {
  std::string text = "ERR unknown subcommand '";
  text.append(word.substr(0, kEchoedBytesMax)).append("'. Try ").append(command).append(" HELP.");
  out.Error(text);
}

void WriteSubcommandArity(resp::Writer& out, std::string_view command, std::string_view word) {
  std::string text = "ERR wrong number of arguments for '";
  text.append(command).append("|").append(word).append("' command");
  out.Error(text);
}

void WriteHelp(resp::Writer& out, std::string_view command,
               std::initializer_list<std::string_view> lines) {
  std::string head(command);
  head += " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:";
  out.Array(lines.size() + 3);
  out.Simple(head);
  for (std::string_view line : lines) {
    out.Simple(line);
  }
  out.Simple("HELP");
  out.Simple("    Prints this help.");
}

}  // namespace kvstored::command
