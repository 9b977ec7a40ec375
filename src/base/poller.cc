#include "base/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <unordered_map>

#include "base/check.h"

namespace kvstored::base {

struct Poller::State {
  int epoll_fd = -1;
  int event_fd = -1;
  std::array<epoll_event, 256> events;
  size_t ready = 0;  // of `events`, between Wait and Dispatch
  // fd -> target: readiness that was fetched before a Remove finds nothing here.
  std::unordered_map<int, PollTarget*> targets;
  // Dekker's handshake between a sleeper and its wakers. The owner sets `sleeping`, then looks at
  // `woken`; a waker sets `woken`, then looks at `sleeping`. Both sides are seq_cst, so at least
  // one of them sees the other and no wake-up is lost.
  std::atomic<bool> sleeping{false};
  std::atomic<bool> woken{false};
};

Poller::Poller() : state_(new State) {
  state_->epoll_fd = ::epoll_create1(EPOLL_CLOEXEC);
  state_->event_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  KVS_CHECK(state_->epoll_fd >= 0 && state_->event_fd >= 0, "errno=%d", errno);
  epoll_event event{};
  // Edge-triggered: each write tells once, and nobody has to read the counter.
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = state_->event_fd;
  KVS_CHECK(::epoll_ctl(state_->epoll_fd, EPOLL_CTL_ADD, state_->event_fd, &event) == 0, "errno=%d",
            errno);
}

Poller::~Poller() {
  ::close(state_->epoll_fd);
  ::close(state_->event_fd);
  delete state_;
}

void Poller::Add(int fd, uint32_t events, PollTarget* target) {
  const bool fresh = state_->targets.emplace(fd, target).second;
  KVS_CHECK(fresh, "fd=%d is polled already", fd);
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  KVS_CHECK(::epoll_ctl(state_->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0, "fd=%d errno=%d", fd,
            errno);
}

void Poller::Modify(int fd, uint32_t events, PollTarget* target) {
  KVS_DCHECK(state_->targets[fd] == target, "fd=%d", fd);
  (void)target;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  KVS_CHECK(::epoll_ctl(state_->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0, "fd=%d errno=%d", fd,
            errno);
}

void Poller::Remove(int fd, PollTarget* target) {
  const auto found = state_->targets.find(fd);
  KVS_CHECK(found != state_->targets.end() && found->second == target, "fd=%d", fd);
  state_->targets.erase(found);
  ::epoll_ctl(state_->epoll_fd, EPOLL_CTL_DEL, fd, nullptr);
}

void Poller::Wait(int64_t timeout_us) {
  int timeout_ms = 0;
  if (timeout_us != 0) {
    state_->sleeping.store(true, std::memory_order_seq_cst);  // partner: Wake
    if (!state_->woken.load(std::memory_order_seq_cst)) {
      timeout_ms = timeout_us < 0 ? -1 : static_cast<int>((timeout_us + 999) / 1000);
    }
  }
  const int count = ::epoll_wait(state_->epoll_fd, state_->events.data(),
                                 static_cast<int>(state_->events.size()), timeout_ms);
  KVS_CHECK(count >= 0 || errno == EINTR, "errno=%d", errno);
  state_->ready = count < 0 ? 0 : static_cast<size_t>(count);
  state_->sleeping.store(false, std::memory_order_seq_cst);
  state_->woken.store(false, std::memory_order_seq_cst);
}

uint32_t Poller::Dispatch() {
  uint32_t told = 0;
  for (size_t i = 0; i < state_->ready; ++i) {
    const int fd = state_->events[i].data.fd;
    if (fd == state_->event_fd) {
      continue;
    }
    const auto found = state_->targets.find(fd);
    if (found != state_->targets.end()) {
      ++told;
      found->second->OnReady(state_->events[i].events);
    }
  }
  state_->ready = 0;
  return told;
}

void Poller::Wake() {
  if (state_->woken.exchange(true, std::memory_order_seq_cst)) {
    return;  // somebody woke it already and the owner has not come round yet
  }
  if (state_->sleeping.load(std::memory_order_seq_cst)) {
    const uint64_t one = 1;
    (void)!::write(state_->event_fd, &one, sizeof(one));
  }
}

}  // namespace kvstored::base
