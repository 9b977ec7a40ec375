#include "fabric/tcp/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

namespace kvstored::fabric {
namespace {

in_addr MappedV4(const in6_addr& address) {
  in_addr v4;
  std::memcpy(&v4, address.s6_addr + 12, sizeof(v4));
  return v4;
}

std::string V4Text(const in_addr& address, uint16_t port) {
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &address, text, sizeof(text));
  return std::string(text) + ":" + std::to_string(port);
}

bool IsV4Loopback(const in_addr& address) {
  return (ntohl(address.s_addr) >> 24) == 127;
}

void SetInt(int fd, int level, int name, int value) {
  // An option that a kernel lacks changes a time-out, not correctness.
  (void)::setsockopt(fd, level, name, &value, sizeof(value));
}

}  // namespace

std::string SocketAddress::Text() const {
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    return V4Text(v4->sin_addr, ntohs(v4->sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    const uint16_t port = ntohs(v6->sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
      return V4Text(MappedV4(v6->sin6_addr), port);
    }
    char text[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    return "[" + std::string(text) + "]:" + std::to_string(port);
  }
  return "unknown";
}

bool SocketAddress::IsLoopback() const {
  if (storage.ss_family == AF_INET) {
    return IsV4Loopback(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr);
  }
  if (storage.ss_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && IsV4Loopback(MappedV4(v6)));
  }
  return false;
}

absl::StatusOr<HostPort> SplitAddress(std::string_view address) {
  const auto bad = [&] {
    return absl::InvalidArgumentError("address \"" + std::string(address) +
                                      "\": must be host:port or [ipv6]:port, port 0 to 65535");
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return bad();
  }
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (host.front() == '[') {
    if (host.back() != ']' || host.size() < 3) {
      return bad();
    }
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();  // an IPv6 address without its brackets: which colon is the port's?
  }
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number > 65535) {
    return bad();
  }
  return HostPort{std::string(host), std::string(port)};
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const HostPort& where, bool numeric_only) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (numeric_only ? AI_NUMERICHOST : AI_ADDRCONFIG);
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &list);
  if (error != 0) {
    return absl::NotFoundError("resolving \"" + where.host + "\": " + ::gai_strerror(error));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size_bytes = entry->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  if (addresses.empty()) {
    return absl::NotFoundError("resolving \"" + where.host + "\": no addresses");
  }
  return addresses;
}

absl::StatusOr<int> OpenListener(const SocketAddress& address) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return SocketError("opening a listening socket", errno);
  }
  SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size_bytes) != 0 ||
      ::listen(fd, 128) != 0) {
    const int error = errno;
    ::close(fd);
    return SocketError("listening on " + address.Text(), error);
  }
  return fd;
}

absl::StatusOr<int> StartConnect(const SocketAddress& address) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return SocketError("opening a socket", errno);
  }
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size_bytes) != 0 &&
      errno != EINPROGRESS) {
    const int error = errno;
    ::close(fd);
    return SocketError("connecting to " + address.Text(), error);
  }
  return fd;
}

void SetLinkOptions(int fd, int64_t timeout_us) {
  const int timeout_ms = static_cast<int>(std::clamp<int64_t>(timeout_us / 1000, 100, 600'000));
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetInt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout_ms);
  // A silent peer: probes in the second half of the time-out; TCP_USER_TIMEOUT ends them.
  SetInt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, timeout_ms / 2000));
  SetInt(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, timeout_ms / 8000));
  SetInt(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

SocketAddress LocalAddress(int fd) {
  SocketAddress address;
  address.size_bytes = sizeof(address.storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size_bytes) != 0) {
    address.storage.ss_family = AF_UNSPEC;
  }
  return address;
}

SocketAddress PeerAddress(int fd) {
  SocketAddress address;
  address.size_bytes = sizeof(address.storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size_bytes) != 0) {
    address.storage.ss_family = AF_UNSPEC;
  }
  return address;
}

void DropSocket(int fd) {
  ::shutdown(fd, SHUT_RDWR);
  ::close(fd);
}

bool IsTransient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

absl::Status SocketError(std::string_view doing, int error) {
  const std::string text = std::string(doing) + ": " + std::generic_category().message(error);
  return error == ETIMEDOUT ? absl::DeadlineExceededError(text) : absl::UnavailableError(text);
}

}  // namespace kvstored::fabric
