#include "fabric/tcp/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace kvstored::fabric {
namespace {

constexpr int kAcceptsPerPoll = 16;
constexpr int64_t kPauseUs = 100'000;

}  // namespace

class Acceptor::Listener final : public base::PollTarget {
 public:
  Listener(Acceptor* acceptor, int fd) : acceptor_(acceptor), fd_(fd) {
    Resume();
  }
  ~Listener() override {
    Pause();
    ::close(fd_);
  }
  void OnReady(uint32_t /*events*/) override {
    acceptor_->Accept(this);
  }
  void Pause() {
    if (is_polled_) {
      acceptor_->context_->poller.Remove(fd_, this);
      is_polled_ = false;
    }
  }
  void Resume() {
    if (!is_polled_) {
      acceptor_->context_->poller.Add(fd_, EPOLLIN, this);
      is_polled_ = true;
    }
  }
  int fd() const {
    return fd_;
  }

 private:
  Acceptor* const acceptor_;
  const int fd_;
  bool is_polled_ = false;
};

class Acceptor::Stranger final : public base::PollTarget {
 public:
  Stranger(Acceptor* acceptor, int fd_arg, int64_t deadline_us_arg)
      : fd(fd_arg), deadline_us(deadline_us_arg), acceptor_(acceptor) {
    acceptor_->context_->poller.Add(fd, EPOLLIN, this);
  }
  void OnReady(uint32_t /*events*/) override {
    acceptor_->Read(this);
  }

  const int fd;
  const int64_t deadline_us;
  uint8_t bytes[kIntroductionBytes] = {};
  size_t byte_count = 0;

 private:
  Acceptor* const acceptor_;
};

Acceptor::Acceptor(TcpContext* context, OnIntroduced on_introduced)
    : context_(context), on_introduced_(std::move(on_introduced)) {
}

Acceptor::~Acceptor() {
  while (!strangers_.empty()) {
    DropSocket(Release(strangers_.front().get()));
  }
}

absl::StatusOr<std::string> Acceptor::Listen(const std::string& address) {
  const absl::StatusOr<HostPort> where = SplitAddress(address);
  if (!where.ok()) {
    return where.status();
  }
  const auto resolved = Resolve(*where, /*numeric_only=*/true);
  if (!resolved.ok()) {
    return absl::InvalidArgumentError("listen address \"" + address +
                                      "\": must be a numeric ip:port");
  }
  const absl::StatusOr<int> fd = OpenListener(resolved->front());
  if (!fd.ok()) {
    return fd.status();
  }
  listeners_.push_back(std::make_unique<Listener>(this, *fd));
  return LocalAddress(*fd).Text();
}

void Acceptor::Accept(Listener* listener) {
  for (int i = 0; i < kAcceptsPerPoll; ++i) {
    const int fd = ::accept4(listener->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        log_limiter_.Warning("replication port: cannot accept (" +
                             std::string(SocketError("accept", errno).message()) +
                             "): raise LimitNOFILE or close connections");
        paused_until_us_ = context_->clock->MonotonicUs() + kPauseUs;
        for (const auto& each : listeners_) {
          each->Pause();
        }
      }
      return;
    }
    ++context_->progress_count;
    if (strangers_.size() >= context_->options.unfinished_handshake_count_max) {
      Refuse(strangers_.front().get(), "too many connections that do not introduce themselves");
    }
    strangers_.push_back(std::make_unique<Stranger>(
        this, fd, context_->clock->MonotonicUs() + context_->options.handshake_timeout_us));
  }
}

void Acceptor::Read(Stranger* stranger) {
  // Not a byte more than the introduction: what follows is the link's to read.
  const ssize_t got = ::recv(stranger->fd, stranger->bytes + stranger->byte_count,
                             kIntroductionBytes - stranger->byte_count, MSG_DONTWAIT);
  if (got <= 0) {
    if (got == 0 || !IsTransient(errno)) {
      Refuse(stranger, "");
    }
    return;
  }
  stranger->byte_count += static_cast<size_t>(got);
  const size_t magic_bytes = std::min(stranger->byte_count, kMagicBytes);
  if (std::memcmp(stranger->bytes, kMagic, magic_bytes) != 0) {
    Refuse(stranger, "its first bytes are not those of a kvstored node");
    return;
  }
  if (stranger->byte_count < kIntroductionBytes) {
    return;
  }
  Introduction introduction;
  introduction.kind = base::LoadBe16(stranger->bytes + 8);
  introduction.lane = base::LoadBe16(stranger->bytes + 10);
  std::memcpy(introduction.token.bytes.data(), stranger->bytes + 16, 16);
  if (stranger->bytes[kMagicBytes] != kWireVersion) {
    // Our greeting tells the peer which version we speak.
    uint8_t greeting[kGreetingBytes];
    StoreGreeting(greeting);
    (void)!::send(stranger->fd, greeting, sizeof(greeting), MSG_NOSIGNAL | MSG_DONTWAIT);
    Refuse(stranger, "its fabric version is another; run the same release on both nodes");
    return;
  }
  ++context_->progress_count;
  const int fd = Release(stranger);
  if (!on_introduced_(fd, introduction)) {
    ++context_->counters.refused_count;
    DropSocket(fd);
  }
}

int Acceptor::Release(Stranger* stranger) {
  const int fd = stranger->fd;
  context_->poller.Remove(fd, stranger);
  const auto found = std::find_if(strangers_.begin(), strangers_.end(),
                                  [stranger](const auto& each) { return each.get() == stranger; });
  released_.push_back(std::move(*found));
  strangers_.erase(found);
  return fd;
}

void Acceptor::Refuse(Stranger* stranger, std::string_view reason) {
  ++context_->counters.refused_count;
  ++context_->progress_count;
  if (!reason.empty()) {
    log_limiter_.Warning("replication port: dropped a connection from " +
                         PeerAddress(stranger->fd).Text() + ": " + std::string(reason));
  }
  DropSocket(Release(stranger));
}

int64_t Acceptor::deadline_us() const {
  int64_t deadline_us = paused_until_us_ > 0 ? paused_until_us_ : INT64_MAX;
  if (!strangers_.empty()) {
    deadline_us = std::min(deadline_us, strangers_.front()->deadline_us);
  }
  return deadline_us;
}

void Acceptor::OnDeadline() {
  released_.clear();
  const int64_t now_us = context_->clock->MonotonicUs();
  while (!strangers_.empty() && strangers_.front()->deadline_us <= now_us) {
    Refuse(strangers_.front().get(), "it did not introduce itself in time");
  }
  if (paused_until_us_ > 0 && paused_until_us_ <= now_us) {
    paused_until_us_ = 0;
    for (const auto& each : listeners_) {
      each->Resume();
    }
  }
}

}  // namespace kvstored::fabric
