#include "command/connection_commands.h"

#include <array>
#include <string>

#include "command/front_thread.h"
#include "command/node_api.h"
#include "command/numbers.h"
#include "command/session.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

constexpr std::string_view kRedisVersion = "7.2.0";
constexpr std::string_view kWrongPassword =
    "WRONGPASS invalid username-password pair or user is disabled.";

// True if the client is authenticated now; otherwise the error is written.
bool Authenticate(Session& session, std::string_view user, std::string_view password) {
  const FrontSettings& settings = session.front().set().settings();
  if (user != "default" || (settings.NeedsPassword() && !settings.IsPassword(password))) {
    session.out().Error(kWrongPassword);
    return false;
  }
  session.SetAuthenticated(true);
  return true;
}

}  // namespace

void HandlePing(Session& session, std::span<const std::string_view> args) {
  if (args.size() > 2) {
    session.out().Error("ERR wrong number of arguments for 'ping' command");
  } else if (args.size() == 2) {
    session.out().Bulk(args[1]);
  } else {
    session.out().Simple("PONG");
  }
}

void HandleEcho(Session& session, std::span<const std::string_view> args) {
  session.out().Bulk(args[1]);
}

// HELLO [protover [AUTH username password] [SETNAME clientname]]
void HandleHello(Session& session, std::span<const std::string_view> args) {
  int64_t protocol = 0;
  if (args.size() > 1) {
    if (!ParseInt64(args[1], &protocol)) {
      session.out().Error("ERR Protocol version is not an integer or out of range");
      return;
    }
    if (protocol != 2 && protocol != 3) {
      session.out().Error("NOPROTO unsupported protocol version");
      return;
    }
  }
  // Each option takes effect where it stands, whatever is wrong behind it.
  for (size_t i = 2; i < args.size(); ++i) {
    const std::string_view option = UpToNul(args[i]);
    const size_t more = args.size() - 1 - i;
    if (EqualsIgnoreCase(option, "auth") && more >= 2) {
      if (!Authenticate(session, args[i + 1], args[i + 2])) {
        return;
      }
      i += 2;
    } else if (EqualsIgnoreCase(option, "setname") && more >= 1) {
      if (!SetClientName(session, args[i + 1])) {
        return;
      }
      ++i;
    } else {
      session.out().Error("ERR Syntax error in HELLO option '" + std::string(option) + "'");
      return;
    }
  }
  if (!session.authenticated() && session.front().set().settings().NeedsPassword()) {
    session.out().Error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
        "protocol version at the same time");
    return;
  }
  if (protocol != 0) {
    session.SetProtocol(static_cast<int>(protocol));
  }
  const bool replica = session.front().set().options().gate->HasRole(Role::kReplica);
  resp::Writer& out = session.out();
  out.Map(7);
  out.Bulk("server");
  out.Bulk("redis");
  out.Bulk("version");
  out.Bulk(kRedisVersion);
  out.Bulk("proto");
  out.Integer(session.protocol());
  out.Bulk("id");
  out.Integer(static_cast<int64_t>(session.id()));
  out.Bulk("mode");
  out.Bulk("standalone");
  out.Bulk("role");
  out.Bulk(replica ? "replica" : "master");
  out.Bulk("modules");
  out.Array(0);
}

void HandleAuth(Session& session, std::span<const std::string_view> args) {
  if (args.size() > 3) {
    session.out().Error(kErrSyntax);
    return;
  }
  if (args.size() == 2 && !session.front().set().settings().NeedsPassword()) {
    session.out().Error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
    return;
  }
  if (Authenticate(session, args.size() == 3 ? args[1] : "default", args.back())) {
    session.out().Simple("OK");
  }
}

void HandleReset(Session& session, std::span<const std::string_view> /*args*/) {
  session.ResetState();
  session.out().Simple("RESET");
}

