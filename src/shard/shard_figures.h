// What a shard shows to other threads: published by its tick a few times a second, so that a scrape
// asks no shard thread for anything.
#pragma once

#include <array>
#include <cstdint>

#include "memory/slab.h"
#include "metrics/slot.h"

namespace kvstored::shard {

struct ShardFigures {
  metrics::Gauge keys;
  metrics::Gauge expiring_keys;
  metrics::Gauge keyspace_hits;
  metrics::Gauge keyspace_misses;
  metrics::Gauge expired_keys;
  metrics::Gauge evicted_keys;
  metrics::Gauge item_bytes;   // slots of items and chains in use
  metrics::Gauge index_bytes;  // slots of the index
  // By size class of slots: what its slabs take, what of that is in use, what was asked for.
  struct Class {
    metrics::Gauge slab_bytes;
    metrics::Gauge used_bytes;
    metrics::Gauge requested_bytes;
  };
  std::array<Class, memory::kSlotClassCount> classes;
};

}  // namespace kvstored::shard
