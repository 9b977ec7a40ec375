#include "command/command_info.h"

#include <algorithm>
#include <string>

#include "command/command_docs.h"

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

}  // namespace

std::vector<std::string_view> SplitWords(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<std::string_view> CategoriesOf(const CommandSpec& spec) {
  const CommandDoc& doc = *FindCommandDoc(spec.name);
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

std::vector<std::string_view> CategoriesOf(const Subcommand& subcommand) {
  const std::vector<std::string_view> flags =
      SplitWords(FindSubcommandDoc(FullName(subcommand))->flags, ' ');
  const auto has = [&flags](std::string_view flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  std::vector<std::string_view> categories;
  const auto add_if = [&categories](bool condition, std::string_view category) {
    if (condition) {
      categories.push_back(category);
    }
  };
  add_if(subcommand.command == "object", "@keyspace");
  add_if(has("readonly"), "@read");
  add_if(has("admin"), "@admin");
  categories.push_back("@slow");
  add_if(has("admin"), "@dangerous");
  add_if(subcommand.command == "client" || subcommand.command == "command", "@connection");
  return categories;
}

// The subcommands of a command, in the order of the table.
std::vector<const Subcommand*> SubcommandsOf(const CommandSpec& spec) {
  std::vector<const Subcommand*> subcommands;
  for (const Subcommand& subcommand : Subcommands()) {
    if (subcommand.command == spec.name) {
      subcommands.push_back(&subcommand);
    }
  }
  return subcommands;
}

void WriteSimpleSet(resp::Writer& out, std::span<const std::string_view> words) {
  out.Set(words.size());
  for (std::string_view word : words) {
    out.Simple(word);
  }
}

namespace {

void WriteTips(resp::Writer& out, std::string_view text) {
  const std::vector<std::string_view> tips = SplitWords(text, ' ');
  out.Set(tips.size());
  for (std::string_view tip : tips) {
    out.Bulk(tip);
  }
}

// One key specification: where the search begins and how far the keys reach.
void WriteKeySpec(resp::Writer& out, std::string_view flags, std::string_view notes, int first,
                  int last, int step) {
  out.Map(notes.empty() ? 3 : 4);
  if (!notes.empty()) {
    out.Bulk("notes");
    out.Bulk(notes);
  }
  out.Bulk("flags");
  WriteSimpleSet(out, SplitWords(flags, ' '));
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

}  // namespace

// Those that read have a key behind them.
void WriteInfo(resp::Writer& out, const Subcommand& subcommand) {
  const SubcommandDoc& doc = *FindSubcommandDoc(FullName(subcommand));
  const std::vector<std::string_view> flags = SplitWords(doc.flags, ' ');
  const bool reads = std::find(flags.begin(), flags.end(), "readonly") != flags.end();
  constexpr int kKeyAt = 2;
  out.Array(10);
  out.Bulk(doc.name);
  out.Integer(subcommand.arity);
  WriteSimpleSet(out, flags);
  out.Integer(reads ? kKeyAt : 0);
  out.Integer(reads ? kKeyAt : 0);
  out.Integer(reads ? 1 : 0);
  WriteSimpleSet(out, CategoriesOf(subcommand));
  WriteTips(out, doc.tips);
  out.Set(reads ? 1 : 0);
  if (reads) {
    WriteKeySpec(out, "RO", "", kKeyAt, 0, 1);
  }
  out.Set(0);
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
  WriteSimpleSet(out, CategoriesOf(spec));
  WriteTips(out, doc.tips);
  WriteKeySpecs(out, spec, doc);
  const std::vector<const Subcommand*> subcommands = SubcommandsOf(spec);
  out.Set(subcommands.size());
  for (const Subcommand* subcommand : subcommands) {
    WriteInfo(out, *subcommand);
  }
}

namespace {

// Name and map; `more`: fields that the caller adds.
void WriteDoc(resp::Writer& out, const CommandDoc& doc, uint64_t more) {
  out.Bulk(doc.name);
  out.Map((doc.complexity.empty() ? 3 : 4) + more);
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

}  // namespace

void WriteDocs(resp::Writer& out, const Subcommand& subcommand) {
  const SubcommandDoc& doc = *FindSubcommandDoc(FullName(subcommand));
  const CommandDoc as_command{.name = doc.name,
                              .since = doc.since,
                              .group = FindCommandDoc(subcommand.command)->group,
                              .summary = doc.summary,
                              .complexity = doc.complexity};
  WriteDoc(out, as_command, 0);
}

void WriteDocs(resp::Writer& out, const CommandSpec& spec) {
  const std::vector<const Subcommand*> subcommands = SubcommandsOf(spec);
  WriteDoc(out, *FindCommandDoc(spec.name), subcommands.empty() ? 0 : 1);
  if (!subcommands.empty()) {
    out.Bulk("subcommands");
    out.Map(subcommands.size());
    for (const Subcommand* subcommand : subcommands) {
      WriteDocs(out, *subcommand);
    }
  }
}

}  // namespace kvstored::command
