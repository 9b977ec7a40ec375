#include "fabric/tcp/link.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"
#include "base/random.h"

namespace kvstored::fabric {
namespace {

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

TcpLink::TcpLink(TcpContext* context, LinkId id, bool is_accepted)
    : context_(context), id_(id), is_accepted_(is_accepted) {
}

TcpLink::~TcpLink() {
  if (fd_ >= 0) {
    context_->poller.Remove(fd_, this);
    DropSocket(fd_);
  }
}

void TcpLink::AwaitAddresses(std::string target) {
  target_ = std::move(target);
  connect_deadline_us_ = context_->clock->MonotonicUs() + context_->options.connect_timeout_us;
  deadline_us_ = connect_deadline_us_;
}

void TcpLink::ConnectTo(std::vector<SocketAddress> addresses) {
  state_ = State::kGreeting;
  addresses_ = std::move(addresses);
  std::reverse(addresses_.begin(), addresses_.end());
  TryNextAddress();
}

void TcpLink::TryNextAddress() {
  const SocketAddress address = addresses_.back();
  // Each address has an equal share of the time that is left.
  const int64_t now_us = context_->clock->MonotonicUs();
  const int64_t left_us = std::max<int64_t>(0, connect_deadline_us_ - now_us);
  const auto share_count = static_cast<int64_t>(addresses_.size());
  addresses_.pop_back();
  const absl::StatusOr<int> fd = StartConnect(address);
  if (!fd.ok()) {
    ConnectFailed(fd.status());
    return;
  }
  fd_ = *fd;
  SetLinkOptions(fd_, context_->options.link_timeout_us);
  deadline_us_ = now_us + left_us / share_count;
  uint8_t introduction[kIntroductionBytes];
  StoreIntroduction(introduction, kControlConnection, 0, Id128{});
  out_.assign(1, std::string(reinterpret_cast<const char*>(introduction), kIntroductionBytes));
  out_bytes_ = kIntroductionBytes;
  out_front_sent_ = 0;
  in_.clear();
  was_writable_ = false;
  watches_writable_ = true;
  context_->poller.Add(fd_, EPOLLIN | EPOLLOUT, this);
}

// One address failed: the next, or the end.
void TcpLink::ConnectFailed(const absl::Status& why) {
  if (fd_ >= 0) {
    context_->poller.Remove(fd_, this);
    DropSocket(fd_);
    fd_ = -1;
  }
  if (!addresses_.empty()) {
    TryNextAddress();
    return;
  }
  Fail(absl::Status(why.code(), "connecting to " + target_ + ": " + std::string(why.message())));
}

void TcpLink::Accept(int fd) {
  state_ = State::kOpen;
  fd_ = fd;
  was_writable_ = true;
  SetLinkOptions(fd_, context_->options.link_timeout_us);
  context_->poller.Add(fd_, EPOLLIN, this);
  uint8_t greeting[kGreetingBytes];
  StoreGreeting(greeting);
  out_.emplace_back(reinterpret_cast<const char*>(greeting), kGreetingBytes);
  out_bytes_ += kGreetingBytes;
  MarkDirty();
  ++context_->progress_count;
  const SocketAddress peer = PeerAddress(fd_);
  const std::string text = peer.Text();
  context_->handler->OnAccepted(id_, text, peer.IsLoopback());
}

bool TcpLink::AcceptLane(int fd, LaneId lane_id, const Id128& token) {
  if (!is_live() || !is_accepted_ || token_.empty() || token != token_ || lane_id >= lane_count_ ||
      LaneOf(lane_id)->has_connection()) {
    return false;
  }
  LaneOf(lane_id)->Adopt(fd, "");
  if (++lanes_arrived_count_ == lane_count_) {
    lanes_open_ = true;
    deadline_us_ = INT64_MAX;
    Queue(ControlKind::kLanesReady, {});
    ++context_->progress_count;
    context_->handler->OnLanesOpen(id_, lane_count_);
  }
  return true;
}

TcpLane* TcpLink::LaneOf(LaneId lane) {
  KVS_CHECK(lane < kLaneCountMax, "lane=%u", lane);
  while (lanes_.size() <= lane) {
    lanes_.push_back(std::make_unique<TcpLane>(context_, this, static_cast<LaneId>(lanes_.size())));
  }
  return lanes_[lane].get();
}

void TcpLink::Send(std::span<const uint8_t> message) {
  KVS_CHECK(message.size() <= kMessageBytesMax, "size=%zu", message.size());
  KVS_CHECK(state_ == State::kOpen, "a message on link %llu, which is not connected",
            static_cast<unsigned long long>(id_));
  Queue(ControlKind::kMessage, message);
  if (out_bytes_ > context_->options.message_queue_bytes_max) {
    Fail(absl::ResourceExhaustedError(
        "the peer does not take its messages: " + std::to_string(out_bytes_) + " bytes wait"));
  }
}

void TcpLink::Queue(ControlKind kind, std::span<const uint8_t> bytes) {
  std::string framed(kControlHeaderBytes, '\0');
  base::StoreBe32(framed.data(), static_cast<uint32_t>(bytes.size() + 1));
  framed[4] = static_cast<char>(kind);
  framed.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  out_bytes_ += framed.size();
  out_.push_back(std::move(framed));
  MarkDirty();
}

void TcpLink::OpenLanes(LaneId lane_count) {
  KVS_CHECK(!is_accepted_ && state_ == State::kOpen && lane_count_ == 0 && lane_count > 0 &&
                lane_count <= kLaneCountMax,
            "lane_count=%u", lane_count);
  lane_count_ = lane_count;
  deadline_us_ = context_->clock->MonotonicUs() + context_->options.handshake_timeout_us;
  uint8_t bytes[2];
  base::StoreBe16(bytes, lane_count);
  Queue(ControlKind::kOpenLanes, bytes);
}

RingKey TcpLink::RegisterRing(std::span<uint8_t> memory) {
  KVS_CHECK(!memory.empty() && (memory.size() & (memory.size() - 1)) == 0 &&
                reinterpret_cast<uintptr_t>(memory.data()) % 4096 == 0,
            "ring of %zu bytes at %p", memory.size(), static_cast<const void*>(memory.data()));
  // Random, so that a key of an earlier link or process names nothing here.
  uint32_t remote_key = 0;
  while (remote_key == 0 || !RingOf(remote_key).empty()) {
    remote_key = static_cast<uint32_t>(base::SystemRandom());
  }
  rings_.push_back({remote_key, memory});
  return {0, remote_key};
}

std::span<uint8_t> TcpLink::RingOf(uint32_t remote_key) const {
  for (const Ring& ring : rings_) {
    if (ring.remote_key == remote_key) {
      return ring.memory;
    }
  }
  return {};
}

void TcpLink::PostReceives(LaneId lane, uint32_t count) {
  LaneOf(lane)->AddReceives(count);
}

OpResult TcpLink::PostWrite(LaneId lane, RingKey ring, uint64_t offset,
                            std::span<const iovec> pieces, uint32_t immediate, uint64_t wr_id) {
  KVS_CHECK(lanes_open_ && lane < lane_count_, "link=%llu lane=%u lane_count=%u",
            static_cast<unsigned long long>(id_), lane, lane_count_);
  const OpResult result = lanes_[lane]->Post(ring.remote_key, offset, pieces, immediate, wr_id);
  if (result == OpResult::kOk) {
    MarkDirty();
  }
  return result;
}

void TcpLink::MarkDirty() {
  if (!is_dirty_) {
    is_dirty_ = true;
    context_->dirty.push_back(this);
  }
}

void TcpLink::Fail(const absl::Status& why) {
  if (is_live()) {
    Shut(why);
  }
}

void TcpLink::Shut(const absl::Status& why) {
  if (!is_live()) {
    return;
  }
  if (state_ == State::kOpen) {
    SayGoodbye(why);
  }
  state_ = State::kClosed;
  why_ = why;
  rings_.clear();
  token_ = Id128{};
  for (const auto& lane : lanes_) {
    lane->Drop();
  }
  if (fd_ >= 0) {
    context_->poller.Remove(fd_, this);
    DropSocket(fd_);
    fd_ = -1;
  }
  context_->closed.push_back(this);
}

// Best effort: whatever the socket takes right now of the queued messages and the reason.
void TcpLink::SayGoodbye(const absl::Status& why) {
  const std::string_view text = std::string_view(why.message().data(), why.message().size());
  Queue(ControlKind::kGoodbye, BytesOf(text.substr(0, kGoodbyeBytesMax)));
  while (!out_.empty()) {
    const std::string& front = out_.front();
    const size_t left_bytes = front.size() - out_front_sent_;
    const ssize_t sent =
        ::send(fd_, front.data() + out_front_sent_, left_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 || static_cast<size_t>(sent) < left_bytes) {
      return;
    }
    out_front_sent_ = 0;
    out_.pop_front();
  }
}

void TcpLink::LaneLost(const absl::Status& why) {
  for (int i = 0; i < 64 && state_ == State::kOpen && ReceiveControl(); ++i) {
  }
  Fail(why);
}

void TcpLink::OnDeadline() {
  if (state_ == State::kGreeting) {
    ConnectFailed(absl::DeadlineExceededError(
        was_writable_ ? "the peer accepts connections but does not answer (is that address a "
                        "kvstored replication port?)"
                      : "no answer"));
  } else if (state_ == State::kResolving) {
    Fail(absl::DeadlineExceededError("resolving " + target_ + " takes too long"));
  } else {
    Fail(absl::DeadlineExceededError("the lanes did not open in time"));
  }
}

void TcpLink::Flush() {
  if (fd_ >= 0) {
    FlushControl();
  }
  // By index: upcalls may add lanes, and close the link.
  for (size_t i = 0; i < lanes_.size() && is_live(); ++i) {
    lanes_[i]->Flush();
  }
}

void TcpLink::FlushControl() {
  while (!out_.empty()) {
    std::array<iovec, 16> pieces;
    size_t count = 0;
    size_t offered_bytes = 0;
    for (const std::string& framed : out_) {
      if (count == pieces.size()) {
        break;
      }
      const size_t skip_bytes = count == 0 ? out_front_sent_ : 0;
      pieces[count++] = {const_cast<char*>(framed.data()) + skip_bytes, framed.size() - skip_bytes};
      offered_bytes += framed.size() - skip_bytes;
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && IsTransient(errno)) {
      WatchWritable(true);
      return;
    }
    if (sent < 0) {
      const absl::Status why = SocketError("sending", errno);
      if (state_ == State::kGreeting) {
        ConnectFailed(why);
      } else {
        LaneLost(why);
      }
      return;
    }
    was_writable_ = true;
    context_->progress_count += static_cast<uint64_t>(sent);
    out_bytes_ -= static_cast<size_t>(sent);
    out_front_sent_ += static_cast<size_t>(sent);
    while (!out_.empty() && out_front_sent_ >= out_.front().size()) {
      out_front_sent_ -= out_.front().size();
      out_.pop_front();
    }
    if (static_cast<size_t>(sent) < offered_bytes) {
      WatchWritable(true);
      return;
    }
  }
  WatchWritable(false);
}

void TcpLink::WatchWritable(bool on) {
  if (on != watches_writable_) {
    watches_writable_ = on;
    context_->poller.Modify(fd_, on ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
  }
}

void TcpLink::OnReady(uint32_t events) {
  if ((events & (EPOLLOUT | EPOLLERR)) != 0) {
    FlushControl();
  }
  if (fd_ >= 0 && (events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) {
    ReceiveControl();
  }
}

}  // namespace kvstored::fabric
