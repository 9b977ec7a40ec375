#include "net/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::net {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptBudget = 64;  // connections a round, so that a herd does not stop the tick

absl::Status BindError(const std::string& bind, uint16_t port, int error) {
  const char* remedy = "check server.bind and server.port";
  if (error == EADDRINUSE) {
    remedy = "another process listens there: stop it or choose another server.port";
  } else if (error == EADDRNOTAVAIL) {
    remedy = "no interface of this machine has that address: correct server.bind";
  } else if (error == EACCES) {
    remedy = "ports below 1024 need CAP_NET_BIND_SERVICE: choose another server.port";
  }
  return absl::UnavailableError(absl::StrFormat("cannot listen on %s port %u: %s; %s", bind, port,
                                                std::strerror(error), remedy));
}

bool ParseAddress(const std::string& bind, uint16_t port, sockaddr_storage* address,
                  socklen_t* bytes) {
  std::memset(address, 0, sizeof(*address));
  auto* v4 = reinterpret_cast<sockaddr_in*>(address);
  if (::inet_pton(AF_INET, bind.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    *bytes = sizeof(sockaddr_in);
    return true;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(address);
  if (::inet_pton(AF_INET6, bind.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    *bytes = sizeof(sockaddr_in6);
    return true;
  }
  return false;
}

uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const std::string& bind, uint16_t port) {
  sockaddr_storage address;
  socklen_t bytes = 0;
  if (!ParseAddress(bind, port, &address, &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("server.bind = \"%s\" is no numeric IPv4 or IPv6 address", bind));
  }
  const int fd = ::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return BindError(bind, port, errno);
  }
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ss_family == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    return BindError(bind, port, error);
  }
  const int spare_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return std::unique_ptr<Listener>(new Listener(fd, spare_fd, PortOf(fd)));
}

Listener::~Listener() {
  Stop();
  ::close(fd_);
  if (spare_fd_ >= 0) {
    ::close(spare_fd_);
  }
}

void Listener::Start(base::Poller* poller, ConnAcceptor* acceptor) {
  poller_ = poller;
  acceptor_ = acceptor;
  poller_->Add(fd_, EPOLLIN, this);
}

void Listener::Stop() {
  if (poller_ != nullptr) {
    poller_->Remove(fd_, this);
    poller_ = nullptr;
  }
}

void Listener::OnReady(uint32_t /*events*/) {
  static base::LogLimiter limiter(10'000'000);
  for (int i = 0; i < kAcceptBudget; ++i) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      acceptor_->OnAccept(fd);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) {
      continue;
    }
    if (errno != EMFILE && errno != ENFILE) {
      return;  // EAGAIN: none left
    }
    limiter.Warning("out of file descriptors: a client's connection was closed; raise LimitNOFILE");
    ::close(spare_fd_);
    const int refused = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (refused >= 0) {
      ::close(refused);
    }
    spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
}

}  // namespace kvstored::net
