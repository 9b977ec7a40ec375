// Notify: sd_notify(3) without libsystemd: datagrams to the socket that NOTIFY_SOCKET names.
// Without the variable every call does nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvstored::server {

// Thread-safe: one sendto per call, nothing is kept but the address.
class Notify {
 public:
  // From NOTIFY_SOCKET and WATCHDOG_USEC.
  static Notify FromEnvironment();
  // `socket_path` "" = off, "@name" = abstract.
  Notify(std::string socket_path, int64_t watchdog_us)
      : socket_path_(std::move(socket_path)), watchdog_us_(watchdog_us) {
  }

  // The node may serve. Only then: READY too early sends clients to a node that answers -LOADING.
  void Ready(std::string_view status) const;
  void Status(std::string_view status) const;
  void Stopping(std::string_view status) const;
  // A start or stop that makes progress may take so much longer.
  void ExtendTimeout(int64_t extend_us, std::string_view status) const;
  void Watchdog() const;

  bool enabled() const {
    return !socket_path_.empty();
  }
  // How often to call Watchdog(): half of what systemd waits. 0 = never.
  int64_t watchdog_period_us() const {
    return watchdog_us_ / 2;
  }

 private:
  void Send(std::string message) const;

  std::string socket_path_;
  int64_t watchdog_us_ = 0;
};

}  // namespace kvstored::server
