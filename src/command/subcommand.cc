#include "command/subcommand.h"

#include "command/numbers.h"

namespace kvstored::command {
namespace {

constexpr Subcommand kSubcommands[] = {
    {"client", "caching", 3},
    {"client", "getname", 2},
    {"client", "getredir", 2},
    {"client", "help", 2},
    {"client", "id", 2},
    {"client", "info", 2},
    {"client", "kill", -3},
    {"client", "list", -2},
    {"client", "no-evict", 3},
    {"client", "no-touch", 3},
    {"client", "pause", -3},
    {"client", "reply", 3},
    {"client", "setinfo", 4},
    {"client", "setname", 3},
    {"client", "tracking", -3},
    {"client", "trackinginfo", 2},
    {"client", "unblock", -3},
    {"client", "unpause", 2},
    {"cluster", "addslots", -3},
    {"cluster", "addslotsrange", -4},
    {"cluster", "bumpepoch", 2},
    {"cluster", "count-failure-reports", 3},
    {"cluster", "countkeysinslot", 3},
    {"cluster", "delslots", -3},
    {"cluster", "delslotsrange", -4},
    {"cluster", "failover", -2},
    {"cluster", "flushslots", 2},
    {"cluster", "forget", 3},
    {"cluster", "getkeysinslot", 4},
    {"cluster", "help", 2},
    {"cluster", "info", 2},
    {"cluster", "keyslot", 3},
    {"cluster", "links", 2},
    {"cluster", "meet", -4},
    {"cluster", "myid", 2},
    {"cluster", "nodes", 2},
    {"cluster", "replicas", 3},
    {"cluster", "replicate", 3},
    {"cluster", "reset", -2},
    {"cluster", "saveconfig", 2},
    {"cluster", "set-config-epoch", 3},
    {"cluster", "setslot", -4},
    {"cluster", "shards", 2},
    {"cluster", "slaves", 3},
    {"cluster", "slots", 2},
    {"command", "count", 2},
    {"command", "docs", -2},
    {"command", "getkeys", -4},
    {"command", "getkeysandflags", -4},
    {"command", "help", 2},
    {"command", "info", -2},
    {"command", "list", -2},
    {"config", "get", -3},
    {"config", "help", 2},
    {"config", "resetstat", 2},
    {"config", "rewrite", 2},
    {"config", "set", -4},
    {"latency", "doctor", 2},
    {"latency", "graph", 3},
    {"latency", "help", 2},
    {"latency", "histogram", -2},
    {"latency", "history", 3},
    {"latency", "latest", 2},
    {"latency", "reset", -2},
    {"memory", "doctor", 2},
    {"memory", "help", 2},
    {"memory", "stats", 2},
    {"memory", "usage", -3},
    {"object", "encoding", 3},
    {"object", "freq", 3},
    {"object", "help", 2},
    {"object", "idletime", 3},
    {"object", "refcount", 3},
    {"slowlog", "get", -2},
    {"slowlog", "help", 2},
    {"slowlog", "len", 2},
    {"slowlog", "reset", 2},
};

}  // namespace

std::span<const Subcommand> Subcommands() {
  return kSubcommands;
}

std::string FullName(const Subcommand& subcommand) {
  return std::string(subcommand.command).append("|").append(subcommand.name);
}

const Subcommand* FindSubcommand(std::string_view command, std::string_view name) {
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.command == command && EqualsIgnoreCase(name, subcommand.name)) {
      return &subcommand;
    }
  }
  return nullptr;
}

std::string SubcommandRefusal(std::string_view command, std::span<const std::string_view> args) {
  if (args.size() < 2) {
    return {};
  }
  if (const Subcommand* subcommand = FindSubcommand(command, args[1]); subcommand != nullptr) {
    return IsArity(subcommand->arity, args.size())
               ? std::string()
               : "ERR wrong number of arguments for '" + FullName(*subcommand) + "' command";
  }
  std::string upper(command);
  for (char& c : upper) {
    c = static_cast<char>(c - 'a' + 'A');
  }
  const std::string_view word = UpToNul(args[1]).substr(0, kEchoedBytesMax);
  std::string text = "ERR unknown subcommand '";
  return text.append(word).append("'. Try ").append(upper).append(" HELP.");
}

void WriteHelp(resp::Writer& out, std::string_view command,
               std::initializer_list<std::string_view> lines) {
  std::string head(command);
  head += " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:";
  out.Array(lines.size() + 3);
  out.Simple(head);
  for (std::string_view line : lines) {
    out.Simple(line);
  }
  out.Simple("HELP");
  out.Simple("    Prints this help.");
}

}  // namespace kvstored::command
