// COMMAND [COUNT LIST INFO DOCS GETKEYS GETKEYSANDFLAGS HELP]: what clients learn about the table.
#include <algorithm>
#include <string>
#include <vector>

#include "command/bit_commands.h"
#include "command/command_docs.h"
#include "command/command_info.h"
#include "command/glob.h"
#include "command/multi_key.h"
#include "command/numbers.h"
#include "command/server_commands.h"
#include "command/session.h"
#include "command/subcommand.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

// "get" or "config|get", in any case: one of the two, or neither.
struct Named {
  const CommandSpec* spec = nullptr;
  const Subcommand* subcommand = nullptr;
};
Named FindNamed(std::string_view name) {
  const size_t bar = name.find('|');
  if (bar == std::string_view::npos) {
    return {.spec = FindCommand(name)};
  }
  const CommandSpec* spec = FindCommand(name.substr(0, bar));
  return {.subcommand =
              spec == nullptr ? nullptr : FindSubcommand(spec->name, name.substr(bar + 1))};
}

void CommandInfo(resp::Writer& out, std::span<const std::string_view> names) {
  if (names.empty()) {
    out.Array(CommandTable().size());
    for (const CommandSpec& spec : CommandTable()) {
      WriteInfo(out, spec);
    }
    return;
  }
  out.Array(names.size());
  for (std::string_view name : names) {
    const Named named = FindNamed(name);
    if (named.spec != nullptr) {
      WriteInfo(out, *named.spec);
    } else if (named.subcommand != nullptr) {
      WriteInfo(out, *named.subcommand);
    } else {
      out.Null();
    }
  }
}

void CommandDocs(resp::Writer& out, std::span<const std::string_view> names) {
  std::vector<Named> found;
  for (std::string_view name : names) {
    const Named named = FindNamed(name);
    if (named.spec != nullptr || named.subcommand != nullptr) {
      found.push_back(named);
    }
  }
  if (names.empty()) {
    for (const CommandSpec& spec : CommandTable()) {
      found.push_back({.spec = &spec});
    }
  }
  out.Map(found.size());
  for (const Named& named : found) {
    if (named.spec != nullptr) {
      WriteDocs(out, *named.spec);
    } else {
      WriteDocs(out, *named.subcommand);
    }
  }
}

// FILTERBY's three kinds; modules there are none.
bool FilterHolds(std::string_view name, std::span<const std::string_view> categories,
                 std::string_view kind, std::string_view value) {
  if (EqualsIgnoreCase(kind, "pattern")) {
    return GlobMatch(value, name, true);
  }
  return EqualsIgnoreCase(kind, "aclcat") &&
         std::any_of(categories.begin(), categories.end(), [value](std::string_view category) {
           return EqualsIgnoreCase(category.substr(1), value);
         });
}

void CommandList(resp::Writer& out, std::span<const std::string_view> words) {
  bool valid = words.empty();
  if (words.size() == 3 && EqualsIgnoreCase(words[0], "filterby")) {
    valid = EqualsIgnoreCase(words[1], "pattern") || EqualsIgnoreCase(words[1], "aclcat") ||
            EqualsIgnoreCase(words[1], "module");
  }
  if (!valid) {
    out.Error(kErrSyntax);
    return;
  }
  std::vector<std::string> names;
  const auto add = [&names, words](std::string name, std::span<const std::string_view> categories) {
    if (words.empty() || FilterHolds(name, categories, words[1], words[2])) {
      names.push_back(std::move(name));
    }
  };
  for (const CommandSpec& spec : CommandTable()) {
    add(spec.name, CategoriesOf(spec));
    for (const Subcommand* subcommand : SubcommandsOf(spec)) {
      add(FullName(*subcommand), CategoriesOf(*subcommand));
    }
  }
  out.Array(names.size());
  for (const std::string& name : names) {
    out.Bulk(name);
  }
}

// What SET and BITFIELD do with their key depends on their words.
std::string_view KeyFlags(const CommandSpec& spec, std::span<const std::string_view> words,
                          size_t key_index) {
  constexpr std::string_view kOverwrites = "OW update";
  constexpr std::string_view kChanges = "RW access update";
  if (spec.name == std::string_view("set")) {
    const bool gets = std::any_of(words.begin() + 3, words.end(), [](std::string_view word) {
      return EqualsIgnoreCase(word, "get");
    });
    return gets ? kChanges : kOverwrites;
  }
  if (spec.name == std::string_view("bitfield")) {
    return BitFieldOnlyReads(words) ? "RO access" : kChanges;
  }
  const std::vector<std::string_view> flags = SplitWords(FindCommandDoc(spec.name)->key_flags, '|');
  // OBJECT and MEMORY: those of their subcommands.
  return flags.empty() ? "RO" : flags[std::min(key_index, flags.size() - 1)];
}

// COMMAND GETKEYS and GETKEYSANDFLAGS.
void CommandGetKeys(resp::Writer& out, std::span<const std::string_view> words, bool with_flags) {
  const CommandSpec* spec = FindCommand(words[0]);
  if (spec == nullptr) {
    out.Error("ERR Invalid command specified");
    return;
  }
  const bool is_help = (spec->flags & kFlagSubcommands) != 0 && words.size() == 2 &&
                       EqualsIgnoreCase(words[1], "help");
  if (spec->first_key == 0 || is_help) {
    out.Error("ERR The command has no key arguments");
    return;
  }
  if (!IsArity(spec->arity, words.size()) || words.size() <= static_cast<size_t>(spec->first_key)) {
    out.Error("ERR Invalid number of arguments specified for command");
    return;
  }
  const std::vector<uint32_t> positions = KeyPositions(*spec, words.size());
  out.Array(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    if (with_flags) {
      out.Array(2);
    }
    out.Bulk(words[positions[i]]);
    if (with_flags) {
      WriteSimpleSet(out, SplitWords(KeyFlags(*spec, words, i), ' '));
    }
  }
}

void CommandHelp(resp::Writer& out) {
  WriteHelp(out, "COMMAND",
            {"(no subcommand)", "    Return details about all Redis commands.", "COUNT",
             "    Return the total number of commands in this Redis server.", "LIST",
             "    Return a list of all commands in this Redis server.", "INFO [<command-name> ...]",
             "    Return details about multiple Redis commands.",
             "    If no command names are given, documentation details for all",
             "    commands are returned.", "DOCS [<command-name> ...]",
             "    Return documentation details about multiple Redis commands.",
             "    If no command names are given, documentation details for all",
             "    commands are returned.", "GETKEYS <full-command>",
             "    Return the keys from a full Redis command.", "GETKEYSANDFLAGS <full-command>",
             "    Return the keys and the access flags from a full Redis command."});
}

}  // namespace

void HandleCommand(Session& session, std::span<const std::string_view> args) {
  resp::Writer& out = session.out();
  if (args.size() == 1) {
    CommandInfo(out, {});
    return;
  }
  const std::string word = ToLower(args[1]);
  if (word == "info") {
    CommandInfo(out, args.subspan(2));
  } else if (word == "docs") {
    CommandDocs(out, args.subspan(2));
  } else if (word == "list") {
    CommandList(out, args.subspan(2));
  } else if (word == "count") {
    out.Integer(static_cast<int64_t>(CommandTable().size()));
  } else if (word == "help") {
    CommandHelp(out);
  } else {
    CommandGetKeys(out, args.subspan(2), word == "getkeysandflags");
  }
}

}  // namespace kvstored::command
