// ConnHandler: what the layer above a connection is (a RESP session). Declared here so that net knows
// nothing of commands.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvstored::net {

class Connection;

// All calls on the connection's thread.
class ConnHandler {
 public:
  virtual ~ConnHandler() = default;
  // New bytes at the end of `input`, which holds everything not yet consumed. Returns how many bytes
  // were consumed. Bytes that stay are offered again when more arrive or after Connection::Resume().
  virtual size_t OnInput(std::span<char> input) = 0;
  // The peer closed or the connection failed; the handler may be destroyed after this returns.
  virtual void OnClosed() = 0;
};

}  // namespace kvstored::net
