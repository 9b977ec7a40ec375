// What COMMAND says about one command or subcommand.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "command/command.h"
#include "command/subcommand.h"
#include "resp/writer.h"

namespace kvstored::command {

std::vector<std::string_view> SplitWords(std::string_view text, char separator);
// The subcommands of a command, in the order of the table.
std::vector<const Subcommand*> SubcommandsOf(const CommandSpec& spec);
// "@read" and the like, in the order of Redis.
std::vector<std::string_view> CategoriesOf(const CommandSpec& spec);
std::vector<std::string_view> CategoriesOf(const Subcommand& subcommand);

void WriteSimpleSet(resp::Writer& out, std::span<const std::string_view> words);
// An entry of COMMAND INFO.
void WriteInfo(resp::Writer& out, const CommandSpec& spec);
void WriteInfo(resp::Writer& out, const Subcommand& subcommand);
// Name and map of COMMAND DOCS.
void WriteDocs(resp::Writer& out, const CommandSpec& spec);
void WriteDocs(resp::Writer& out, const Subcommand& subcommand);

}  // namespace kvstored::command
