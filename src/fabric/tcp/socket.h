// Raw sockets of the TCP fabric: addresses, listening, connecting, options. All sockets are
// non-blocking and close-on-exec.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvstored::fabric {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size_bytes = 0;

  // "ip:port"; IPv6 as "[ip]:port", an IPv4 address mapped into IPv6 as IPv4.
  std::string Text() const;
  // 127/8, ::1 or the former mapped.
  bool IsLoopback() const;
};

struct HostPort {
  std::string host;
  std::string port;
};

// "host:port", "1.2.3.4:port", "[v6]:port"; the port is a number of 0 .. 65535.
absl::StatusOr<HostPort> SplitAddress(std::string_view address);
// The addresses of a name or a number; a name blocks for as long as the resolver does. With
// `numeric_only` it never blocks and a name is kNotFound.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const HostPort& where, bool numeric_only);

absl::StatusOr<int> OpenListener(const SocketAddress& address);
// A connect under way: the first send or receive that succeeds or fails tells how it ended.
absl::StatusOr<int> StartConnect(const SocketAddress& address);
// TCP_NODELAY, keepalive and TCP_USER_TIMEOUT: unacknowledged or silent for `timeout_us` is an
// error.
void SetLinkOptions(int fd, int64_t timeout_us);
SocketAddress LocalAddress(int fd);
SocketAddress PeerAddress(int fd);
// Ends both directions at once and closes.
void DropSocket(int fd);

// True for what only means "not now".
bool IsTransient(int error);
// "<doing>: <text of the errno>"
absl::Status SocketError(std::string_view doing, int error);

}  // namespace kvstored::fabric
