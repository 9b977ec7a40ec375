// Replies that all commands with subcommands share.
#pragma once

#include <initializer_list>
#include <string_view>

#include "resp/writer.h"

namespace kvstored::command {

// "ERR unknown subcommand 'x'. Try CONFIG HELP."
void WriteUnknownSubcommand(resp::Writer& out, std::string_view command, std::string_view word);
// "ERR wrong number of arguments for 'config|get' command"
void WriteSubcommandArity(resp::Writer& out, std::string_view command, std::string_view word);
// HELP: the usual first line, the lines, then HELP itself.
void WriteHelp(resp::Writer& out, std::string_view command,
               std::initializer_list<std::string_view> lines);

}  // namespace kvstored::command
