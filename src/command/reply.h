// A reply under construction: bytes, and large values in between that go to the socket straight
// from their slots.
#pragma once

#include <string>
#include <vector>

#include "resp/writer.h"
#include "store/item.h"

namespace kvstored::command {

struct Reply {
  // A chain whose bytes stand after the first `offset` bytes of `bytes`.
  struct External {
    size_t offset = 0;
    store::ChainRef chain;
  };
  std::string bytes;
  std::vector<External> externals;

  bool empty() const {
    return bytes.empty() && externals.empty();
  }
  void clear() {
    bytes.clear();
    externals.clear();
  }
  // Appends the value of an item as a bulk string: copied below kChainBytesMin, by reference above.
  void AppendValue(const store::Item& item);
  void AppendChain(store::ChainRef chain);
};

// Where the reply stood before more was written to it: Undo() takes back what came after.
struct ReplyMark {
  explicit ReplyMark(Reply* target)
      : reply(target), bytes(target->bytes.size()), externals(target->externals.size()) {
  }
  void Undo() const {
    reply->bytes.resize(bytes);
    reply->externals.resize(externals);
  }
  Reply* reply;
  size_t bytes;
  size_t externals;
};

}  // namespace kvstored::command
