// INFO: headings and order as Redis prints them, since exporters parse by heading. The lines of a
// section: the front's figures, the node's facts (NodeApi::InfoSection), those of the shards.
#include <algorithm>
#include <string>
#include <vector>

#include "command/front_thread.h"
#include "command/numbers.h"
#include "command/part_codec.h"
#include "command/server_commands.h"
#include "command/session.h"

namespace kvstored::command {
namespace {

struct Section {
  std::string_view name;
  std::string_view heading;
  bool in_default;
};
// In the order of Redis 7.0.
constexpr Section kSections[] = {
    {"server", "# Server", true},
    {"clients", "# Clients", true},
    {"memory", "# Memory", true},
    {"persistence", "# Persistence", true},
    {"stats", "# Stats", true},
    {"replication", "# Replication", true},
    {"cpu", "# CPU", true},
    {"modules", "# Modules", true},
    {"commandstats", "# Commandstats", false},
    {"errorstats", "# Errorstats", true},
    {"latencystats", "# Latencystats", false},
    {"cluster", "# Cluster", true},
    {"keyspace", "# Keyspace", true},
};

bool IsWanted(const Section& section, std::span<const std::string_view> words) {
  if (words.empty()) {
    return section.in_default;
  }
  return std::any_of(words.begin(), words.end(), [&section](std::string_view word) {
    return EqualsIgnoreCase(word, section.name) || EqualsIgnoreCase(word, "everything") ||
           EqualsIgnoreCase(word, "all") ||
           (EqualsIgnoreCase(word, "default") && section.in_default);
  });
}

// Figures of all shards together.
struct ShardFigures {
  uint64_t keys = 0;
  uint64_t expiring = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t expired = 0;
  uint64_t evicted = 0;
};

std::string LinesOf(std::string_view section, const ShardFigures& figures) {
  if (section == "stats") {
    return InfoLine("expired_keys", std::to_string(figures.expired)) +
           InfoLine("evicted_keys", std::to_string(figures.evicted)) +
           InfoLine("keyspace_hits", std::to_string(figures.hits)) +
           InfoLine("keyspace_misses", std::to_string(figures.misses));
  }
  if (section == "cluster") {
    return InfoLine("cluster_enabled", "0");
  }
  if (section == "keyspace" && figures.keys > 0) {
    return InfoLine("db0", "keys=" + std::to_string(figures.keys) +
                               ",expires=" + std::to_string(figures.expiring) + ",avg_ttl=0");
  }
  return {};
}

}  // namespace

std::string InfoLine(std::string_view name, std::string_view value) {
  std::string line(name);
  return line.append(":").append(value).append("\r\n");
}

OpResult PartInfo(PartCall& call) {
  const store::StoreCounters& store = call.shard->store()->counters();
  const shard::ShardCounters& shard = call.shard->counters();
  PutNumber(call.part, store.item_count);
  PutNumber(call.part, store.expiring_count);
  PutNumber(call.part, shard.keyspace_hits);
  PutNumber(call.part, shard.keyspace_misses);
  PutNumber(call.part, shard.expired_keys);
  PutNumber(call.part, shard.evicted_keys);
  return OpResult::kOk;
}

void MergeInfo(Session& session, std::span<const std::string_view> args,
               std::span<const std::string> parts) {
  ShardFigures figures;
  for (const std::string& part : parts) {
    PartReader reader(part);
    figures.keys += reader.Number();
    figures.expiring += reader.Number();
    figures.hits += reader.Number();
    figures.misses += reader.Number();
    figures.expired += reader.Number();
    figures.evicted += reader.Number();
  }
  std::string text;
  for (const Section& section : kSections) {
    if (!IsWanted(section, args.subspan(1))) {
      continue;
    }
    if (!text.empty()) {
      text += "\r\n";
    }
    text.append(section.heading).append("\r\n");
    text += session.front().set().InfoSection(section.name);
    text += session.node().InfoSection(section.name);
    text += LinesOf(section.name, figures);
  }
  session.out().Verbatim(text);
}

}  // namespace kvstored::command
