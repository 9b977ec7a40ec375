#include "command/reply.h"

#include "kvstored/limits.h"

namespace kvstored::command {

void Reply::AppendValue(const store::Item& item) {
  const uint64_t value_bytes = item.value_bytes();
  resp::Writer(&bytes, 2).BulkHeader(value_bytes);
  if (item.is_chain() && value_bytes >= kChainBytesMin) {
    externals.push_back({bytes.size(), item.chain()});
  } else if (item.is_chain()) {
    const size_t start = bytes.size();
    bytes.resize(start + value_bytes);
    item.CopyTo(0, bytes.data() + start, value_bytes);
  } else {
    bytes.append(item.value());
  }
  bytes.append("\r\n");
}

}  // namespace kvstored::command
