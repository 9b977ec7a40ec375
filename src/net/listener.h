// Listener: a listening TCP socket. One thread accepts for all; the acceptor spreads connections
// over the threads in turn (SO_REUSEPORT would spread them by hash, which is uneven for a few).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/poller.h"
#include "net/conn_handler.h"

namespace kvstored::net {

// Thread: Open on any thread; then the poller's.
class Listener : public base::PollTarget {
 public:
  // `bind` is a numeric IPv4 or IPv6 address; port 0 takes any free port. An error names the
  // address, the cause and a remedy.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const std::string& bind, uint16_t port);
  ~Listener() override;

  uint16_t port() const {
    return port_;
  }
  // Accepts from now on, on the poller's thread. Both are borrowed until Stop().
  void Start(base::Poller* poller, ConnAcceptor* acceptor);
  // On the poller's thread. Accepts no more; the port is free once this is destroyed.
  void Stop();

  void OnReady(uint32_t events) override;

 private:
  Listener(int fd, int spare_fd, uint16_t port) : fd_(fd), spare_fd_(spare_fd), port_(port) {
  }

  int fd_;
  // Given up for a moment when the process is out of descriptors: the connection is accepted and
  // closed, so that a level-triggered listener does not spin on it.
  int spare_fd_;
  uint16_t port_;
  base::Poller* poller_ = nullptr;
  ConnAcceptor* acceptor_ = nullptr;
};

}  // namespace kvstored::net
