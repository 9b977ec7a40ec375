// kvctl: the operator's tool. Talks RESP to a node's front port: KVSTORED with words, answered by
// JSON. Exit 0: done; 1: refused or failed; 2: the command line is wrong, nobody was asked. The
// reason is one line on standard error.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "kvctl/client.h"
#include "kvctl/files.h"
#include "kvctl/table.h"
#include "server/command_line.h"
#include "server/config_text.h"
#include "server/control_request.h"

namespace {

using kvstored::kvctl::Client;
using kvstored::server::ControlRequest;
using Verb = ControlRequest::Verb;

constexpr int kExitFailed = 1;

struct Settings {
  Client::Options client;
  bool json = false;
  std::string file;
  uint32_t ack_replicas = 0;
  ControlRequest request;
};

int Report(const absl::Status& status) {
  if (status.ok()) {
    return 0;
  }
  std::fprintf(stderr, "kvctl: %s\n", std::string(status.message()).c_str());
  return kExitFailed;
}

// Operations without facts to tell answer "OK": whoever parses gets an object all the same.
std::string JsonText(const std::string& reply) {
  return nlohmann::json::accept(reply) ? reply : nlohmann::json{{"result", reply}}.dump();
}

// For CLI11: empty, or what is wrong.
std::string JudgeAddress(const std::string& text) {
  return kvstored::server::IsHostAndPort(text) ? ""
                                               : absl::StrFormat("'%s' is not HOST:PORT", text);
}

int CallNode(const Settings& settings) {
  absl::StatusOr<Client> client = Client::Connect(settings.client);
  if (!client.ok()) {
    return Report(client.status());
  }
  std::vector<std::string> words = kvstored::server::ControlWords(settings.request);
  words.insert(words.begin(), "KVSTORED");
  const absl::StatusOr<std::string> reply = client->Call(words);
  if (!reply.ok()) {
    return Report(reply.status());
  }
  const std::string text =
      settings.json ? JsonText(*reply) + "\n" : kvstored::kvctl::HumanText(*reply);
  std::fputs(text.c_str(), stdout);
  return 0;
}

// A subcommand that sends one request.
CLI::App* AddVerb(CLI::App* parent, const char* name, const char* help, Verb verb,
                  Settings* settings) {
  CLI::App* app = parent->add_subcommand(name, help);
  app->callback([settings, verb] { settings->request.verb = verb; });
  return app;
}

void AddNodeCommands(CLI::App* app, Settings* settings) {
  ControlRequest* request = &settings->request;
  AddVerb(app, "status", "Roles, members, lag, watermarks, memory", Verb::kStatus, settings);
  AddVerb(app, "checkpoint", "Write a checkpoint and wait for it", Verb::kCheckpoint, settings);

  CLI::App* promote =
      AddVerb(app, "promote", "Make this node the primary", Verb::kPromote, settings);
  promote
      ->add_option_function<uint32_t>(
          "--ack-replicas", [request](const uint32_t& count) { request->ack_replicas = count; },
          "Members that must acknowledge each write from now on")
      ->check(CLI::Range(0, 8));
  promote->add_flag("--accept-loss", request->accept_loss,
                    "Even if acknowledged writes may be missing here");

  CLI::App* demote =
      AddVerb(app, "demote", "Drain, then give up the role of primary", Verb::kDemote, settings);
  demote
      ->add_option("ADDRESS", request->address,
                   "host:port of the next primary's replication port, if it is known")
      ->check(JudgeAddress);

  CLI::App* member = app->add_subcommand("member", "The set of replicas that must acknowledge");
  member->require_subcommand(1);
  AddVerb(member, "list", "Show the members", Verb::kMemberList, settings);
  CLI::App* replace = AddVerb(member, "replace", "Put another replica in a member's place",
                              Verb::kMemberReplace, settings);
  CLI::App* drop =
      AddVerb(member, "drop", "Take a member out of the set", Verb::kMemberDrop, settings);
  for (CLI::App* command : {replace, drop}) {
    command->add_option("MEMBER", request->member, "Its store id or address")->required();
    command->add_flag("--force", request->force,
                      "Though it cannot be told; it must then never be promoted");
  }
  replace->add_option("NEW-MEMBER", request->new_member, "Store id or address")->required();

  CLI::App* join = AddVerb(app, "join", "Follow another primary", Verb::kJoin, settings);
  join->add_option("ADDRESS", request->address, "host:port of its replication port")
      ->required()
      ->check(JudgeAddress);
  join->add_flag("--discard-local-data", request->discard_local_data,
                 "Give up what this node holds and take everything from there");
}

void AddFileCommands(CLI::App* app, Settings* settings, std::function<int()>* action) {
  using kvstored::kvctl::CheckConfig;
  using kvstored::kvctl::DumpLog;
  using kvstored::kvctl::PrintConfigReference;
  using kvstored::kvctl::VerifyLog;
  CLI::App* config = app->add_subcommand("config", "Configuration files");
  config->require_subcommand(1);
  CLI::App* check = config->add_subcommand("check", "Check a file as the server would");
  check->add_option("FILE", settings->file)->required();
  check->callback([=] {
    *action = [=] {
      return Report(CheckConfig(settings->file, settings->json));
    };
  });
  config->add_subcommand("reference", "Print every key with its default")->callback([=] {
    *action = [=] {
      PrintConfigReference(settings->json);
      return 0;
    };
  });

  CLI::App* log = app->add_subcommand("log", "Segments and checkpoints on disk");
  log->require_subcommand(1);
  CLI::App* dump = log->add_subcommand("dump", "Print frames and records");
  CLI::App* verify = log->add_subcommand("verify", "Check every checksum");
  for (CLI::App* command : {dump, verify}) {
    command->add_option("FILE", settings->file)->required();
  }
  dump->callback([=] {
    *action = [=] {
      return Report(DumpLog(settings->file, settings->json));
    };
  });
  verify->callback([=] {
    *action = [=] {
      return Report(VerifyLog(settings->file, settings->json));
    };
  });
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  settings.client.host = "127.0.0.1";
  settings.client.port = 7379;
  settings.client.timeout_seconds = 300;
  std::function<int()> action = [&settings] {
    return CallNode(settings);
  };

  CLI::App app("kvctl: operate kvstored nodes");
  app.set_version_flag("--version", KVS_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--host", settings.client.host, "The node's address")->capture_default_str();
  app.add_option("--port", settings.client.port, "The node's front port")->capture_default_str();
  app.add_option("--password-file", settings.client.password_file, "File with the password");
  app.add_option("--timeout", settings.client.timeout_seconds, "Seconds to wait for the answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  app.add_flag("--json", settings.json, "Print JSON; errors stay text on standard error");
  AddNodeCommands(&app, &settings);
  AddFileCommands(&app, &settings, &action);
  const std::optional<int> ended = kvstored::server::ParseCommandLine("kvctl", &app, argc, argv);
  return ended ? *ended : action();
}
