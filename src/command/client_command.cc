// CLIENT.
#include <algorithm>
#include <string>
#include <vector>

#include "command/client_command.h"
#include "command/connection_commands.h"
#include "command/front_thread.h"
#include "command/numbers.h"
#include "command/session.h"
#include "command/subcommand.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

// Printable, without blanks: a name stands in CLIENT LIST's line.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

enum class ClientType : uint8_t { kNormal, kNotHere, kUnknown };

// Only normal clients exist here.
ClientType TypeOf(std::string_view word) {
  if (EqualsIgnoreCase(word, "normal")) {
    return ClientType::kNormal;
  }
  return EqualsIgnoreCase(word, "master") || EqualsIgnoreCase(word, "replica") ||
                 EqualsIgnoreCase(word, "slave") || EqualsIgnoreCase(word, "pubsub")
             ? ClientType::kNotHere
             : ClientType::kUnknown;
}

std::string UnknownType(std::string_view word) {
  return "ERR Unknown client type '" + std::string(UpToNul(word)) + "'";
}

// --- LIST ---

// Every session of a thread, one line each, behind its id so that the lines can be put in order.
void AskList(FrontThread& front, ClientArgs args, const Session* /*asker*/, std::string* part) {
  for (Session* session : front.sessions()) {
    if (session->is_closed()) {
      continue;
    }
    if (args.size() > 3 && EqualsIgnoreCase(args[2], "id")) {
      const std::string id = std::to_string(session->id());
      if (std::find(args.begin() + 3, args.end(), id) == args.end()) {
        continue;
      }
    }
    part->append(session->Describe()).append("\n");
  }
}

uint64_t IdOf(std::string_view line) {
  return std::strtoull(std::string(line.substr(3, 20)).c_str(), nullptr, 10);
}

void MergeList(Session& session, ClientArgs /*args*/, std::span<const std::string> parts) {
  std::vector<std::string_view> lines;
  for (const std::string& part : parts) {
    for (size_t at = 0; at < part.size();) {
      const size_t end = part.find('\n', at);
      lines.push_back(std::string_view(part).substr(at, end + 1 - at));
      at = end + 1;
    }
  }
  std::sort(lines.begin(), lines.end(),
            [](std::string_view a, std::string_view b) { return IdOf(a) < IdOf(b); });
  std::string text;
  for (const std::string_view line : lines) {
    text += line;
  }
  session.out().Verbatim(text);
}

void ClientList(Session& session, ClientArgs args) {
  if (args.size() == 4 && EqualsIgnoreCase(args[2], "type")) {
    switch (TypeOf(args[3])) {
      case ClientType::kNormal:
        session.Gather(args, &AskList, &MergeList);
        return;
      case ClientType::kNotHere:
        session.out().Verbatim("");
        return;
      case ClientType::kUnknown:
        session.out().Error(UnknownType(args[3]));
        return;
    }
  }
  if (args.size() > 3 && EqualsIgnoreCase(args[2], "id")) {
    for (const std::string_view text : args.subspan(3)) {
      int64_t id = 0;
      if (!ParseInt64(text, &id) || id <= 0) {
        session.out().Error("ERR Invalid client ID");
        return;
      }
    }
  } else if (args.size() != 2) {
    session.out().Error(kErrSyntax);
    return;
  }
  session.Gather(args, &AskList, &MergeList);
}

// --- KILL ---

struct KillFilter {
  std::string_view peer;
  std::string_view local;
  int64_t id = 0;
  bool other_type = false;  // asks for a type of client that does not exist here
  bool skip_me = true;
};

