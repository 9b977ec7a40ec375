#include "kvbench/connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "fmt/format.h"

namespace kvstored::bench {
namespace {

constexpr uint64_t kReopenAfterNs = 100'000'000;
constexpr size_t kPiecesMax = 64;

std::string ErrorText(int error) {
  return std::strerror(error);
}

}  // namespace

std::string Resolve(const std::string& host, uint16_t port, Address* address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return fmt::format("--host {}: {}", host, ::gai_strerror(error));
  }
  std::memcpy(&address->bytes, found->ai_addr, found->ai_addrlen);
  address->size = found->ai_addrlen;
  address->text = fmt::format("{}:{}", host, port);
  ::freeaddrinfo(found);
  return "";
}

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

Connection::Connection(int epoll_fd, const Address* address, SessionShared* shared)
    : epoll_fd_(epoll_fd), address_(address), shared_(shared), session_(shared) {
}

Connection::~Connection() {
  Close();
}

void Connection::Open(uint64_t now_ns) {
  moved_ns_ = now_ns;
  fd_ = ::socket(address_->bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) {
    failure_ = "socket: " + ErrorText(errno);
    return;
  }
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  state_ = State::kConnecting;
  epoll_event event{};
  event.events = watched_ = EPOLLIN | EPOLLOUT;
  event.data.ptr = this;
  if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd_, &event) != 0) {
    failure_ = "epoll_ctl: " + ErrorText(errno);
    return;
  }
  const auto* to = reinterpret_cast<const sockaddr*>(&address_->bytes);
  if (::connect(fd_, to, address_->size) != 0 && errno != EINPROGRESS) {
    Break(fmt::format("connect to {}: {}", address_->text, ErrorText(errno)));
  }
}

void Connection::OnConnected() {
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    Break(fmt::format("connect to {}: {}", address_->text, ErrorText(error)));
    return;
  }
  state_ = State::kOpen;
  shared_->measurement->reconnects += was_open_ ? 1 : 0;
  was_open_ = true;
  session_.Greet();
  session_.Start(NowNs());
}

void Connection::OnReady(uint32_t events, std::vector<char>* buffer) {
  if (state_ == State::kConnecting) {
    OnConnected();
  } else if ((events & ~uint32_t{EPOLLOUT}) != 0 && state_ == State::kOpen) {
    Receive(buffer);
  }
  if (state_ == State::kOpen) {
    Send();
  }
}

void Connection::Receive(std::vector<char>* buffer) {
  // The rest of a large value is thrown away by the kernel, tcp(7): copying it out would cost more
  // than all else, and nobody looks at it.
  const size_t skippable_bytes = session_.skippable_bytes();
  const bool skip = skippable_bytes >= buffer->size();
  const ssize_t got = skip ? ::recv(fd_, nullptr, skippable_bytes, MSG_TRUNC)
                           : ::recv(fd_, buffer->data(), buffer->size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (got <= 0) {
    Break(got == 0 ? "the server closed a connection" : "recv: " + ErrorText(errno));
    return;
  }
  const uint64_t now_ns = NowNs();
  moved_ns_ = now_ns;
  if (skip) {
    session_.Skip(static_cast<size_t>(got), now_ns);
  } else {
    session_.Take(buffer->data(), static_cast<size_t>(got), now_ns);
  }
  if (!session_.failure().empty()) {
    failure_ = session_.failure();
    return;
  }
  session_.Start(now_ns);
}

void Connection::Start(uint64_t now_ns) {
  if (state_ != State::kOpen) {
    return;
  }
  if (!session_.waiting()) {
    moved_ns_ = now_ns;
  }
  session_.Start(now_ns);
  Send();
}

void Connection::Send() {
  Outbox* const outbox = session_.outbox();
  while (!outbox->empty()) {
    std::array<iovec, kPiecesMax> pieces;
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = outbox->Pieces(pieces.data(), pieces.size());
    const ssize_t sent = message.msg_iovlen == 1
                             ? ::send(fd_, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL)
                             : ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0 && errno == EAGAIN) {
      Watch(EPOLLIN | EPOLLOUT);
      return;
    }
    if (sent < 0) {
      Break("send: " + ErrorText(errno));
      return;
    }
    outbox->Sent(static_cast<size_t>(sent));
  }
  Watch(EPOLLIN);
}

void Connection::Watch(uint32_t events) {
  if (events == watched_) {
    return;
  }
  watched_ = events;
  epoll_event event{};
  event.events = events;
  event.data.ptr = this;
  ::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd_, &event);
}

void Connection::Tend(uint64_t now_ns) {
  if (state_ == State::kClosed) {
    if (failure_.empty() && now_ns >= closed_ns_ + kReopenAfterNs) {
      Open(now_ns);
    }
    return;
  }
  const auto timeout_ns = static_cast<uint64_t>(shared_->options->timeout_s * 1e9);
  const bool waiting = state_ == State::kConnecting || session_.waiting();
  if (waiting && now_ns > moved_ns_ + timeout_ns) {
    Break(fmt::format("{} for {} s",
                      state_ == State::kConnecting ? "no connection" : "a reply did not come",
                      shared_->options->timeout_s));
  }
}

void Connection::Break(const std::string& why) {
  Close();
  session_.Lose();
  closed_ns_ = NowNs();
  if (!shared_->options->reconnect) {
    failure_ = why;
  }
}

void Connection::Close() {
  if (fd_ >= 0) {
    ::close(fd_);  // and out of the epoll set
  }
  fd_ = -1;
  state_ = State::kClosed;
}

}  // namespace kvstored::bench
