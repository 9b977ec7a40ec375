// MEMORY without a key: DOCTOR HELP STATS.
#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "command/numbers.h"
#include "command/server_commands.h"
#include "command/session.h"
#include "command/subcommand.h"

namespace kvstored::command {
namespace {

// Below it, ratios say nothing.
constexpr uint64_t kSmallBytes = uint64_t{64} << 20;

uint64_t SpareBytes(const NodeApi::MemoryFacts& facts) {
  return facts.slab_bytes - std::min(facts.slab_bytes, facts.slab_used_bytes);
}

double Percentage(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// The names that Redis has for it, where there is the same thing; then our own.
void MemoryStats(resp::Writer& out, const NodeApi::MemoryFacts& facts) {
  const auto integer = [&out](std::string_view name, uint64_t value) {
    out.Bulk(name);
    out.Integer(static_cast<int64_t>(value));
  };
  out.Map(17);
  integer("peak.allocated", facts.peak_bytes);
  integer("total.allocated", facts.used_bytes);
  out.Bulk("db.0");
  out.Map(1);
  integer("overhead.hashtable.main", facts.index_bytes);
  integer("overhead.total", facts.used_bytes - std::min(facts.used_bytes, facts.item_bytes));
  integer("keys.count", facts.key_count);
  integer("keys.bytes-per-key", facts.key_count == 0 ? 0 : facts.used_bytes / facts.key_count);
  integer("dataset.bytes", facts.item_bytes);
  out.Bulk("dataset.percentage");
  out.Double(Percentage(facts.item_bytes, facts.used_bytes));
  out.Bulk("peak.percentage");
  out.Double(Percentage(facts.used_bytes, facts.peak_bytes));
  integer("allocator.allocated", facts.slab_used_bytes);
  integer("allocator.active", facts.pool_used_bytes);
  integer("allocator.resident", facts.pool_mapped_bytes);
  integer("resident.bytes", facts.resident_bytes);
  integer("max.bytes", facts.max_bytes);
  integer("index.bytes", facts.index_bytes);
  integer("slab.free.bytes", SpareBytes(facts));
  integer("slot.waste.bytes", facts.slot_waste_bytes);
}

// One line a finding: what was seen, and what helps.
std::string Diagnosis(const NodeApi::MemoryFacts& facts) {
  std::string text;
  if (facts.used_bytes > facts.max_bytes / 10 * 9 && !facts.evicts) {
    text += absl::StrFormat(
        "* %u of %u bytes (memory.max_memory) are in use and nothing is evicted: writes are about "
        "to get -OOM. Raise memory.max_memory, delete keys, or choose a policy in "
        "memory.eviction.\n",
        facts.used_bytes, facts.max_bytes);
  }
  if (SpareBytes(facts) > kSmallBytes && SpareBytes(facts) > facts.slab_bytes / 4) {
    text += absl::StrFormat(
        "* %u of %u bytes of slabs hold nothing: many keys were deleted, or sizes changed. Items "
        "are being moved together; this figure should fall by itself.\n",
        SpareBytes(facts), facts.slab_bytes);
  }
  if (facts.resident_bytes > kSmallBytes * 2 &&
      facts.resident_bytes > facts.pool_mapped_bytes + facts.pool_mapped_bytes / 2) {
    text += absl::StrFormat(
        "* %u bytes are resident, %u of them in the pool: buffers of clients, of the log or of "
        "replicas take the rest. See CLIENT LIST and INFO replication.\n",
        facts.resident_bytes, facts.pool_mapped_bytes);
  }
  return text.empty() ? "No memory issue was found.\n" : text;
}

}  // namespace

void HandleMemoryWithoutKey(Session& session, std::span<const std::string_view> args) {
  if (EqualsIgnoreCase(args[1], "stats")) {
    MemoryStats(session.out(), session.node().MemoryNow());
  } else if (EqualsIgnoreCase(args[1], "doctor")) {
    session.out().Verbatim(Diagnosis(session.node().MemoryNow()));
  } else {
    WriteHelp(session.out(), "MEMORY",
              {"DOCTOR", "    Return memory problems reports.", "STATS",
               "    Return information about the memory usage of the server.",
               "USAGE <key> [SAMPLES <count>]",
               "    Return memory in bytes used by <key> and its value. Nested values are",
               "    sampled up to <count> times (default: 5, 0 means sample all)."});
  }
}

}  // namespace kvstored::command
