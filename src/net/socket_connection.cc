#include "net/socket_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace kvstored::net {
namespace {

constexpr size_t kReadBytes = 128 << 10;
constexpr size_t kLargeReadBytes = 1 << 20;  // of a value that is known to be large
constexpr size_t kIdleInputBytes = 64 << 10;
constexpr size_t kPiecesMax = 64;

std::string AddressText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6->sin6_port));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
  return std::string(text) + ":" + std::to_string(ntohs(v4->sin_port));
}

void SetOptions(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // As Redis' tcp-keepalive 300: the first probe after 300 s, then three, 100 s apart.
  const int idle_seconds = 300;
  const int interval_seconds = 100;
  const int probe_count = 3;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds, sizeof(interval_seconds));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probe_count, sizeof(probe_count));
}

}  // namespace

char* InputBuffer::Grow(size_t bytes, size_t wanted) {
  if (capacity_ - end_ >= bytes) {
    return bytes_ + end_;
  }
  if (begin_ > 0) {
    std::memmove(bytes_, bytes_ + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  if (capacity_ - end_ < bytes) {
    // Doubling; but a value half of which has arrived gets exactly its room. A length that was only
    // declared gets nothing.
    size_t capacity = std::max(end_ + bytes, capacity_ * 2);
    if (wanted > end_ && wanted <= end_ * 2) {
      capacity = std::max(end_ + bytes, wanted + kReadBytes);
    }
    bytes_ = static_cast<char*>(std::realloc(bytes_, capacity));
    KVS_CHECK(bytes_ != nullptr, "capacity=%zu", capacity);
    capacity_ = capacity;
  }
  return bytes_ + end_;
}

void InputBuffer::Append(const char* bytes, size_t count) {
  std::memcpy(Grow(count, 0), bytes, count);
  end_ += count;
}

void InputBuffer::Consume(size_t bytes) {
  begin_ += bytes;
  if (begin_ < end_) {
    return;
  }
  begin_ = end_ = 0;
  if (capacity_ > kIdleInputBytes) {
    std::free(bytes_);
    bytes_ = nullptr;
    capacity_ = 0;
  }
}

SocketThread::SocketThread(base::Poller* poller) : poller_(poller), read_buffer_(kReadBytes) {
}

SocketThread::~SocketThread() {
  CloseAll();
}

void SocketThread::CloseAll() {
  while (!live_.empty()) {
    live_.back()->Close();
  }
}

Connection* SocketThread::Adopt(int fd, ConnHandler* handler) {
  auto* connection = new SocketConnection(this, fd, handler);
  connection->live_index_ = live_.size();
  live_.push_back(connection);
  return connection;
}

void SocketThread::FreeClosed() {
  closed_.clear();
}

SocketConnection::SocketConnection(SocketThread* thread, int fd, ConnHandler* handler)
    : thread_(thread), fd_(fd), handler_(handler) {
  SetOptions(fd);
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0) {
    peer_ = AddressText(address);
  }
  bytes = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0) {
    local_ = AddressText(address);
  }
  polled_ = EPOLLIN;
  thread_->poller_->Add(fd_, polled_, this);
}

SocketConnection::~SocketConnection() = default;

void SocketConnection::Poll(uint32_t events) {
  if (events != polled_) {
    polled_ = events;
    thread_->poller_->Modify(fd_, events, this);
  }
}

void SocketConnection::OnReady(uint32_t events) {
  if (failed_ || (events & EPOLLERR) != 0 ||
      ((events & EPOLLHUP) != 0 && (polled_ & EPOLLIN) == 0)) {
    // HUP while nothing is read: the peer has closed both directions, nothing can leave any more.
    Close();
    return;
  }
  if ((events & EPOLLOUT) != 0) {
    Poll(polled_ & ~static_cast<uint32_t>(EPOLLOUT));
    handler_->OnWritable();
    if (fd_ < 0) {
      return;
    }
  }
  if ((events & (EPOLLIN | EPOLLHUP)) != 0 && (polled_ & EPOLLIN) != 0) {
    if (!handler_->CanRead()) {
      Poll(polled_ & ~static_cast<uint32_t>(EPOLLIN));
      return;
    }
    Read();
  }
}

void SocketConnection::Read() {
  // With nothing pending the bytes go through the thread's buffer, and only what a handler leaves
  // is copied. Otherwise they are received where they belong.
  const bool direct = input_.size() == 0;
  const size_t room = input_.size() >= kLargeReadBytes ? kLargeReadBytes : kReadBytes;
  char* to = direct ? thread_->read_buffer_.data() : input_.Grow(room, handler_->BytesWanted());
  const ssize_t got = ::recv(fd_, to, direct ? thread_->read_buffer_.size() : room, 0);
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      Close();
    }
    return;
  }
  if (got == 0) {
    eof_ = true;
    Poll(polled_ & ~static_cast<uint32_t>(EPOLLIN));
    handler_->OnEof();
    return;
  }
  const size_t bytes = static_cast<size_t>(got);
  thread_->counters_.received_bytes.Add(bytes);
  if (!direct) {
    input_.Commit(bytes);
    Deliver();
    return;
  }
  const size_t consumed = handler_->OnInput({to, bytes});
  KVS_CHECK(consumed <= bytes, "consumed=%zu bytes=%zu", consumed, bytes);
  if (fd_ >= 0 && consumed < bytes) {
    input_.Append(to + consumed, bytes - consumed);
  }
}

void SocketConnection::Deliver() {
  const size_t bytes = input_.size();
  const size_t consumed = handler_->OnInput({input_.data(), bytes});
  KVS_CHECK(consumed <= bytes, "consumed=%zu bytes=%zu", consumed, bytes);
  if (fd_ >= 0) {
    input_.Consume(consumed);
  }
}

int64_t SocketConnection::Send(std::span<const std::string_view> pieces) {
  if (fd_ < 0 || failed_) {
    return -1;
  }
  std::array<iovec, kPiecesMax> vectors;
  const size_t count = std::min(pieces.size(), kPiecesMax);
  size_t wanted = 0;
  for (size_t i = 0; i < count; ++i) {
    vectors[i] = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
    wanted += pieces[i].size();
  }
  ssize_t sent;
  if (count == 1) {
    sent = ::send(fd_, vectors[0].iov_base, vectors[0].iov_len, MSG_NOSIGNAL);
  } else {
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
  }
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    // The handler is in the middle of its work: it is told from the poller.
    failed_ = true;
    Poll(polled_ | EPOLLOUT);
    return -1;
  }
  const size_t taken = sent < 0 ? 0 : static_cast<size_t>(sent);
  thread_->counters_.sent_bytes.Add(taken);
  if (taken < wanted) {
    Poll(polled_ | EPOLLOUT);
  }
  return static_cast<int64_t>(taken);
}

void SocketConnection::Resume() {
  if (fd_ < 0) {
    return;
  }
  if (input_.size() > 0) {
    Deliver();
  }
  if (fd_ >= 0 && !eof_ && handler_->CanRead()) {
    Poll(polled_ | EPOLLIN);
  }
}

void SocketConnection::Close() {
  if (fd_ < 0) {
    return;
  }
  thread_->poller_->Remove(fd_, this);
  ::close(fd_);
  fd_ = -1;
  SocketConnection* last = thread_->live_.back();
  thread_->live_[live_index_] = last;
  last->live_index_ = live_index_;
  thread_->live_.pop_back();
  // Not freed here: a caller further up may still be inside this object.
  thread_->closed_.emplace_back(this);
  handler_->OnClosed();
}

}  // namespace kvstored::net
