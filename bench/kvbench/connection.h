// One socket to the server and the session that speaks over it.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kvbench/session.h"

namespace kvstored::bench {

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  std::string text;  // HOST:PORT
};

// The first address that the name stands for. Empty, or what is wrong.
std::string Resolve(const std::string& host, uint16_t port, Address* address);

// Of the monotonic clock.
uint64_t NowNs();

// Not thread-safe: belongs to one worker, and to its epoll set.
class Connection {
 public:
  Connection(int epoll_fd, const Address* address, SessionShared* shared);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Open(uint64_t now_ns);
  // `buffer` is for whatever comes in; its content is nobody's afterwards.
  void OnReady(uint32_t events, std::vector<char>* buffer);
  // Starts what may start now and gives it to the kernel.
  void Start(uint64_t now_ns);
  // To be called now and then: breaks a connection on which nothing has moved for the timeout, and
  // opens a broken one again.
  void Tend(uint64_t now_ns);

  Session* session() {
    return &session_;
  }
  // Requests can be sent: it is connected and the server has answered the greeting.
  bool ready() const {
    return state_ == State::kOpen && session_.greeted();
  }
  // Empty, or why the run cannot go on.
  const std::string& failure() const {
    return failure_;
  }

 private:
  enum class State { kClosed, kConnecting, kOpen };

  void OnConnected();
  void Receive(std::vector<char>* buffer);
  void Send();
  void Watch(uint32_t events);
  // Without --reconnect that is a failure; with it the next attempt follows.
  void Break(const std::string& why);
  void Close();

  const int epoll_fd_;
  const Address* const address_;
  SessionShared* const shared_;
  Session session_;
  State state_ = State::kClosed;
  int fd_ = -1;
  uint32_t watched_ = 0;  // events that epoll reports
  bool was_open_ = false;
  uint64_t moved_ns_ = 0;  // bytes came, or it began to wait for some
  uint64_t closed_ns_ = 0;
  std::string failure_;
};

}  // namespace kvstored::bench
