// COMMAND [COUNT LIST INFO DOCS GETKEYS HELP]: what clients learn about the table.
#include <string>
#include <vector>

#include "command/command_docs.h"
#include "command/glob.h"
#include "command/numbers.h"
#include "command/server_commands.h"
#include "command/session.h"
#include "command/subcommand.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

struct FlagName {
  uint32_t flag;
  std::string_view name;
};
constexpr FlagName kFlagNames[] = {
    {kFlagWrite, "write"},      {kFlagReadonly, "readonly"}, {kFlagDenyOom, "denyoom"},
    {kFlagAdmin, "admin"},      {kFlagNoScript, "noscript"}, {kFlagLoading, "loading"},
    {kFlagStale, "stale"},      {kFlagFast, "fast"},         {kFlagNoAuth, "no_auth"},
    {kFlagNoMulti, "no_multi"},
};

// Commands that Redis counts as dangerous or of administration though their flags do not say so.
constexpr std::string_view kDangerous[] = {"keys", "flushall", "flushdb", "lastsave",
                                           "role", "info",     "restore"};
constexpr std::string_view kAdmin[] = {"lastsave", "role"};

template <size_t kCount>
bool IsOneOf(std::string_view name, const std::string_view (&names)[kCount]) {
  for (std::string_view candidate : names) {
    if (candidate == name) {
      return true;
    }
  }
  return false;
}

std::vector<std::string_view> SplitWords(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<std::string_view> CategoriesOf(const CommandSpec& spec, const CommandDoc& doc) {
  std::vector<std::string_view> categories;
  const bool admin = (spec.flags & kFlagAdmin) != 0 || IsOneOf(spec.name, kAdmin);
  const auto add_if = [&categories](bool condition, std::string_view category) {
    if (condition) {
      categories.push_back(category);
    }
  };
  const bool data = doc.group == "generic" && (spec.flags & (kFlagWrite | kFlagReadonly)) != 0;
  const bool on_all_keys = spec.reach == Reach::kShards && doc.group == "server" &&
                           (spec.flags & (kFlagWrite | kFlagReadonly)) != 0;
  add_if(data || on_all_keys, "@keyspace");
  add_if((spec.flags & kFlagReadonly) != 0, "@read");
  add_if((spec.flags & kFlagWrite) != 0, "@write");
  add_if(doc.group == "string", "@string");
  add_if(doc.group == "bitmap", "@bitmap");
  add_if(admin, "@admin");
  add_if((spec.flags & kFlagFast) != 0, "@fast");
  add_if((spec.flags & kFlagFast) == 0, "@slow");
  add_if((spec.flags & kFlagAdmin) != 0 || IsOneOf(spec.name, kDangerous), "@dangerous");
  const bool connection =
      doc.group == "connection" || spec.name == std::string_view("command") ||
      spec.name == std::string_view("wait") || spec.name == std::string_view("waitaof") ||
      spec.name == std::string_view("readonly") || spec.name == std::string_view("readwrite");
  add_if(connection, "@connection");
  add_if(doc.group == "transactions", "@transaction");
  return categories;
}

// One key specification: where the search begins and how far the keys reach.
void WriteKeySpec(resp::Writer& out, std::string_view flags, std::string_view notes, int first,
                  int last, int step) {
  out.Map(notes.empty() ? 3 : 4);
  if (!notes.empty()) {
    out.Bulk("notes");
    out.Bulk(notes);
  }
  const std::vector<std::string_view> words = SplitWords(flags, ' ');
  out.Bulk("flags");
  out.Set(words.size());
  for (std::string_view word : words) {
    out.Simple(word);
  }
  out.Bulk("begin_search");
  out.Map(2);
  out.Bulk("type");
  out.Bulk("index");
  out.Bulk("spec");
  out.Map(1);
  out.Bulk("index");
  out.Integer(first);
  out.Bulk("find_keys");
  out.Map(2);
  out.Bulk("type");
  out.Bulk("range");
  out.Bulk("spec");
  out.Map(3);
  out.Bulk("lastkey");
  out.Integer(last);
  out.Bulk("keystep");
  out.Integer(step);
  out.Bulk("limit");
  out.Integer(0);
}

void WriteKeySpecs(resp::Writer& out, const CommandSpec& spec, const CommandDoc& doc) {
  const std::vector<std::string_view> flags = SplitWords(doc.key_flags, '|');
  out.Set(flags.size());
  if (flags.size() > 1) {
    // Keys with different rights (RENAME, COPY, BITOP): a specification each, the last one for all
    // that follow.
    for (size_t i = 0; i < flags.size(); ++i) {
      const bool is_open = i + 1 == flags.size() && spec.last_key < 0;
      WriteKeySpec(out, flags[i], "", spec.first_key + static_cast<int>(i), is_open ? -1 : 0, 1);
    }
  } else if (flags.size() == 1) {
    const int last = spec.last_key > 0 ? spec.last_key - spec.first_key : spec.last_key;
    WriteKeySpec(out, flags[0], doc.key_notes, spec.first_key, last, spec.key_step);
  }
}

void WriteInfo(resp::Writer& out, const CommandSpec& spec) {
  const CommandDoc& doc = *FindCommandDoc(spec.name);
  out.Array(10);
  out.Bulk(spec.name);
  out.Integer(spec.arity);
  uint64_t flag_count = 0;
  for (const FlagName& flag : kFlagNames) {
    flag_count += (spec.flags & flag.flag) != 0 ? 1 : 0;
  }
  out.Set(flag_count);
  for (const FlagName& flag : kFlagNames) {
    if ((spec.flags & flag.flag) != 0) {
      out.Simple(flag.name);
    }
  }
  out.Integer(spec.first_key);
  out.Integer(spec.last_key);
  out.Integer(spec.key_step);
  const std::vector<std::string_view> categories = CategoriesOf(spec, doc);
  out.Set(categories.size());
  for (std::string_view category : categories) {
    out.Simple(category);
  }
  const std::vector<std::string_view> tips = SplitWords(doc.tips, ' ');
  out.Set(tips.size());
  for (std::string_view tip : tips) {
    out.Bulk(tip);
  }
  WriteKeySpecs(out, spec, doc);
  out.Set(0);  // subcommands
}

void WriteDocs(resp::Writer& out, const CommandSpec& spec) {
  const CommandDoc& doc = *FindCommandDoc(spec.name);
  out.Bulk(spec.name);
  out.Map(doc.complexity.empty() ? 3 : 4);
  out.Bulk("summary");
  out.Bulk(doc.summary);
  out.Bulk("since");
  out.Bulk(doc.since);
  out.Bulk("group");
  out.Bulk(doc.group);
  if (!doc.complexity.empty()) {
    out.Bulk("complexity");
    out.Bulk(doc.complexity);
  }
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
    const CommandSpec* spec = FindCommand(name);
    if (spec == nullptr) {
      out.Null();
    } else {
      WriteInfo(out, *spec);
    }
  }
}

