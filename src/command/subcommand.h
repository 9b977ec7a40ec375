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

struct Subcommand {
  std::string_view command;
  std::string_view name;
  int arity;  // counts command and subcommand; negative = at least
};
// Of all commands of kFlagSubcommands, sorted.
std::span<const Subcommand> Subcommands();
std::string FullName(const Subcommand& subcommand);  // "config|get"
// Case-insensitive; null: there is none.
const Subcommand* FindSubcommand(std::string_view command, std::string_view name);

// What COMMAND INFO and COMMAND DOCS say of it.
struct SubcommandDoc {
  std::string_view name;   // full
  std::string_view flags;  // separated by spaces, as tips
  std::string_view tips;
  std::string_view since;
  std::string_view summary;
  std::string_view complexity;
};
// Never null for one of Subcommands() (a test checks that).
const SubcommandDoc* FindSubcommandDoc(std::string_view full_name);

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
