// Registry: who has metrics to give. Parts register a source at start and take it back before they
// die.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "metrics/snapshot.h"

namespace kvstored::metrics {

// Thread-safe. Sources run on the collecting thread (HTTP, INFO) and may only read slots and
// atomics.
class Registry {
 public:
  using Source = std::function<void(Collection* collection)>;
  using SourceId = uint64_t;

  SourceId Add(Source source);
  // On return the source is not running and never will again.
  void Remove(SourceId id);
  Collection Collect();

 private:
  std::mutex mutex_;
  std::map<SourceId, Source> sources_;
  SourceId next_id_ = 1;
};

}  // namespace kvstored::metrics
