// A closed-loop load generator: each connection sends a burst of `depth` SETs (and, with --wait,
// one WAIT after them) in one write, and the next burst when every reply has come. One thread, no
// library: a client that needs more CPU than the server measures itself.
//
// Prints one JSON object; exits 1 if any reply was an error or a WAIT counted no replica, because a
// figure of refused work is none.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvstored::bench {
namespace {

struct Options {
  std::string host = "127.0.0.1";
  uint16_t port = 7379;
  uint32_t connections = 1;
  uint32_t depth = 1;
  uint64_t operations = 100000;  // SETs; rounded up to whole bursts
  uint64_t keys = 100000;
  uint32_t value_bytes = 100;
  bool sequential = false;  // key i by operation i: loads a data set
  bool get = false;
  bool wait = false;
  int64_t wait_ms = 10000;
};

// The run failed.
[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "loadgen: %s\n", what.c_str());
  std::exit(1);
}

// The command line is wrong: as kvctl and kvstored say it.
[[noreturn]] void DieOfUsage(const std::string& what) {
  std::fprintf(stderr, "loadgen: %s\n", what.c_str());
  std::exit(2);
}

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// Replies of one line each ("+OK", ":1"; a GET's "$n" announces bytes that are skipped).
class ReplyScanner {
 public:
  // Returns how many replies ended in these bytes.
  uint32_t Scan(const char* at, size_t size) {
    const char* const end = at + size;
    uint32_t done = 0;
    while (at != end) {
      if (skip_bytes_ > 0) {
        const size_t step = std::min<size_t>(skip_bytes_, static_cast<size_t>(end - at));
        at += step;
        skip_bytes_ -= step;
        done += skip_bytes_ == 0 ? 1 : 0;
        continue;
      }
      const auto* newline =
          static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
      const char* const stop = newline == nullptr ? end : newline + 1;
      line_.append(at, stop);
      at = stop;
      if (newline != nullptr) {
        done += TakeLine() ? 1 : 0;
        line_.clear();
      }
    }
    return done;
  }
  uint64_t errors() const {
    return errors_;
  }
  uint64_t short_waits() const {
    return short_waits_;
  }
  const std::string& first_error() const {
    return first_error_;
  }

 private:
  // True if the line is a whole reply.
  bool TakeLine() {
    if (line_[0] == '$' && line_[1] != '-') {
      skip_bytes_ = std::strtoull(line_.c_str() + 1, nullptr, 10) + 2;
      return false;
    }
    if (line_[0] == '-') {
      ++errors_;
      if (first_error_.empty()) {
        first_error_ = line_.substr(0, line_.find('\r'));
      }
    } else if (line_[0] == ':' && line_[1] == '0') {
      ++short_waits_;
    }
    return true;
  }

  std::string line_;
  size_t skip_bytes_ = 0;
  uint64_t errors_ = 0;
  uint64_t short_waits_ = 0;
  std::string first_error_;
};

struct Connection {
  int fd = -1;
  uint32_t replies_left = 0;
  uint64_t sent_ns = 0;
  uint64_t random = 0;
  std::string burst;     // the requests; only the digits of the keys change
  size_t unsent_at = 0;  // burst.size(): all of it is with the kernel
  ReplyScanner scanner;
};

class Load {
 public:
  explicit Load(Options options) : options_(std::move(options)) {
  }

