// A store over a pool of its own, with keys given as text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "memory/region_pool.h"
#include "store/store.h"

namespace kvstored::store {

class StoreFixture {
 public:
  explicit StoreFixture(uint64_t pool_bytes = uint64_t{2} << 30)
      : pool_({.max_bytes = pool_bytes, .head_room_bytes = kChunkBytes}),
        digester_(Id128{{1, 2, 3}}),
        store_(std::make_unique<Store>(&pool_, &digester_)) {
  }

  memory::RegionPool& pool() {
    return pool_;
  }
  const base::Digester& digester() const {
    return digester_;
  }
  Store& store() {
    return *store_;
  }
  void DestroyStore() {
    store_.reset();
  }
  Key KeyOf(std::string_view bytes) const {
    return {.bytes = bytes, .digest = digester_.Of(bytes)};
  }
  OpResult Put(std::string_view key, std::string_view value, uint64_t expiry_ms, Seq seq) {
    return store_->Put(KeyOf(key), value, expiry_ms, seq);
  }
  const Item* Find(std::string_view key) {
    return store_->Find(KeyOf(key));
  }
  bool Erase(std::string_view key) {
    return store_->Erase(KeyOf(key));
  }
  void DrainStore() {
    while (store_->Tick(0)) {
    }
  }

 private:
  memory::RegionPool pool_;
  base::Digester digester_;
  std::unique_ptr<Store> store_;
};

template <typename Visit>
void ScanAll(const Store& store, uint32_t count, Visit visit) {
  uint64_t cursor = 0;
  do {
    cursor = store.Scan(
        cursor, count,
        [](void* context, const Item& item) { (*static_cast<Visit*>(context))(item); }, &visit);
  } while (cursor != 0);
}

inline std::string ValueOf(const Item& item) {
  std::string value(item.value_bytes(), '?');
  item.CopyTo(0, value.data(), value.size());
  return value;
}

}  // namespace kvstored::store
