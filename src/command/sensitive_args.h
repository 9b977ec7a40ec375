// Passwords among a command's words: neither SLOWLOG nor MONITOR shows them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "command/command.h"

namespace kvstored::command {

// The command's words, "(redacted)" in place of what Redis 7.0.15 hides.
std::vector<std::string_view> WithoutSecrets(const CommandSpec& spec,
                                             std::span<const std::string_view> args);

}  // namespace kvstored::command
