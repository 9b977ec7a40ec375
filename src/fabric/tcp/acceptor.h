// Listening sockets, and connections that have not introduced themselves yet. Nothing is allocated
// for a stranger but its 32 bytes; it has a time-out, and when there are too many the oldest goes.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "base/poller.h"
#include "fabric/tcp/context.h"
#include "fabric/tcp/socket.h"
#include "fabric/tcp/wire.h"

namespace kvstored::fabric {

struct Introduction {
  uint16_t kind = 0;
  LaneId lane = 0;
  Id128 token;
};

// One owner thread.
class Acceptor {
 public:
  // Takes over `fd` when it returns true; otherwise the acceptor drops it.
  using OnIntroduced = std::function<bool(int fd, const Introduction& introduction)>;

  Acceptor(TcpContext* context, OnIntroduced on_introduced);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Returns the bound "ip:port".
  absl::StatusOr<std::string> Listen(const std::string& address);
  // When OnDeadline must be called; INT64_MAX: never.
  int64_t deadline_us() const;
  void OnDeadline();
  size_t unfinished_count() const {
    return strangers_.size();
  }

 private:
  class Listener;
  class Stranger;
  void Accept(Listener* listener);
  void Read(Stranger* stranger);
  void Refuse(Stranger* stranger, std::string_view reason);
  // Takes the stranger out of the list and returns its socket, not polled any more.
  int Release(Stranger* stranger);

  TcpContext* const context_;
  const OnIntroduced on_introduced_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::list<std::unique_ptr<Stranger>> strangers_;   // oldest first
  std::vector<std::unique_ptr<Stranger>> released_;  // until no upcall of theirs can be running
  int64_t paused_until_us_ = 0;                      // out of file descriptors
  base::LogLimiter log_limiter_{10'000'000};
};

}  // namespace kvstored::fabric
