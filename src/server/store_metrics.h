// The data set's figures for Prometheus: keys, hits, memory and its waste by size class.
#pragma once

#include "metrics/snapshot.h"
#include "shard/shard_thread.h"

namespace kvstored::server {

// Thread-safe. Figures are those of the last tenth of a second.
void CollectStore(shard::ThreadSet* threads, metrics::Collection* out);

}  // namespace kvstored::server
