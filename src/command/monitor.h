// MONITOR's lines, as Redis 7.0.15 writes them:
//   +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "command/command.h"

namespace kvstored::command {

// A monitor that has so much unread is closed; a line is not made longer than that.
inline constexpr size_t kMonitorOutputBytesMax = size_t{32} << 20;

// Commands of administration are shown to nobody.
bool IsShownToMonitors(const CommandSpec& spec, std::span<const std::string_view> args);
void AppendMonitorLine(int64_t wall_us, std::string_view peer, const CommandSpec& spec,
                       std::span<const std::string_view> args, std::string* lines);

}  // namespace kvstored::command
