// Watched keys that were absent (or expired) at WATCH. Whether one came into being and went again
// cannot be read from the store afterwards, so it is noted when it goes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kvstored/types.h"
#include "store/store.h"

namespace kvstored::shard {

struct AbsentWatch {
  std::string key;
  Digest digest;
  Seq since = 0;         // `applied` at WATCH: an item with a higher seq came into being later
  bool touched = false;  // such an item was there and is gone
};

// Shard-local; only the handles that Add() gives out may be dropped on any thread, which ends the
// watch. What is left of ended ones is swept when as many again have been added.
class AbsentWatches {
 public:
  std::shared_ptr<AbsentWatch> Add(const Key& key, Seq since);
  // The item of `key`, which has `seq`, is about to go.
  void OnRemoval(const Key& key, Seq seq) {
    if (!watches_.empty()) {
      NoteRemoval(key, seq);
    }
  }
  // All items are about to go.
  void OnFlush(const store::Store& store);
  // Nothing is known any more.
  void TouchAll();
  // Ended ones that were not swept yet included.
  size_t size() const {
    return count_;
  }

 private:
  using Watches = std::vector<std::weak_ptr<AbsentWatch>>;
  void NoteRemoval(const Key& key, Seq seq);
  void Sweep();
  static uint64_t IndexOf(const Digest& digest) {
    return digest.high ^ digest.low;
  }

  absl::flat_hash_map<uint64_t, Watches> watches_;
  size_t count_ = 0;  // ended ones included
  size_t sweep_at_ = kSweepMin;
  static constexpr size_t kSweepMin = 64;
};

}  // namespace kvstored::shard
