#include "command/reply.h"

#include <utility>

#include "kvstored/limits.h"

namespace kvstored::command {

void Reply::AppendValue(const store::Item& item) {
  if (item.is_chain()) {
    AppendChain(item.chain());
  } else {
    resp::Writer(&bytes, 2).Bulk(item.value());
  }
}

void Reply::AppendChain(store::ChainRef chain) {
  const uint64_t value_bytes = chain.size_bytes();
  resp::Writer(&bytes, 2).BulkHeader(value_bytes);
  if (value_bytes >= kChainBytesMin) {
    externals.push_back({bytes.size(), std::move(chain)});
  } else {
    const size_t start = bytes.size();
    bytes.resize(start + value_bytes);
    chain.CopyTo(0, bytes.data() + start, value_bytes);
  }
  bytes.append("\r\n");
}

}  // namespace kvstored::command