  void Run() {
    Open();
    const uint64_t start_ns = NowNs();
    for (auto& connection : connections_) {
      SendBurst(connection.get());
    }
    std::array<epoll_event, 256> events;
    while (active_ > 0) {
      const int count = ::epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), -1);
      if (count < 0 && errno != EINTR) {
        Die(std::string("epoll_wait: ") + std::strerror(errno));
      }
      for (int i = 0; i < count; ++i) {
        OnReady(static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr));
      }
    }
    took_ns_ = NowNs() - start_ns;
  }

  // Returns the exit code.
  int Report() {
    std::sort(latencies_ns_.begin(), latencies_ns_.end());
    uint64_t errors = 0;
    uint64_t short_waits = 0;
    std::string first_error;
    for (const auto& connection : connections_) {
      errors += connection->scanner.errors();
      short_waits += connection->scanner.short_waits();
      if (first_error.empty()) {
        first_error = connection->scanner.first_error();
      }
    }
    const double seconds = static_cast<double>(took_ns_) / 1e9;
    std::printf(
        "{\"operations\": %llu, \"seconds\": %.6f, \"ops_per_s\": %.1f, \"burst_us\": "
        "{\"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}, \"errors\": %llu, "
        "\"short_waits\": %llu}\n",
        static_cast<unsigned long long>(started_), seconds, static_cast<double>(started_) / seconds,
        LatencyUs(0.5), LatencyUs(0.99), LatencyUs(0.999), LatencyUs(1.0),
        static_cast<unsigned long long>(errors), static_cast<unsigned long long>(short_waits));
    if (errors != 0 || short_waits != 0) {
      std::fprintf(stderr, "loadgen: %llu errors (%s), %llu WAITs that counted no replica\n",
                   static_cast<unsigned long long>(errors), first_error.c_str(),
                   static_cast<unsigned long long>(short_waits));
      return 1;
    }
    return 0;
  }

 private:
  static constexpr size_t kKeyDigits = 12;  // "key:" and these: 16 bytes

  void Open() {
    epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
    const std::string request = Request();
    for (uint32_t i = 0; i < options_.connections; ++i) {
      auto connection = std::make_unique<Connection>();
      connection->fd = Connect();
      connection->random = 0x9e3779b97f4a7c15ULL * (i + 1);
      for (uint32_t d = 0; d < options_.depth; ++d) {
        connection->burst += request;
      }
      request_bytes_ = request.size();
      if (options_.wait) {
        const std::string ms = std::to_string(options_.wait_ms);
        connection->burst +=
            "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$" + std::to_string(ms.size()) + "\r\n" + ms + "\r\n";
      }
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = connection.get();
      if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, connection->fd, &event) != 0) {
        Die(std::string("epoll_ctl: ") + std::strerror(errno));
      }
      connections_.push_back(std::move(connection));
    }
    active_ = options_.connections;
    latencies_ns_.reserve(options_.operations / options_.depth + options_.connections);
  }

  std::string Request() {
    const std::string key = "$16\r\nkey:" + std::string(kKeyDigits, '0') + "\r\n";
    const std::string head = options_.get ? "*2\r\n$3\r\nGET\r\n" : "*3\r\n$3\r\nSET\r\n";
    digits_at_ = head.size() + std::strlen("$16\r\nkey:");
    if (options_.get) {
      return head + key;
    }
    return head + key + "$" + std::to_string(options_.value_bytes) + "\r\n" +
           std::string(options_.value_bytes, 'v') + "\r\n";
  }

  int Connect() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(options_.port);
    if (::inet_pton(AF_INET, options_.host.c_str(), &address.sin_addr) != 1) {
      DieOfUsage("--host " + options_.host + " is not an IPv4 address");
    }
    if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      Die("connect to " + options_.host + ":" + std::to_string(options_.port) + ": " +
          std::strerror(errno));
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
  }

  uint64_t NextKey(Connection* connection) {
    if (options_.sequential) {
      return started_ % options_.keys;
    }
    uint64_t& x = connection->random;  // xorshift64
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x % options_.keys;
  }

  void SendBurst(Connection* connection) {
    for (uint32_t d = 0; d < options_.depth; ++d) {
      char* digit = connection->burst.data() + d * request_bytes_ + digits_at_ + kKeyDigits;
      uint64_t key = NextKey(connection);
      for (size_t i = 0; i < kKeyDigits; ++i, key /= 10) {
        *--digit = static_cast<char>('0' + key % 10);
      }
      ++started_;
    }
    connection->replies_left = options_.depth + (options_.wait ? 1 : 0);
    connection->unsent_at = 0;
    connection->sent_ns = NowNs();
    Send(connection);
  }

  // The sockets block: a burst that the peer does not take at once waits for it, which a server
  // that answers while it reads ends. Bursts of more than a socket's buffer are not for this tool.
  void Send(Connection* connection) {
    while (connection->unsent_at < connection->burst.size()) {
      const ssize_t sent = ::send(connection->fd, connection->burst.data() + connection->unsent_at,
                                  connection->burst.size() - connection->unsent_at, MSG_NOSIGNAL);
      if (sent <= 0) {
        Die(std::string("send: ") + std::strerror(errno));
      }
      connection->unsent_at += static_cast<size_t>(sent);
    }
  }

  void OnReady(Connection* connection) {
    const ssize_t got = ::recv(connection->fd, buffer_.data(), buffer_.size(), 0);
    if (got <= 0) {
      Die(got == 0 ? "the server closed a connection"
                   : std::string("recv: ") + std::strerror(errno));
    }
    const uint32_t done = connection->scanner.Scan(buffer_.data(), static_cast<size_t>(got));
    if (done > connection->replies_left) {
      Die("more replies than requests");
    }
    connection->replies_left -= done;
    if (connection->replies_left > 0) {
      return;
    }
    latencies_ns_.push_back(NowNs() - connection->sent_ns);
    if (started_ < options_.operations) {
      SendBurst(connection);
    } else {
      --active_;
      ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, connection->fd, nullptr);
    }
  }

  double LatencyUs(double quantile) const {
    if (latencies_ns_.empty()) {
      return 0;
    }
    const auto index =
        static_cast<size_t>(quantile * static_cast<double>(latencies_ns_.size() - 1));
    return static_cast<double>(latencies_ns_[index]) / 1000;
  }

  const Options options_;
  int epoll_fd_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<uint64_t> latencies_ns_;
  std::array<char, size_t{64} << 10> buffer_;
  size_t request_bytes_ = 0;
  size_t digits_at_ = 0;
  uint64_t started_ = 0;
  uint64_t took_ns_ = 0;
  uint32_t active_ = 0;
};

