// The seam between a connection's bytes and what they mean: a ConnHandler (a RESP session) sees
// only this Connection, so that net knows nothing of commands and the simulator needs no socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvstored::net {

// Thread: the connection's. One thread owns it for its whole life.
class Connection {
 public:
  virtual ~Connection() = default;

  // Hands bytes to the kernel with one system call and returns how many it took, perhaps 0. Bytes
  // taken are copied: the caller may reuse its buffer at once. After a short count OnWritable()
  // comes. -1: the connection has failed; OnClosed() follows when the caller has returned.
  virtual int64_t Send(std::span<const std::string_view> pieces) = 0;
  // Offers the input that the handler has left so far once more (ConnHandler::OnInput), and reads
  // on if reading had stopped because the handler could not take more. Not from inside OnInput.
  virtual void Resume() = 0;
  // Closes at once; the handler gets OnClosed() from here. Bytes not sent are lost.
  virtual void Close() = 0;

  // "127.0.0.1:41234" of the peer and of our end; stable for the connection's life.
  virtual const std::string& peer() const = 0;
  virtual const std::string& local() const = 0;
  virtual int fd() const = 0;
  // Bytes received and not consumed.
  virtual size_t input_bytes() const = 0;
  // Memory held for them.
  virtual size_t held_bytes() const {
    return input_bytes();
  }
};

// All calls on the connection's thread, never one inside another.
class ConnHandler {
 public:
  virtual ~ConnHandler() = default;
  // `input` holds everything not yet consumed, new bytes at its end. Returns how many bytes were
  // consumed. What stays is offered again, with more behind it, when more arrives or on Resume().
  virtual size_t OnInput(std::span<const char> input) = 0;
  // False: bytes are not read from the socket (back-pressure towards the client) until Resume().
  virtual bool CanRead() const = 0;
  // The buffer should make room for so many bytes in all as they arrive; 0 = no opinion.
  virtual size_t BytesWanted() const = 0;
  // The socket takes bytes again after a short Send.
  virtual void OnWritable() = 0;
  // The peer will send no more. The handler closes the connection when its replies have left.
  virtual void OnEof() = 0;
  // The connection is gone, the Connection object too: not one more call to it.
  virtual void OnClosed() = 0;
};

// Takes connections as they are accepted.
class ConnAcceptor {
 public:
  virtual ~ConnAcceptor() = default;
  // The new connection's socket, non-blocking; now the acceptor's to close.
  virtual void OnAccept(int fd) = 0;
};

}  // namespace kvstored::net
