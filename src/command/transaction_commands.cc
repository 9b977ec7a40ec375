// MULTI, EXEC, DISCARD, WATCH, UNWATCH.
#include <array>
#include <string_view>

#include "command/command.h"
#include "command/session.h"

namespace kvstored::command {
namespace {

void HandleMulti(Session& session, std::span<const std::string_view> /*args*/) {
  if (session.in_multi()) {
    session.out().Error("ERR MULTI calls can not be nested");
    return;
  }
  session.BeginMulti();
  session.out().Simple("OK");
}

void HandleDiscard(Session& session, std::span<const std::string_view> /*args*/) {
  if (!session.in_multi()) {
    session.out().Error("ERR DISCARD without MULTI");
    return;
  }
  session.DiscardMulti();
  session.out().Simple("OK");
}

void HandleUnwatch(Session& session, std::span<const std::string_view> /*args*/) {
  session.Unwatch();
  session.out().Simple("OK");
}

constexpr uint32_t kFlags = kFlagNoScript | kFlagLoading | kFlagStale | kFlagFast;

// EXEC and WATCH have no handler of their own: the session runs them (Session::RunSession).
constexpr std::array<CommandSpec, 5> kCommands = {
    CommandSpec{"multi", 1, kFlags | kFlagNoMulti, 0, 0, 0, Reach::kSession, nullptr, &HandleMulti},
    CommandSpec{"exec", 1, kFlags, 0, 0, 0, Reach::kSession, nullptr, nullptr},
    CommandSpec{"discard", 1, kFlags, 0, 0, 0, Reach::kSession, nullptr, &HandleDiscard},
    CommandSpec{"watch", -2, kFlags | kFlagNoMulti, 1, -1, 1, Reach::kSession, nullptr, nullptr},
    CommandSpec{"unwatch", 1, kFlags, 0, 0, 0, Reach::kSession, nullptr, &HandleUnwatch},
};

}  // namespace

std::span<const CommandSpec> TransactionCommands() {
  return kCommands;
}

}  // namespace kvstored::command
