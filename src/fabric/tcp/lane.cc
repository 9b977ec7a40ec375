#include "fabric/tcp/lane.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"
#include "fabric/tcp/link.h"
#include "fabric/tcp/socket.h"

namespace kvstored::fabric {
namespace {

// Pieces of one sendmsg; a longer gather list takes several calls.
constexpr size_t kGatherMax = 128;
constexpr size_t kBufferBytes = size_t{64} << 10;

}  // namespace

TcpLane::TcpLane(TcpContext* context, TcpLink* link, LaneId id)
    : context_(context), link_(link), id_(id) {
}

TcpLane::~TcpLane() {
  Drop();
}

void TcpLane::Adopt(int fd, std::string introduction) {
  KVS_CHECK(fd_ < 0, "lane %u has a connection", id_);
  fd_ = fd;
  SetLinkOptions(fd, context_->options.link_timeout_us);
  introduction_ = std::move(introduction);
  frames_.resize(context_->options.send_queue_depth);
  buffer_ = std::make_unique<uint8_t[]>(kBufferBytes);
  watches_writable_ = !introduction_.empty();  // a connect under way ends in EPOLLOUT
  context_->poller.Add(fd_, watches_writable_ ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
}

void TcpLane::Drop() {
  if (fd_ >= 0) {
    context_->poller.Remove(fd_, this);
    DropSocket(fd_);
    fd_ = -1;
  }
  frame_count_ = 0;
}

OpResult TcpLane::Post(uint32_t ring_key, uint64_t offset, std::span<const iovec> pieces,
                       uint32_t immediate, uint64_t wr_id) {
  if (frame_count_ == frames_.size()) {
    return OpResult::kWait;
  }
  Frame& frame = frames_[(frame_head_ + frame_count_) % frames_.size()];
  frame.pieces.assign(pieces.begin(), pieces.end());
  frame.size_bytes = 0;
  for (const iovec& piece : pieces) {
    frame.size_bytes += piece.iov_len;
  }
  KVS_CHECK(frame.size_bytes <= UINT32_MAX, "a write of %zu bytes", frame.size_bytes);
  StoreLaneHeader(frame.header,
                  {ring_key, offset, static_cast<uint32_t>(frame.size_bytes), immediate});
  frame.size_bytes += kLaneHeaderBytes;
  frame.wr_id = wr_id;
  ++frame_count_;
  return OpResult::kOk;
}

// The next bytes to send, as pieces. Returns how many bytes they are.
size_t TcpLane::Gather(std::span<iovec> out, size_t* piece_count) const {
  size_t total_bytes = 0;
  size_t count = 0;
  size_t skip_bytes = front_sent_bytes_;
  const auto add = [&](const void* data, size_t size_bytes) {
    if (skip_bytes >= size_bytes) {
      skip_bytes -= size_bytes;
      return;
    }
    out[count++] = {const_cast<uint8_t*>(static_cast<const uint8_t*>(data)) + skip_bytes,
                    size_bytes - skip_bytes};
    total_bytes += size_bytes - skip_bytes;
    skip_bytes = 0;
  };
  if (!introduction_.empty()) {
    out[count++] = {const_cast<char*>(introduction_.data()), introduction_.size()};
    total_bytes += introduction_.size();
  }
  for (uint32_t i = 0; i < frame_count_; ++i) {
    const Frame& frame = frames_[(frame_head_ + i) % frames_.size()];
    if (count == out.size() || total_bytes >= context_->options.lane_bytes_per_poll) {
      break;
    }
    add(frame.header, kLaneHeaderBytes);
    for (size_t piece = 0; piece < frame.pieces.size() && count < out.size(); ++piece) {
      add(frame.pieces[piece].iov_base, frame.pieces[piece].iov_len);
    }
  }
  *piece_count = count;
  return total_bytes;
}

bool TcpLane::CompleteSent(size_t sent_bytes) {
  const size_t introduced = std::min(sent_bytes, introduction_.size());
  introduction_.erase(0, introduced);
  front_sent_bytes_ += sent_bytes - introduced;
  while (frame_count_ > 0 && front_sent_bytes_ >= frames_[frame_head_].size_bytes) {
    front_sent_bytes_ -= frames_[frame_head_].size_bytes;
    const uint64_t wr_id = frames_[frame_head_].wr_id;
    frame_head_ = (frame_head_ + 1) % static_cast<uint32_t>(frames_.size());
    --frame_count_;
    context_->handler->OnPosted(link_->id(), id_, wr_id);
    if (fd_ < 0) {
      return false;
    }
  }
  return true;
}

void TcpLane::Flush() {
  size_t budget_bytes = context_->options.lane_bytes_per_poll;
  while (fd_ >= 0 && (frame_count_ > 0 || !introduction_.empty())) {
    if (budget_bytes == 0) {
      link_->MarkDirty();  // goes on in the next Poll, after the others had their turn
      return;
    }
    std::array<iovec, kGatherMax> pieces;
    msghdr message{};
    message.msg_iov = pieces.data();
    const size_t offered_bytes = Gather(pieces, &message.msg_iovlen);
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    ++context_->counters.send_call_count;
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0 && IsTransient(errno)) {
      WatchWritable(true);
      return;
    }
    if (sent < 0) {
      link_->LaneLost(SocketError("sending on lane " + std::to_string(id_), errno));
      return;
    }
    const auto sent_bytes = static_cast<size_t>(sent);
    context_->progress_count += sent_bytes;
    budget_bytes -= std::min(budget_bytes, sent_bytes);
    if (!CompleteSent(sent_bytes)) {
      return;
    }
    if (sent_bytes < offered_bytes) {  // the socket's buffer is full
      WatchWritable(true);
      return;
    }
  }
  if (fd_ >= 0) {
    WatchWritable(false);
  }
}

void TcpLane::WatchWritable(bool on) {
  if (on != watches_writable_) {
    watches_writable_ = on;
    context_->poller.Modify(fd_, on ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
  }
}

void TcpLane::OnReady(uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    Flush();
  }
  if (fd_ >= 0 && (events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) {
    Receive();
  }
}

// The rest of a payload goes straight to the ring, whatever follows it into the buffer, in one
// call.
void TcpLane::Receive() {
  size_t budget_bytes = context_->options.lane_bytes_per_poll;
  while (budget_bytes > 0 && fd_ >= 0) {
    const size_t direct_bytes = payload_left_bytes_;
    const size_t room_bytes = kBufferBytes - buffered_bytes_;
    iovec pieces[2] = {{payload_to_, direct_bytes}, {buffer_.get() + buffered_bytes_, room_bytes}};
    msghdr message{};
    message.msg_iov = direct_bytes > 0 ? pieces : pieces + 1;
    message.msg_iovlen = direct_bytes > 0 ? 2 : 1;
    const ssize_t got = ::recvmsg(fd_, &message, MSG_DONTWAIT);
    ++context_->counters.receive_call_count;
    if (got <= 0) {
      if (got == 0) {
        link_->LaneLost(absl::UnavailableError("the peer closed lane " + std::to_string(id_)));
      } else if (!IsTransient(errno)) {
        link_->LaneLost(SocketError("receiving on lane " + std::to_string(id_), errno));
      }
      return;
    }
    const auto got_bytes = static_cast<size_t>(got);
    context_->progress_count += got_bytes;
    budget_bytes -= std::min(budget_bytes, got_bytes);
    const size_t landed_bytes = std::min(got_bytes, direct_bytes);
    payload_to_ += landed_bytes;
    payload_left_bytes_ -= landed_bytes;
    if (in_frame_ && payload_left_bytes_ == 0 && !EndFrame()) {
      return;
    }
    if (got_bytes > landed_bytes && !TakeBuffered(buffered_bytes_ + got_bytes - landed_bytes)) {
      return;
    }
    if (got_bytes < direct_bytes + room_bytes) {
      return;  // most likely all there was; the poller knows better
    }
  }
}

bool TcpLane::TakeBuffered(size_t end) {
  const uint8_t* at = buffer_.get();
  const uint8_t* const stop = at + end;
  while (static_cast<size_t>(stop - at) >= kLaneHeaderBytes) {
    if (!BeginFrame(LoadLaneHeader(at))) {
      return false;
    }
    at += kLaneHeaderBytes;
    const size_t here_bytes = std::min(payload_left_bytes_, static_cast<size_t>(stop - at));
    if (here_bytes > 0) {
      std::memcpy(payload_to_, at, here_bytes);
      payload_to_ += here_bytes;
      payload_left_bytes_ -= here_bytes;
      at += here_bytes;
    }
    if (payload_left_bytes_ > 0) {
      break;
    }
    if (!EndFrame()) {
      return false;
    }
  }
  buffered_bytes_ = static_cast<size_t>(stop - at);
  std::memmove(buffer_.get(), at, buffered_bytes_);
  return true;
}

// Nothing of a frame lands before its key, its bounds and its credit are checked.
bool TcpLane::BeginFrame(const LaneHeader& header) {
  const std::span<uint8_t> ring = link_->RingOf(header.ring_key);
  if (ring.empty()) {
    link_->Fail(absl::AbortedError("a write on lane " + std::to_string(id_) +
                                   " names no registered ring (stale key " +
                                   std::to_string(header.ring_key) + ")"));
    return false;
  }
  if (header.offset > ring.size() || header.length > ring.size() - header.offset) {
    link_->Fail(absl::AbortedError("a write of " + std::to_string(header.length) + " bytes at " +
                                   std::to_string(header.offset) + " passes the end of a ring of " +
                                   std::to_string(ring.size())));
    return false;
  }
  if (receive_count_ == 0) {
    link_->Fail(absl::AbortedError("receive credits of lane " + std::to_string(id_) +
                                   " exceeded: a write met no posted receive"));
    return false;
  }
  --receive_count_;
  payload_to_ = ring.data() + header.offset;
  payload_left_bytes_ = header.length;
  immediate_ = header.immediate;
  in_frame_ = true;
  return true;
}

bool TcpLane::EndFrame() {
  in_frame_ = false;
  ++context_->progress_count;
  context_->handler->OnWrite(link_->id(), id_, immediate_);
  return fd_ >= 0;
}

}  // namespace kvstored::fabric
