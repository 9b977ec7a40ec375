#include "server/store_metrics.h"

#include <algorithm>
#include <string>

namespace kvstored::server {
namespace {

// Samples of equal labels are added up over the shards.
void CollectShard(const shard::ShardFigures& figures, metrics::Collection* out) {
  const auto gauge = [out](const char* name, const char* help, const metrics::Gauge& value) {
    out->AddGauge(name, help, static_cast<double>(value.value()));
  };
  const auto counter = [out](const char* name, const char* help, const metrics::Gauge& value) {
    out->AddCounter(name, help, static_cast<double>(value.value()));
  };
  gauge("kvstored_keys", "Keys, expired ones that were not removed yet included.", figures.keys);
  gauge("kvstored_expiring_keys", "Keys with an expiry.", figures.expiring_keys);
  counter("kvstored_keyspace_hits_total", "Lookups that found their key.", figures.keyspace_hits);
  counter("kvstored_keyspace_misses_total", "Lookups that did not.", figures.keyspace_misses);
  counter("kvstored_expired_keys_total", "Keys removed because they expired.",
          figures.expired_keys);
  counter("kvstored_evicted_keys_total", "Keys removed for memory (memory.eviction).",
          figures.evicted_keys);
  gauge("kvstored_item_bytes", "Memory of items, keys and values.", figures.item_bytes);
  gauge("kvstored_index_bytes", "Memory of the index.", figures.index_bytes);
  for (uint32_t slot_class = 1; slot_class < memory::kSlotClassCount; ++slot_class) {
    const shard::ShardFigures::Class& figure = figures.classes[slot_class];
    const uint64_t slab_bytes = figure.slab_bytes.value();
    if (slab_bytes == 0) {
      continue;
    }
    const uint64_t used_bytes = figure.used_bytes.value();
    const metrics::Labels labels = {
        {"slot_bytes", std::to_string(memory::SlotClassBytes(slot_class))}};
    out->AddGauge("kvstored_slab_bytes", "Memory of slabs, by the size of their slots.",
                  static_cast<double>(slab_bytes), labels);
    out->AddGauge("kvstored_slab_free_bytes", "Of it, in slots that hold nothing.",
                  static_cast<double>(slab_bytes - std::min(slab_bytes, used_bytes)), labels);
    out->AddGauge(
        "kvstored_slab_waste_bytes", "Of it, in slots beyond what they were asked for.",
        static_cast<double>(used_bytes - std::min(used_bytes, figure.requested_bytes.value())),
        labels);
  }
}

}  // namespace

void CollectStore(shard::ThreadSet* threads, metrics::Collection* out) {
  for (uint32_t i = 0; i < threads->thread_count(); ++i) {
    for (const auto& shard : threads->thread(i)->shards()) {
      CollectShard(shard->figures(), out);
    }
  }
}

}  // namespace kvstored::server
