#include "server/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "absl/strings/str_format.h"

namespace kvstored::server {
namespace {

// The path to the innermost command that the line named: {kvctl, member, drop}.
std::vector<const CLI::App*> NamedCommands(const CLI::App& app) {
  std::vector<const CLI::App*> path = {&app};
  while (!path.back()->get_subcommands().empty()) {
    path.push_back(path.back()->get_subcommands().front());
  }
  return path;
}

// What is wrong, without what CLI11 says of "subcommands" and "arguments" when it is a word that
// nobody knows.
std::string UsageText(const CLI::App& app, const CLI::App& innermost, const CLI::Error& error) {
  // By its code: the name of one of them is the command's.
  const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
  if (kind != CLI::ExitCodes::RequiredError && kind != CLI::ExitCodes::ExtrasError) {
    return error.what();
  }
  std::string commands;
  for (const CLI::App* command : innermost.get_subcommands([](const CLI::App*) { return true; })) {
    commands += (commands.empty() ? "" : ", ") + command->get_name();
  }
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty()) {
    return commands.empty() ? error.what() : "a command is missing; there are: " + commands;
  }
  const std::string& word = unknown.front();
  if (word.rfind('-', 0) == 0) {
    return absl::StrFormat("unknown option '%s'", word);
  }
  return commands.empty() ? absl::StrFormat("'%s' is one word too many", word)
                          : absl::StrFormat("unknown command '%s'; there are: %s", word, commands);
}

}  // namespace

std::optional<int> ParseCommandLine(const std::string& program, CLI::App* app, int argc,
                                    char** argv) {
  try {  // CLI11 throws
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return app->exit(error);  // help and version come this way, too
    }
    const std::vector<const CLI::App*> path = NamedCommands(*app);
    std::string help = program + " ";
    for (size_t i = 1; i < path.size(); ++i) {
      help += path[i]->get_name() + " ";
    }
    std::fprintf(stderr, "%s: %s; see %s--help\n", program.c_str(),
                 UsageText(*app, *path.back(), error).c_str(), help.c_str());
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace kvstored::server
