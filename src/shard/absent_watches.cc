#include "shard/absent_watches.h"

#include <algorithm>

namespace kvstored::shard {

std::shared_ptr<AbsentWatch> AbsentWatches::Add(const Key& key, Seq since) {
  if (count_ >= sweep_at_) {
    Sweep();
  }
  auto watch = std::make_shared<AbsentWatch>(
      AbsentWatch{.key = std::string(key.bytes), .digest = key.digest, .since = since});
  watches_[IndexOf(key.digest)].push_back(watch);
  ++count_;
  return watch;
}

void AbsentWatches::NoteRemoval(const Key& key, Seq seq) {
  const auto found = watches_.find(IndexOf(key.digest));
  if (found == watches_.end()) {
    return;
  }
  for (const std::weak_ptr<AbsentWatch>& weak : found->second) {
    if (const std::shared_ptr<AbsentWatch> watch = weak.lock();
        watch != nullptr && seq > watch->since && watch->key == key.bytes) {
      watch->touched = true;
    }
  }
}

void AbsentWatches::OnFlush(const store::Store& store) {
  for (const auto& [index, watches] : watches_) {
    for (const std::weak_ptr<AbsentWatch>& weak : watches) {
      const std::shared_ptr<AbsentWatch> watch = weak.lock();
      if (watch == nullptr) {
        continue;
      }
      const store::Item* item = store.Find({.bytes = watch->key, .digest = watch->digest});
      if (item != nullptr && item->seq() > watch->since) {
        watch->touched = true;
      }
    }
  }
}

void AbsentWatches::TouchAll() {
  for (const auto& [index, watches] : watches_) {
    for (const std::weak_ptr<AbsentWatch>& weak : watches) {
      if (const std::shared_ptr<AbsentWatch> watch = weak.lock(); watch != nullptr) {
        watch->touched = true;
      }
    }
  }
}

void AbsentWatches::Sweep() {
  count_ = 0;
  absl::erase_if(watches_, [this](auto& entry) {
    Watches& watches = entry.second;
    std::erase_if(watches, [](const auto& weak) { return weak.expired(); });
    count_ += watches.size();
    return watches.empty();
  });
  sweep_at_ = std::max(kSweepMin, 2 * count_);
}

}  // namespace kvstored::shard
