// CLIENT PAUSE UNPAUSE UNBLOCK: who waits, until when, and who need not wait any longer.
#include <algorithm>
#include <string>

#include "command/client_command.h"
#include "command/front_thread.h"
#include "command/numbers.h"
#include "command/session.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

std::string WrongArguments(std::string_view subcommand) {
  return "ERR unknown subcommand or wrong number of arguments for '" + std::string(subcommand) +
         "'. Try CLIENT HELP.";
}

void AskNothing(FrontThread& /*front*/, ClientArgs /*args*/, const Session* /*asker*/,
                std::string* /*part*/) {
}

void MergeOk(Session& session, ClientArgs /*args*/, std::span<const std::string> /*parts*/) {
  session.out().Simple("OK");
}

// +OK when every thread has ended the command that it was running.
void ReplyWhenAllKnow(Session& session, ClientArgs args) {
  if (session.in_exec()) {
    session.out().Simple("OK");
  } else {
    session.Gather(args, &AskNothing, &MergeOk);
  }
}

// One letter if the client was here and waited.
void AskUnblock(FrontThread& front, ClientArgs args, const Session* /*asker*/, std::string* part) {
  int64_t id = 0;
  (void)ParseInt64(args[2], &id);
  Session* session = front.Find(static_cast<uint64_t>(id));
  const bool with_error = args.size() > 3 && EqualsIgnoreCase(args[3], "error");
  if (session != nullptr && session->EndWait(with_error)) {
    part->push_back('u');
  }
}

void MergeUnblock(Session& session, ClientArgs /*args*/, std::span<const std::string> parts) {
  const bool unblocked = std::any_of(parts.begin(), parts.end(),
                                     [](const std::string& part) { return !part.empty(); });
  session.out().Integer(unblocked ? 1 : 0);
}

}  // namespace

void ClientPause(Session& session, ClientArgs args) {
  bool all = true;
  if (args.size() > 4) {
    session.out().Error(WrongArguments(args[1]));
    return;
  }
  if (args.size() == 4 && EqualsIgnoreCase(args[3], "write")) {
    all = false;
  } else if (args.size() == 4 && !EqualsIgnoreCase(args[3], "all")) {
    session.out().Error("ERR CLIENT PAUSE mode must be WRITE or ALL");
    return;
  }
  int64_t timeout_ms = 0;
  if (!ParseInt64(args[2], &timeout_ms)) {
    session.out().Error("ERR timeout is not an integer or out of range");
    return;
  }
  if (timeout_ms < 0) {
    session.out().Error("ERR timeout is negative");
    return;
  }
  session.front().set().Pause(session.front().thread().now_us(), timeout_ms, all);
  ReplyWhenAllKnow(session, args);
}

void ClientUnpause(Session& session, ClientArgs /*args*/) {
  session.front().set().Unpause();
  session.out().Simple("OK");
}

void ClientUnblock(Session& session, ClientArgs args) {
  int64_t id = 0;
  if (args.size() > 4) {
    session.out().Error(WrongArguments(args[1]));
  } else if (args.size() == 4 && !EqualsIgnoreCase(args[3], "timeout") &&
             !EqualsIgnoreCase(args[3], "error")) {
    session.out().Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
  } else if (!ParseInt64(args[2], &id)) {
    session.out().Error(kErrNotInteger);
  } else {
    session.Gather(args, &AskUnblock, &MergeUnblock);
  }
}

}  // namespace kvstored::command