void HandleQuit(Session& session, std::span<const std::string_view> /*args*/) {
  session.out().Simple("OK");
  session.CloseAfterReplies();
}

void HandleSelect(Session& session, std::span<const std::string_view> args) {
  int64_t database = 0;
  if (const std::string_view error = ParseInt32(args[1], &database); !error.empty()) {
    session.out().Error(error);
  } else if (database != 0) {
    session.out().Error("ERR DB index is out of range");
  } else {
    session.out().Simple("OK");
  }
}

namespace {

bool ParseTimeout(Session& session, std::string_view text, int64_t* timeout_ms) {
  if (!ParseInt64(text, timeout_ms)) {
    session.out().Error("ERR timeout is not an integer or out of range");
    return false;
  }
  if (*timeout_ms < 0) {
    session.out().Error("ERR timeout is negative");
    return false;
  }
  return true;
}

bool RefusedOnReplica(Session& session, std::string_view command) {
  if (!session.front().set().options().gate->HasRole(Role::kReplica)) {
    return false;
  }
  session.out().Error("ERR " + std::string(command) +
                      " cannot be used with replica instances. Please also note that writes to "
                      "replicas are just local and are not propagated.");
  return true;
}

}  // namespace

void HandleWait(Session& session, std::span<const std::string_view> args) {
  int64_t replica_count = 0;
  int64_t timeout_ms = 0;
  if (RefusedOnReplica(session, "WAIT")) {
    return;
  }
  if (!ParseInt64(args[1], &replica_count)) {
    session.out().Error(kErrNotInteger);
    return;
  }
  if (ParseTimeout(session, args[2], &timeout_ms)) {
    session.WaitForReplicas(-1, replica_count, timeout_ms);
  }
}

void HandleWaitAof(Session& session, std::span<const std::string_view> args) {
  int64_t local_count = 0;
  int64_t replica_count = 0;
  int64_t timeout_ms = 0;
  if (!ParseInt64(args[1], &local_count) || local_count < 0 || local_count > 1) {
    session.out().Error("ERR value is out of range, value must between 0 and 1");
    return;
  }
  if (!ParseInt64(args[2], &replica_count) || replica_count < 0) {
    session.out().Error("ERR value is out of range, must be positive");
    return;
  }
  if (ParseTimeout(session, args[3], &timeout_ms) && !RefusedOnReplica(session, "WAITAOF")) {
    session.WaitForReplicas(local_count, replica_count, timeout_ms);
  }
}

namespace {

constexpr uint32_t kConnectionFlags = kFlagLoading | kFlagStale | kFlagNoScript | kFlagFast;

constexpr CommandSpec OfConnection(const char* name, int arity, uint32_t flags,
                                   SessionHandler handler) {
  return {name, arity, flags, 0, 0, 0, Reach::kSession, nullptr, handler};
}

constexpr std::array<CommandSpec, 10> kConnectionCommands = {
    OfConnection("ping", -1, kFlagFast, &HandlePing),
    OfConnection("echo", 2, kFlagFast, &HandleEcho),
    OfConnection("hello", -1, kConnectionFlags | kFlagNoAuth, &HandleHello),
    OfConnection("auth", -2, kConnectionFlags | kFlagNoAuth, &HandleAuth),
    OfConnection("reset", 1, kConnectionFlags | kFlagNoAuth, &HandleReset),
    OfConnection("quit", -1, kConnectionFlags | kFlagNoAuth, &HandleQuit),
    OfConnection("select", 2, kFlagLoading | kFlagStale | kFlagFast, &HandleSelect),
    OfConnection("client", -2, kConnectionFlags | kFlagSubcommands, &HandleClient),
    OfConnection("wait", 3, kFlagNoScript, &HandleWait),
    OfConnection("waitaof", 4, kFlagNoScript, &HandleWaitAof),
};

}  // namespace

std::span<const CommandSpec> ConnectionCommands() {
  return kConnectionCommands;
}

}  // namespace kvstored::command
