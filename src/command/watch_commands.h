// Commands that watch the node at work: LATENCY, SLOWLOG, MONITOR; and DEBUG.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "command/command.h"

namespace kvstored::command {

// latency_commands.cc (Reach::kSession)
void HandleLatency(Session& session, std::span<const std::string_view> args);

// watch_commands.cc (Reach::kSession)
void HandleSlowLog(Session& session, std::span<const std::string_view> args);
void HandleMonitor(Session& session, std::span<const std::string_view> args);
void HandleDebug(Session& session, std::span<const std::string_view> args);
// Empty, or why the session's client may not send DEBUG (security.debug_command).
std::string DebugRefusal(Session& session);

}  // namespace kvstored::command
