#include "metrics/registry.h"

#include <utility>

namespace kvstored::metrics {

Registry::SourceId Registry::Add(Source source) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const SourceId id = next_id_++;
  sources_.emplace(id, std::move(source));
  return id;
}

void Registry::Remove(SourceId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sources_.erase(id);
}

Collection Registry::Collect() {
  Collection collection;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, source] : sources_) {
    source(&collection);
  }
  return collection;
}

}  // namespace kvstored::metrics
