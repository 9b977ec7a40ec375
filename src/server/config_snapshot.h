// The configuration in force: an immutable object that CONFIG SET replaces as a whole.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "server/config.h"

namespace kvstored::server {

// Thread-safe. Whoever reads several keys that belong together takes one Get() for all of them.
class ConfigSnapshot {
 public:
  explicit ConfigSnapshot(Config config)
      : current_(std::make_shared<const Config>(std::move(config))) {
  }
  std::shared_ptr<const Config> Get() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  // What was read before stays as it was for whoever holds it.
  void Set(Config next) {
    auto fresh = std::make_shared<const Config>(std::move(next));
    const std::lock_guard lock(mutex_);
    current_.swap(fresh);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Config> current_;
};

}  // namespace kvstored::server
