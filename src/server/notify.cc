#include "server/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::server {
namespace {

// A status is one line of the message.
std::string OneLine(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

Notify Notify::FromEnvironment() {
  const char* socket_path = std::getenv("NOTIFY_SOCKET");
  const char* watchdog = std::getenv("WATCHDOG_USEC");
  const char* watchdog_pid = std::getenv("WATCHDOG_PID");
  // The variables may be meant for a parent that handed them down.
  const bool ours = watchdog_pid == nullptr || std::atol(watchdog_pid) == getpid();
  return {socket_path == nullptr ? "" : socket_path,
          watchdog == nullptr || !ours ? 0 : std::max<int64_t>(std::atoll(watchdog), 0)};
}

void Notify::Ready(std::string_view status) const {
  Send("READY=1\nSTATUS=" + OneLine(status));
}

void Notify::Status(std::string_view status) const {
  Send("STATUS=" + OneLine(status));
}

void Notify::Stopping(std::string_view status) const {
  Send("STOPPING=1\nSTATUS=" + OneLine(status));
}

void Notify::ExtendTimeout(int64_t extend_us, std::string_view status) const {
  Send(absl::StrFormat("EXTEND_TIMEOUT_USEC=%d\nSTATUS=%s", extend_us, OneLine(status)));
}

void Notify::Watchdog() const {
  Send("WATCHDOG=1");
}

void Notify::Send(std::string message) const {
  if (socket_path_.empty()) {
    return;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof(address.sun_path)) {
    base::LogWarning(absl::StrFormat("NOTIFY_SOCKET is longer than %d bytes; systemd is not told",
                                     sizeof(address.sun_path) - 1));
    return;
  }
  std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
  if (address.sun_path[0] == '@') {
    address.sun_path[0] = '\0';
  }
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_path_.size());
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const ssize_t sent = fd < 0 ? -1
                              : sendto(fd, message.data(), message.size(), MSG_NOSIGNAL,
                                       reinterpret_cast<const sockaddr*>(&address), length);
  if (sent < 0) {
    base::LogWarning(
        absl::StrFormat("systemd is not told '%s': %s", OneLine(message), std::strerror(errno)));
  }
  if (fd >= 0) {
    close(fd);
  }
}

}  // namespace kvstored::server
