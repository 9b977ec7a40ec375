#include "command/watch_commands.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/system_clock.h"
#include "command/front_thread.h"
#include "command/numbers.h"
#include "command/session.h"
#include "command/subcommand.h"

namespace kvstored::command {
namespace {

void WriteSyntaxError(resp::Writer& out, std::string_view command, std::string_view word) {
  std::string text = "ERR unknown subcommand or wrong number of arguments for '";
  text.append(UpToNul(word).substr(0, kEchoedBytesMax)).append("'. Try ").append(command);
  out.Error(text + " HELP.");
}

void SlowLogGet(Session& session, std::span<const std::string_view> args) {
  int64_t count = 10;
  if (args.size() == 3 && (!ParseInt64(args[2], &count) || count < -1)) {
    session.out().Error("ERR count should be greater than or equal to -1");
    return;
  }
  const std::vector<SlowLog::Entry> entries =
      session.front().set().slow_log().Newest(static_cast<size_t>(count));  // -1: all
  resp::Writer& out = session.out();
  out.Array(entries.size());
  for (const SlowLog::Entry& entry : entries) {
    out.Array(6);
    out.Integer(entry.id);
    out.Integer(entry.unix_s);
    out.Integer(entry.us);
    out.Array(entry.words.size());
    for (const std::string& word : entry.words) {
      out.Bulk(word);
    }
    out.Bulk(entry.peer);
    out.Bulk(entry.client_name);
  }
}

bool MayDebug(Session& session) {
  const DebugAccess access =
      session.front().set().settings().debug_access.load(std::memory_order_relaxed);
  const std::string_view peer = session.peer();
  const std::string_view host = peer.substr(0, peer.rfind(':'));
  return access == DebugAccess::kYes ||
         (access == DebugAccess::kLocal && (host == "127.0.0.1" || host == "[::1]"));
}

// The thread stands still, and with it every connection and shard that it has.
void DebugSleep(std::string_view seconds) {
  const double wanted = std::strtod(std::string(seconds).c_str(), nullptr);
  const auto us = static_cast<int64_t>(wanted > 0 ? std::min(wanted, 1e9) * 1e6 : 0);
  base::SleepUs(us);
}

}  // namespace

void HandleSlowLog(Session& session, std::span<const std::string_view> args) {
  const std::string word = ToLower(args[1]);
  SlowLog& log = session.front().set().slow_log();
  if (word == "get" && args.size() > 3) {
    WriteSyntaxError(session.out(), "SLOWLOG", args[1]);
  } else if (word == "get") {
    SlowLogGet(session, args);
  } else if (word == "len") {
    session.out().Integer(static_cast<int64_t>(log.size()));
  } else if (word == "reset") {
    log.Reset();
    session.out().Simple("OK");
  } else {
    WriteHelp(session.out(), "SLOWLOG",
              {"GET [<count>]",
               "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
               "    Entries are made of:",
               "    id, timestamp, time in microseconds, arguments array, client IP and port,",
               "    client name", "LEN", "    Return the length of the slowlog.", "RESET",
               "    Reset the slowlog."});
  }
}

void HandleMonitor(Session& session, std::span<const std::string_view> /*args*/) {
  if (session.in_exec()) {
    session.out().Error("ERR MONITOR isn't allowed for DENY BLOCKING client");
  } else if (!session.is_monitoring()) {  // as in Redis, a second one has no reply
    session.BeginMonitoring();
    session.out().Simple("OK");
  }
}

std::string DebugRefusal(Session& session) {
  return MayDebug(session)
             ? std::string()
             : "ERR DEBUG command not allowed. If the enable-debug-command option is set to "
               "\"local\", you can run it from a local connection, otherwise you need to set this "
               "option in the configuration file, and then restart the server.";
}

void HandleDebug(Session& session, std::span<const std::string_view> args) {
  if (const std::string refusal = DebugRefusal(session); !refusal.empty()) {
    session.out().Error(refusal);
  } else if (args.size() == 3 && EqualsIgnoreCase(args[1], "sleep")) {
    DebugSleep(args[2]);
    session.out().Simple("OK");
  } else if (args.size() == 2 && EqualsIgnoreCase(args[1], "help")) {
    WriteHelp(session.out(), "DEBUG",
              {"SLEEP <seconds>", "    Stop the server for <seconds>. Decimals allowed."});
  } else {
    WriteSyntaxError(session.out(), "DEBUG", args[1]);
  }
}

}  // namespace kvstored::command
