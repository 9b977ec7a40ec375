// The command line of kvstored and kvctl, as both judge it.
#pragma once

#include <optional>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace kvstored::server {

inline constexpr int kExitUsage = 2;

// Nothing: the line is right and `app` has its values. Otherwise the code to end with: 0 after help
// or version, kExitUsage after one line on standard error that says what is wrong.
std::optional<int> ParseCommandLine(const std::string& program, CLI::App* app, int argc,
                                    char** argv);

}  // namespace kvstored::server
