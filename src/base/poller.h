// Poller: readiness of sockets and wake-ups from other threads, in one wait (epoll,
// level-triggered).
#pragma once

#include <cstdint>

namespace kvstored::base {

// What a file descriptor's owner is told. `events` are EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR.
class PollTarget {
 public:
  virtual ~PollTarget() = default;
  virtual void OnReady(uint32_t events) = 0;
};

// One owner thread for everything but Wake().
class Poller {
 public:
  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // The target is borrowed until Remove. A target may remove itself or any other inside OnReady: a
  // removed target gets no more upcalls, even if its readiness was already fetched.
  void Add(int fd, uint32_t events, PollTarget* target);
  void Modify(int fd, uint32_t events, PollTarget* target);
  void Remove(int fd, PollTarget* target);

  // Waits at most timeout_us (0: only looks; < 0: for ever) for readiness, in whole milliseconds
  // rounded up, and keeps it for Dispatch.
  void Wait(int64_t timeout_us);
  // Delivers what Wait found. Returns how many targets were told.
  uint32_t Dispatch();
  uint32_t Poll(int64_t timeout_us) {
    Wait(timeout_us);
    return Dispatch();
  }
  // Ends a running or the next Poll early. Thread-safe; a system call only if the owner sleeps.
  void Wake();

 private:
  struct State;
  State* state_;
};

}  // namespace kvstored::base
