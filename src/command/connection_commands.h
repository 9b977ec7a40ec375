// Commands about the connection itself (Reach::kSession).
#pragma once

#include <span>
#include <string_view>

#include "command/command.h"

namespace kvstored::command {

// connection_commands.cc
void HandlePing(Session& session, std::span<const std::string_view> args);
void HandleEcho(Session& session, std::span<const std::string_view> args);
void HandleHello(Session& session, std::span<const std::string_view> args);
void HandleAuth(Session& session, std::span<const std::string_view> args);
void HandleReset(Session& session, std::span<const std::string_view> args);
void HandleQuit(Session& session, std::span<const std::string_view> args);
void HandleSelect(Session& session, std::span<const std::string_view> args);
void HandleWait(Session& session, std::span<const std::string_view> args);
void HandleWaitAof(Session& session, std::span<const std::string_view> args);

// client_command.cc
void HandleClient(Session& session, std::span<const std::string_view> args);
// False, with the error written: not a legal name.
bool SetClientName(Session& session, std::string_view name);

}  // namespace kvstored::command
