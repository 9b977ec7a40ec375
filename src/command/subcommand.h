// What all commands with subcommands share.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "resp/writer.h"

namespace kvstored::command {

// As much of a client's word as Redis repeats in an error.
inline constexpr size_t kEchoedBytesMax = 128;

// An arity counts all words; negative: at least so many.
inline bool IsArity(int arity, size_t word_count) {
  return arity >= 0 ? word_count == static_cast<size_t>(arity)
                    : word_count >= static_cast<size_t>(-arity);
}

// Empty, or why a command of kFlagSubcommands cannot run: its subcommand is unknown ("ERR unknown
// subcommand 'x'. Try CONFIG HELP.") or has a wrong number of arguments. Asked when a command
// arrives, also inside MULTI, so that handlers see only what the table in subcommand.cc allows.
std::string SubcommandRefusal(std::string_view command, std::span<const std::string_view> args);
// HELP: the usual first line, the lines, then HELP itself.
void WriteHelp(resp::Writer& out, std::string_view command,
               std::initializer_list<std::string_view> lines);

}  // namespace kvstored::command