// Empty, or the error.
std::string ParseKill(ClientArgs args, KillFilter* filter) {
  if (args.size() == 3) {
    filter->peer = args[2];
    filter->skip_me = false;
    return {};
  }
  if (args.size() % 2 != 0 || args.size() < 4) {
    return std::string(kErrSyntax);
  }
  for (size_t i = 2; i < args.size(); i += 2) {
    const std::string_view value = args[i + 1];
    if (EqualsIgnoreCase(args[i], "id")) {
      if (!ParseInt64(value, &filter->id) || filter->id <= 0) {
        return "ERR client-id should be greater than 0";
      }
    } else if (EqualsIgnoreCase(args[i], "addr")) {
      filter->peer = value;
    } else if (EqualsIgnoreCase(args[i], "laddr")) {
      filter->local = value;
    } else if (EqualsIgnoreCase(args[i], "user")) {
      if (value != "default") {
        return "ERR No such user '" + std::string(UpToNul(value)) + "'";
      }
    } else if (EqualsIgnoreCase(args[i], "type")) {
      const ClientType type = TypeOf(value);
      if (type == ClientType::kUnknown) {
        return UnknownType(value);
      }
      filter->other_type = type != ClientType::kNormal;
    } else if (EqualsIgnoreCase(args[i], "skipme")) {
      if (EqualsIgnoreCase(value, "yes")) {
        filter->skip_me = true;
      } else if (EqualsIgnoreCase(value, "no")) {
        filter->skip_me = false;
      } else {
        return std::string(kErrSyntax);
      }
    } else {
      return std::string(kErrSyntax);
    }
  }
  return {};
}

// One letter for each session closed.
void AskKill(FrontThread& front, ClientArgs args, const Session* asker, std::string* part) {
  KillFilter filter;
  if (!ParseKill(args, &filter).empty() || filter.other_type) {
    return;
  }
  for (Session* session : front.sessions()) {
    if (session->is_closed() || (!filter.peer.empty() && session->peer() != filter.peer) ||
        (!filter.local.empty() && session->local() != filter.local) ||
        (filter.id != 0 && session->id() != static_cast<uint64_t>(filter.id)) ||
        (filter.skip_me && session == asker)) {
      continue;
    }
    part->push_back('k');
    if (session == asker) {
      session->CloseAfterReplies();
    } else {
      session->CloseNow();
    }
  }
}

void MergeKill(Session& session, ClientArgs args, std::span<const std::string> parts) {
  int64_t killed = 0;
  for (const std::string& part : parts) {
    killed += static_cast<int64_t>(part.size());
  }
  if (args.size() != 3) {
    session.out().Integer(killed);
  } else if (killed > 0) {
    session.out().Simple("OK");
  } else {
    session.out().Error("ERR No such client");
  }
}

void ClientKill(Session& session, ClientArgs args) {
  KillFilter filter;
  if (const std::string error = ParseKill(args, &filter); !error.empty()) {
    session.out().Error(error);
    return;
  }
  session.Gather(args, &AskKill, &MergeKill);
}

// --- The others ---

void ClientReplyWord(Session& session, ClientArgs args) {
  if (EqualsIgnoreCase(args[2], "on")) {
    session.SetReplyMode(ReplyMode::kOn);
    session.out().Simple("OK");
  } else if (EqualsIgnoreCase(args[2], "off")) {
    session.SetReplyMode(ReplyMode::kOff);
  } else if (EqualsIgnoreCase(args[2], "skip")) {
    session.SkipNextReply();
  } else {
    session.out().Error(kErrSyntax);
  }
}

void ClientSetName(Session& session, ClientArgs args) {
  if (SetClientName(session, args[2])) {
    session.out().Simple("OK");
  }
}

void ClientGetName(Session& session, ClientArgs /*args*/) {
  if (session.name().empty()) {
    session.out().Null();
  } else {
    session.out().Bulk(session.name());
  }
}

void ClientSetLibrary(Session& session, ClientArgs args) {
  const bool name = EqualsIgnoreCase(args[2], "lib-name");
  if (!name && !EqualsIgnoreCase(args[2], "lib-ver")) {
    session.out().Error("ERR Unrecognized option '" + std::string(UpToNul(args[2])) + "'");
  } else if (!IsPlain(args[3])) {
    session.out().Error("ERR " + std::string(UpToNul(args[2])) +
                        " cannot contain spaces, newlines or special characters.");
  } else {
    session.SetLibrary(!name, args[3]);
    session.out().Simple("OK");
  }
}

// NO-EVICT and NO-TOUCH.
void ClientOnOff(Session& session, ClientArgs args) {
  const bool on = EqualsIgnoreCase(args[2], "on");
  if (!on && !EqualsIgnoreCase(args[2], "off")) {
    session.out().Error(kErrSyntax);
    return;
  }
  if (EqualsIgnoreCase(args[1], "no-evict")) {
    session.SetNoEvict(on);
  } else {
    session.SetUsesKeys(!on);
  }
  session.out().Simple("OK");
}

