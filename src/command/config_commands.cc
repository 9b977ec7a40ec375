// CONFIG GET SET RESETSTAT REWRITE: the node owns the settings, this file the words.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "command/front_thread.h"
#include "command/numbers.h"
#include "command/server_commands.h"
#include "command/session.h"
#include "command/subcommand.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

void ConfigGet(Session& session, std::span<const std::string_view> patterns) {
  std::vector<std::pair<std::string, std::string>> found;
  absl::flat_hash_set<std::string> seen;
  for (std::string_view pattern : patterns) {
    for (auto& pair : session.node().ConfigGet(pattern)) {
      if (seen.insert(pair.first).second) {
        found.push_back(std::move(pair));
      }
    }
  }
  session.out().Map(found.size());
  for (const auto& [name, value] : found) {
    session.out().Bulk(name);
    session.out().Bulk(value);
  }
}

void ConfigSet(Session& session, std::span<const std::string_view> words) {
  if (words.size() % 2 != 0) {
    session.out().Error(kErrSyntax);
    return;
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  absl::flat_hash_set<std::string> seen;
  for (size_t i = 0; i < words.size(); i += 2) {
    std::string name = ToLower(words[i]);
    if (!seen.insert(name).second) {
      session.out().Error("ERR CONFIG SET failed (possibly related to argument '" +
                          std::string(words[i]) + "') - duplicate parameter");
      return;
    }
    pairs.emplace_back(std::move(name), words[i + 1]);
  }
  const absl::Status status = session.node().ConfigSet(pairs);
  if (status.ok()) {
    session.out().Simple("OK");
  } else {
    session.out().Error("ERR " + std::string(status.message().data(), status.message().size()));
  }
}

}  // namespace

void HandleConfig(Session& session, std::span<const std::string_view> args) {
  struct Subcommand {
    std::string_view word;
    size_t words_min;
    size_t words_max;
  };
  constexpr size_t kAnyCount = ~size_t{0};
  constexpr Subcommand kSubcommands[] = {
      {"get", 3, kAnyCount}, {"set", 4, kAnyCount}, {"resetstat", 2, 2},
      {"rewrite", 2, 2},     {"help", 2, 2},
  };
  const Subcommand* chosen = nullptr;
  for (const Subcommand& subcommand : kSubcommands) {
    if (EqualsIgnoreCase(args[1], subcommand.word)) {
      chosen = &subcommand;
    }
  }
  if (chosen == nullptr) {
    WriteUnknownSubcommand(session.out(), "CONFIG", args[1]);
  } else if (args.size() < chosen->words_min || args.size() > chosen->words_max) {
    WriteSubcommandArity(session.out(), "config", chosen->word);
  } else if (chosen->word == "get") {
    ConfigGet(session, args.subspan(2));
  } else if (chosen->word == "set") {
    ConfigSet(session, args.subspan(2));
  } else if (chosen->word == "help") {
    WriteHelp(session.out(), "CONFIG",
              {"GET <pattern>",
               "    Return parameters matching the glob-like <pattern> and their values.",
               "SET <directive> <value>", "    Set the configuration <directive> to <value>.",
               "RESETSTAT", "    Reset statistics reported by the INFO command.", "REWRITE",
               "    Rewrite the configuration file."});
  } else if (chosen->word == "resetstat") {
    session.front().set().ResetFigures();
    session.out().Simple("OK");
  } else {
    session.out().Error(
        "ERR the configuration file is the operator's: edit it, then send SIGHUP or restart");
  }
}

}  // namespace kvstored::command