void CommandDocs(resp::Writer& out, std::span<const std::string_view> names) {
  std::vector<const CommandSpec*> specs;
  for (std::string_view name : names) {
    if (const CommandSpec* spec = FindCommand(name); spec != nullptr) {
      specs.push_back(spec);
    }
  }
  if (names.empty()) {
    for (const CommandSpec& spec : CommandTable()) {
      specs.push_back(&spec);
    }
  }
  out.Map(specs.size());
  for (const CommandSpec* spec : specs) {
    WriteDocs(out, *spec);
  }
}

// FILTERBY's three kinds; modules there are none.
bool FilterHolds(const CommandSpec& spec, std::string_view kind, std::string_view value) {
  if (EqualsIgnoreCase(kind, "pattern")) {
    return GlobMatch(value, spec.name, true);
  }
  if (EqualsIgnoreCase(kind, "aclcat")) {
    for (std::string_view category : CategoriesOf(spec, *FindCommandDoc(spec.name))) {
      if (EqualsIgnoreCase(category.substr(1), value)) {
        return true;
      }
    }
  }
  return false;
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
  std::vector<std::string_view> names;
  for (const CommandSpec& spec : CommandTable()) {
    if (words.empty() || FilterHolds(spec, words[1], words[2])) {
      names.push_back(spec.name);
    }
  }
  out.Array(names.size());
  for (std::string_view name : names) {
    out.Bulk(name);
  }
}

void CommandGetKeys(resp::Writer& out, std::span<const std::string_view> words) {
  const CommandSpec* spec = FindCommand(words[0]);
  if (spec == nullptr) {
    out.Error("ERR Invalid command specified");
    return;
  }
  if (spec->first_key == 0) {
    out.Error("ERR The command has no key arguments");
    return;
  }
  const int count = static_cast<int>(words.size());
  if ((spec->arity > 0 && spec->arity != count) || count < -spec->arity ||
      count <= spec->first_key) {
    out.Error("ERR Invalid number of arguments specified for command");
    return;
  }
  const int last = LastKeyAt(*spec, words.size());
  std::vector<std::string_view> keys;
  for (int i = spec->first_key; i <= last; i += spec->key_step) {
    keys.push_back(words[static_cast<size_t>(i)]);
  }
  out.Array(keys.size());
  for (std::string_view key : keys) {
    out.Bulk(key);
  }
}

void CommandHelp(resp::Writer& out) {
  WriteHelp(out, "COMMAND",
            {"(no subcommand)", "    Return details about all commands.", "COUNT",
             "    Return the total number of commands in this server.", "LIST",
             "    Return a list of all commands in this server.", "INFO [<command-name> ...]",
             "    Return details about multiple commands.",
             "    If no command names are given, documentation details for all",
             "    commands are returned.", "DOCS [<command-name> ...]",
             "    Return documentation details about multiple commands.",
             "    If no command names are given, documentation details for all",
             "    commands are returned.", "GETKEYS <full-command>",
             "    Return the keys from a full command."});
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
    CommandGetKeys(out, args.subspan(2));
  }
}

}  // namespace kvstored::command
