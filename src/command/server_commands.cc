#include "command/server_commands.h"

#include <utility>
#include <vector>

#include "command/numbers.h"
#include "command/part_codec.h"
#include "command/session.h"
#include "command/subcommand.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

// +OK whatever the operation's own text is.
void FinishWithOk(Session& session, const std::string& /*text*/) {
  session.out().Simple("OK");
}

void FinishBgSave(Session& session, const std::string& /*text*/) {
  session.out().Simple("Background saving started");
}

// The node ends.
void FinishShutdown(Session& session, const std::string& /*text*/) {
  session.out().Simple("OK");
  session.CloseAfterReplies();
}

// JSON for kvctl.
void FinishBulk(Session& session, const std::string& text) {
  session.out().Bulk(text);
}

}  // namespace

void HandleSave(Session& session, std::span<const std::string_view> /*args*/) {
  session.Control({"save"}, &FinishWithOk);
}

void HandleBgSave(Session& session, std::span<const std::string_view> args) {
  if (args.size() > 2 || (args.size() == 2 && !EqualsIgnoreCase(args[1], "schedule"))) {
    session.out().Error(kErrSyntax);
    return;
  }
  session.Control({"bgsave"}, &FinishBgSave);
}

void HandleLastSave(Session& session, std::span<const std::string_view> /*args*/) {
  session.out().Integer(session.node().LastSaveUnixSeconds());
}

void HandleRole(Session& session, std::span<const std::string_view> /*args*/) {
  const NodeApi::RoleFacts facts = session.node().RoleNow();
  resp::Writer& out = session.out();
  if (facts.role == Role::kPrimary) {
    out.Array(3);
    out.Bulk("master");
    out.Integer(static_cast<int64_t>(facts.offset));
    out.Array(facts.replicas.size());
    for (const NodeApi::ReplicaFacts& replica : facts.replicas) {
      out.Array(3);
      out.Bulk(replica.host);
      out.Bulk(std::to_string(replica.port));
      out.Bulk(std::to_string(replica.offset));
    }
    return;
  }
  out.Array(5);
  out.Bulk("slave");
  out.Bulk(facts.primary_host);
  out.Integer(facts.primary_port);
  out.Bulk(facts.link_state);
  out.Integer(static_cast<int64_t>(facts.offset));
}

void HandleReplicaOf(Session& session, std::span<const std::string_view> args) {
  if (EqualsIgnoreCase(args[1], "no") && EqualsIgnoreCase(args[2], "one")) {
    session.Control({"promote"}, &FinishWithOk);
    return;
  }
  int64_t port = 0;
  if (!ParseInt64(args[2], &port) || port < 0 || port > 65535) {
    session.out().Error("ERR Invalid master port");
    return;
  }
  session.Control({"replicaof", std::string(args[1]), std::string(args[2])}, &FinishWithOk);
}

void HandleShutdown(Session& session, std::span<const std::string_view> args) {
  bool nosave = false;
  bool save = false;
  bool abort = false;
  for (std::string_view word : args.subspan(1)) {
    if (EqualsIgnoreCase(word, "nosave")) {
      nosave = true;
    } else if (EqualsIgnoreCase(word, "save")) {
      save = true;
    } else if (EqualsIgnoreCase(word, "abort")) {
      abort = true;
    } else if (!EqualsIgnoreCase(word, "now") && !EqualsIgnoreCase(word, "force")) {
      session.out().Error(kErrSyntax);
      return;
    }
  }
  if ((abort && args.size() > 2) || (save && nosave)) {
    session.out().Error(kErrSyntax);
    return;
  }
  if (abort) {
    session.out().Error("ERR No shutdown in progress.");
    return;
  }
  std::vector<std::string> words = {"shutdown"};
  if (nosave || save) {
    words.emplace_back(nosave ? "nosave" : "save");
  }
  session.Control(std::move(words), &FinishShutdown);
}

void HandleKvstored(Session& session, std::span<const std::string_view> args) {
  std::vector<std::string> words(args.begin() + 1, args.end());
  session.Control(std::move(words), &FinishBulk);
}

void HandleClusterDisabled(Session& session, std::span<const std::string_view> /*args*/) {
  session.out().Error("ERR This instance has cluster support disabled");
}

// Without a key there is only HELP: SubcommandRefusal refused the rest.
void HandleObjectWithoutKey(Session& session, std::span<const std::string_view> /*args*/) {
  WriteHelp(session.out(), "OBJECT",
            {"ENCODING <key>",
             "    Return the kind of internal representation used in order to store the value",
             "    associated with a <key>.", "FREQ <key>",
             "    Return the access frequency index of the <key>. The returned integer is",
             "    proportional to the logarithm of the recent access frequency of the key.",
             "IDLETIME <key>",
             "    Return the idle time of the <key>, that is the approximated number of",
             "    seconds elapsed since the last access to the key.", "REFCOUNT <key>",
             "    Return the number of references of the value associated with the specified",
             "    <key>."});
}

// TIME asks shard 0 for the record clock, so that it agrees with TTL and with record timestamps.
bool PlanTime(Session& /*session*/, std::span<const std::string_view> /*args*/,
              uint32_t /*shard_count*/, int32_t* only_shard) {
  *only_shard = 0;
  return true;
}

OpResult PartTime(PartCall& call) {
  PutNumber(call.part, call.shard->now_us());
  return OpResult::kOk;
}

void MergeTime(Session& session, std::span<const std::string_view> /*args*/,
               std::span<const std::string> parts) {
  const uint64_t now_us = PartReader(parts[0]).Number();
  session.out().Array(2);
  session.out().Bulk(std::to_string(now_us / 1'000'000));
  session.out().Bulk(std::to_string(now_us % 1'000'000));
}

}  // namespace kvstored::command
