// What the node tells of its memory: INFO memory, MEMORY STATS and DOCTOR.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "server/node.h"
#include "server/report_text.h"

namespace kvstored::server {
namespace {

constexpr uint64_t kSmallBytes = uint64_t{64} << 20;

}  // namespace

command::NodeApi::MemoryFacts Node::MemoryNow() {
  MemoryFacts facts;
  const memory::PoolCounters pool = core_->pool.counters();
  facts.used_bytes = static_cast<uint64_t>(std::max<int64_t>(core_->pool.charged_bytes(), 0));
  facts.peak_bytes = std::max(core_->pool.peak_bytes(), facts.used_bytes);
  facts.max_bytes = core_->pool.max_bytes();
  facts.resident_bytes = ResidentBytes();
  facts.pool_mapped_bytes = pool.mapped_bytes;
  facts.pool_used_bytes = pool.used_bytes;
  facts.evicts = core_->gate.eviction.load(std::memory_order_relaxed) != 0;
  for (uint32_t i = 0; i < core_->threads->thread_count(); ++i) {
    for (const auto& shard : core_->threads->thread(i)->shards()) {
      const shard::ShardFigures& figures = shard->figures();
      facts.key_count += figures.keys.value();
      facts.item_bytes += figures.item_bytes.value();
      facts.index_bytes += figures.index_bytes.value();
      for (const shard::ShardFigures::Class& figure : figures.classes) {
        const uint64_t used_bytes = figure.used_bytes.value();
        facts.slab_bytes += figure.slab_bytes.value();
        facts.slab_used_bytes += used_bytes;
        facts.slot_waste_bytes += used_bytes - std::min(used_bytes, figure.requested_bytes.value());
      }
    }
  }
  return facts;
}

std::string Node::InfoMemory() {
  const MemoryFacts facts = MemoryNow();
  const auto line = [](std::string_view name, uint64_t value) {
    return command::InfoLine(name, std::to_string(value));
  };
  const auto human = [](std::string_view name, uint64_t value) {
    return command::InfoLine(name, HumanBytes(value));
  };
  // Of a small data set the ratio says only how small it is
  // (https://github.com/redis/redis/issues/13612).
  const double ratio = facts.used_bytes < kSmallBytes ? 1.0
                                                      : static_cast<double>(facts.resident_bytes) /
                                                            static_cast<double>(facts.used_bytes);
  return line("used_memory", facts.used_bytes) + human("used_memory_human", facts.used_bytes) +
         line("used_memory_rss", facts.resident_bytes) +
         human("used_memory_rss_human", facts.resident_bytes) +
         line("used_memory_peak", facts.peak_bytes) +
         human("used_memory_peak_human", facts.peak_bytes) +
         line("used_memory_dataset", facts.item_bytes) + line("maxmemory", facts.max_bytes) +
         human("maxmemory_human", facts.max_bytes) +
         command::InfoLine("maxmemory_policy", core_->config.Get()->memory.eviction) +
         command::InfoLine("mem_fragmentation_ratio", absl::StrFormat("%.2f", ratio)) +
         command::InfoLine("mem_allocator", "slab") +
         line("pool_mapped_bytes", facts.pool_mapped_bytes) +
         line("pool_used_bytes", facts.pool_used_bytes) + line("index_bytes", facts.index_bytes) +
         line("slab_free_bytes",
              facts.slab_bytes - std::min(facts.slab_bytes, facts.slab_used_bytes)) +
         line("slot_waste_bytes", facts.slot_waste_bytes);
}

}  // namespace kvstored::server