uint64_t NumberOf(std::string_view flag, const char* text) {
  char* end = nullptr;
  const uint64_t number = text == nullptr ? 0 : std::strtoull(text, &end, 10);
  if (text == nullptr || end == text || *end != '\0') {
    DieOfUsage(std::string(flag) + " needs a whole number");
  }
  return number;
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto number = [&] {
      ++i;
      return NumberOf(flag, i < argc ? argv[i] : nullptr);
    };
    if (flag == "--host") {
      options.host = ++i < argc ? argv[i] : "";
    } else if (flag == "--port") {
      options.port = static_cast<uint16_t>(number());
    } else if (flag == "--connections") {
      options.connections = static_cast<uint32_t>(number());
    } else if (flag == "--depth") {
      options.depth = static_cast<uint32_t>(number());
    } else if (flag == "--operations") {
      options.operations = number();
    } else if (flag == "--keys") {
      options.keys = number();
    } else if (flag == "--value-bytes") {
      options.value_bytes = static_cast<uint32_t>(number());
    } else if (flag == "--wait-ms") {
      options.wait_ms = static_cast<int64_t>(number());
    } else if (flag == "--sequential") {
      options.sequential = true;
    } else if (flag == "--get") {
      options.get = true;
    } else if (flag == "--wait") {
      options.wait = true;
    } else {
      DieOfUsage("unknown option '" + std::string(flag) + "'");
    }
  }
  if (options.connections == 0 || options.depth == 0 || options.keys == 0 ||
      options.operations == 0) {
    DieOfUsage("--connections, --depth, --keys and --operations are at least 1");
  }
  return options;
}

}  // namespace
}  // namespace kvstored::bench

int main(int argc, char** argv) {
  kvstored::bench::Load load(kvstored::bench::Parse(argc, argv));
  load.Run();
  return load.Report();
}
