#include "store/item.h"

#include <cstring>

#include "base/check.h"
#include "store/item_layout.h"

namespace kvstored::store {

Seq Item::seq() const {
  return ItemLayout::Of(*this).seq();
}

uint64_t Item::expiry_ms() const {
  return ItemLayout::Of(*this).expiry_ms();
}

std::string_view Item::key() const {
  return ItemLayout::Of(*this).key();
}

uint64_t Item::value_bytes() const {
  return ItemLayout::Of(*this).value_bytes();
}

bool Item::is_chain() const {
  return ItemLayout::Of(*this).is_chain();
}

std::string_view Item::value() const {
  const ItemLayout& layout = ItemLayout::Of(*this);
  KVS_CHECK(!layout.is_chain(), "value_bytes=%llu",
            static_cast<unsigned long long>(layout.value_bytes()));
  return {layout.bytes() + layout.key_offset() + layout.key_bytes(), layout.value_bytes()};
}

ChainRef Item::chain() const {
  const ItemLayout& layout = ItemLayout::Of(*this);
  KVS_CHECK(layout.is_chain(), "value_bytes=%llu",
            static_cast<unsigned long long>(layout.value_bytes()));
  layout.chain()->Retain();
  return ChainRef(layout.chain(), layout.value_bytes());
}

void Item::CopyTo(uint64_t offset, char* out, uint64_t out_bytes) const {
  const ItemLayout& layout = ItemLayout::Of(*this);
  KVS_CHECK(offset <= layout.value_bytes() && out_bytes <= layout.value_bytes() - offset,
            "offset=%llu out_bytes=%llu", static_cast<unsigned long long>(offset),
            static_cast<unsigned long long>(out_bytes));
  if (layout.is_chain()) {
    layout.chain()->Read(offset, out, out_bytes);
  } else if (out_bytes != 0) {
    std::memcpy(out, value().data() + offset, out_bytes);
  }
}

}  // namespace kvstored::store
