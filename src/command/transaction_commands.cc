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

constexpr uint32_t kTransactionFlags = kFlagNoScript | kFlagLoading | kFlagStale | kFlagFast;

// EXEC and WATCH have no handler of their own: the session runs them (Session::RunSession).
constexpr std::array<CommandSpec, 5> kTransactionCommands = {
    CommandSpec{"multi", 1, kTransactionFlags | kFlagNoMulti, 0, 0, 0, Reach::kSession, nullptr,
                &HandleMulti},
    CommandSpec{"exec", 1, kTransactionFlags, 0, 0, 0, Reach::kSession, nullptr, nullptr},
    CommandSpec{"discard", 1, kTransactionFlags, 0, 0, 0, Reach::kSession, nullptr, &HandleDiscard},
    CommandSpec{"watch", -2, kTransactionFlags | kFlagNoMulti, 1, -1, 1, Reach::kSession, nullptr,
                nullptr},
    CommandSpec{"unwatch", 1, kTransactionFlags, 0, 0, 0, Reach::kSession, nullptr, &HandleUnwatch},
};

}  // namespace

std::span<const CommandSpec> TransactionCommands() {
  return kTransactionCommands;
}

}  // namespace kvstored::command
