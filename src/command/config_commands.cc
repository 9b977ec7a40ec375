// CONFIG GET SET RESETSTAT REWRITE: the node owns the settings, this file the words.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "command/dispatch.h"
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
  if (!session.in_exec()) {
    session.Control([&](Session::ControlDone done) {
      session.node().ConfigSet(std::move(pairs), [done](const absl::Status& status) {
        done(status.ok() ? absl::StatusOr<std::string>("OK") : status);
      });
    });
    return;
  }
  // A transaction holds its shards: it cannot wait for members.
  const absl::Status status = session.node().ConfigSet(pairs);
  if (status.ok()) {
    session.out().Simple("OK");
  } else {
    WriteStatus(session.out(), status);
  }
}

}  // namespace

void HandleConfig(Session& session, std::span<const std::string_view> args) {
  const std::string word = ToLower(args[1]);
  if (word == "get") {
    ConfigGet(session, args.subspan(2));
  } else if (word == "set") {
    ConfigSet(session, args.subspan(2));
  } else if (word == "help") {
    WriteHelp(session.out(), "CONFIG",
              {"GET <pattern>",
               "    Return parameters matching the glob-like <pattern> and their values.",
               "SET <directive> <value>", "    Set the configuration <directive> to <value>.",
               "RESETSTAT", "    Reset statistics reported by the INFO command.", "REWRITE",
               "    Rewrite the configuration file."});
  } else if (word == "resetstat") {
    session.front().set().ResetFigures();
    session.out().Simple("OK");
  } else {
    session.out().Error(
        "ERR the configuration file is the operator's: edit it, then send SIGHUP or restart");
  }
}

}  // namespace kvstored::command
