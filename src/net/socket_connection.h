// SocketConnection: a Connection over a TCP socket. One read and one write a tick; a per-thread
// read buffer, so that a connection with nothing pending holds no memory for input.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/poller.h"
#include "metrics/slot.h"
#include "net/conn_handler.h"

namespace kvstored::net {

// Bytes received and not consumed: a malloc'd run that grows as bytes arrive and is never zeroed.
class InputBuffer {
 public:
  InputBuffer() = default;
  ~InputBuffer() {
    std::free(bytes_);
  }
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  size_t size() const {
    return end_ - begin_;
  }
  size_t capacity() const {
    return capacity_;
  }
  char* data() {
    return bytes_ + begin_;
  }
  // Room for at least `bytes` behind the end. `wanted`: bytes that will be needed in all, if known.
  char* Grow(size_t bytes, size_t wanted);
  void Commit(size_t bytes) {
    end_ += bytes;
  }
  void Append(const char* bytes, size_t count);
  // Drops from the front; memory beyond what an idle connection should hold is given back.
  void Consume(size_t bytes);

 private:
  char* bytes_ = nullptr;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t capacity_ = 0;
};

// What the connections of one thread share. Thread: its owner's.
class SocketThread {
 public:
  explicit SocketThread(base::Poller* poller);
  // Makes a connection of an accepted socket, which it owns from now on. The handler is borrowed:
  // it must live until its OnClosed() returned. Reading starts with the next poll.
  Connection* Adopt(int fd, ConnHandler* handler);
  // Frees what was closed since the last call. Once a tick, from outside of any connection's
  // upcall.
  void FreeClosed();
  void CloseAll();
  ~SocketThread();

  // Readable by any thread.
  struct Counters {
    metrics::Counter received_bytes;
    metrics::Counter sent_bytes;
  };
  const Counters& counters() const {
    return counters_;
  }

 private:
  friend class SocketConnection;
  base::Poller* const poller_;
  std::vector<char> read_buffer_;
  std::vector<std::unique_ptr<Connection>> closed_;
  std::vector<class SocketConnection*> live_;
  Counters counters_;
};

// Invariant: polled for EPOLLIN unless reading stopped or the peer ended its stream; for EPOLLOUT
// only after a short Send. Closed: fd_ < 0, no upcall any more, freed by SocketThread::FreeClosed.
class SocketConnection : public Connection, public base::PollTarget {
 public:
  SocketConnection(SocketThread* thread, int fd, ConnHandler* handler);
  ~SocketConnection() override;

  int64_t Send(std::span<const std::string_view> pieces) override;
  void Resume() override;
  void Close() override;
  const std::string& peer() const override {
    return peer_;
  }
  const std::string& local() const override {
    return local_;
  }
  int fd() const override {
    return fd_;
  }
  size_t input_bytes() const override {
    return input_.size();
  }
  size_t held_bytes() const override {
    return input_.capacity();
  }

  void OnReady(uint32_t events) override;

 private:
  friend class SocketThread;
  void Read();
  // Offers what input_ holds.
  void Deliver();
  void Poll(uint32_t events);

  SocketThread* const thread_;
  int fd_;
  ConnHandler* handler_;
  uint32_t polled_ = 0;
  bool eof_ = false;
  bool failed_ = false;  // Send met an error: closed by the next OnReady
  size_t live_index_ = 0;
  InputBuffer input_;
  std::string peer_;
  std::string local_;
};

}  // namespace kvstored::net
