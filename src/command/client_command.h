// The subcommands of CLIENT that have files of their own. Their numbers of arguments are checked by
// subcommand.cc before they run.
#pragma once

#include <span>
#include <string_view>

namespace kvstored::command {

class Session;
using ClientArgs = std::span<const std::string_view>;

// client_pause.cc
void ClientPause(Session& session, ClientArgs args);
void ClientUnpause(Session& session, ClientArgs args);
void ClientUnblock(Session& session, ClientArgs args);

// client_tracking.cc
void ClientTracking(Session& session, ClientArgs args);
void ClientTrackingInfo(Session& session, ClientArgs args);
void ClientCaching(Session& session, ClientArgs args);
void ClientGetRedirect(Session& session, ClientArgs args);

}  // namespace kvstored::command