void ClientId(Session& session, ClientArgs /*args*/) {
  session.out().Integer(static_cast<int64_t>(session.id()));
}

void ClientDescribe(Session& session, ClientArgs /*args*/) {
  session.out().Verbatim(session.Describe() + "\n");
}

void ClientHelp(Session& session, ClientArgs /*args*/) {
  WriteHelp(session.out(), "CLIENT",
            {"CACHING (YES|NO)",
             "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
             "GETREDIR",
             "    Return the client ID we are redirecting to when tracking is enabled.",
             "GETNAME",
             "    Return the name of the current connection.",
             "ID",
             "    Return the ID of the current connection.",
             "INFO",
             "    Return information about the current client connection.",
             "KILL <ip:port>",
             "    Kill connection made from <ip:port>.",
             "KILL <option> <value> [<option> <value> [...]]",
             "    Kill connections. Options are:",
             "    * ADDR (<ip:port>|<unixsocket>:0)",
             "      Kill connections made from the specified address",
             "    * LADDR (<ip:port>|<unixsocket>:0)",
             "      Kill connections made to specified local address",
             "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
             "      Kill connections by type.",
             "    * USER <username>",
             "      Kill connections authenticated by <username>.",
             "    * SKIPME (YES|NO)",
             "      Skip killing current connection (default: yes).",
             "LIST [options ...]",
             "    Return information about client connections. Options:",
             "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
             "      Return clients of specified type.",
             "UNPAUSE",
             "    Stop the current client pause, resuming traffic.",
             "PAUSE <timeout> [WRITE|ALL]",
             "    Suspend all, or just write, clients for <timeout> milliseconds.",
             "REPLY (ON|OFF|SKIP)",
             "    Control the replies sent to the current connection.",
             "SETNAME <name>",
             "    Assign the name <name> to the current connection.",
             "SETINFO <option> <value>",
             "    Set client meta attr. Options are: LIB-NAME, LIB-VER.",
             "UNBLOCK <clientid> [TIMEOUT|ERROR]",
             "    Unblock the specified blocked client.",
             "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
             "         [OPTIN] [OPTOUT] [NOLOOP]",
             "    Control server assisted client side caching.",
             "TRACKINGINFO",
             "    Report tracking status for the current connection.",
             "NO-EVICT (ON|OFF)",
             "    Protect current client connection from eviction.",
             "NO-TOUCH (ON|OFF)",
             "    Will not touch LRU/LFU stats when this mode is on."});
}

struct ClientSubcommand {
  std::string_view name;
  void (*run)(Session& session, ClientArgs args);
};

// Their numbers of arguments are in subcommand.cc, which refuses all others.
constexpr ClientSubcommand kClientSubcommands[] = {
    {"id", &ClientId},
    {"getname", &ClientGetName},
    {"setname", &ClientSetName},
    {"setinfo", &ClientSetLibrary},
    {"list", &ClientList},
    {"info", &ClientDescribe},
    {"kill", &ClientKill},
    {"no-touch", &ClientOnOff},
    {"no-evict", &ClientOnOff},
    {"reply", &ClientReplyWord},
    {"tracking", &ClientTracking},
    {"trackinginfo", &ClientTrackingInfo},
    {"caching", &ClientCaching},
    {"pause", &ClientPause},
    {"unpause", &ClientUnpause},
    {"unblock", &ClientUnblock},
    {"getredir", &ClientGetRedirect},
    {"help", &ClientHelp},
};

}  // namespace

bool SetClientName(Session& session, std::string_view name) {
  if (!IsPlain(name)) {
    session.out().Error("ERR Client names cannot contain spaces, newlines or special characters.");
    return false;
  }
  session.SetName(name);
  return true;
}

void HandleClient(Session& session, ClientArgs args) {
  for (const ClientSubcommand& subcommand : kClientSubcommands) {
    if (EqualsIgnoreCase(args[1], subcommand.name)) {
      subcommand.run(session, args);
      return;
    }
  }
}

}  // namespace kvstored::command
