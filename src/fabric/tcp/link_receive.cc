// The control connection's incoming half: greeting, messages, set-up of lanes.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/random.h"
#include "fabric/tcp/link.h"

namespace kvstored::fabric {
namespace {

// Text from the wire goes to logs: printable ASCII only.
std::string Printable(std::span<const uint8_t> bytes) {
  std::string text(bytes.begin(), bytes.end());
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

}  // namespace

// What arrives grows `in_` as it comes, never by a length that a peer only announces.
bool TcpLink::ReceiveControl() {
  std::vector<uint8_t>& scratch = context_->scratch;
  const ssize_t got = ::recv(fd_, scratch.data(), scratch.size(), MSG_DONTWAIT);
  if (got <= 0) {
    if (got < 0 && IsTransient(errno)) {
      return false;
    }
    const absl::Status why = got == 0 ? absl::UnavailableError("the peer closed the connection")
                                      : SocketError("receiving", errno);
    if (state_ == State::kGreeting) {
      ConnectFailed(why);
    } else {
      Fail(why);
    }
    return false;
  }
  context_->progress_count += static_cast<uint64_t>(got);
  in_.insert(in_.end(), scratch.begin(), scratch.begin() + got);
  size_t taken_bytes = 0;
  for (;;) {
    size_t item_bytes = 0;
    if (!TakeItem(in_.data() + taken_bytes, in_.size() - taken_bytes, &item_bytes)) {
      return false;
    }
    if (item_bytes == 0) {
      break;
    }
    taken_bytes += item_bytes;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(taken_bytes));
  return true;
}

bool TcpLink::TakeItem(const uint8_t* at, size_t available_bytes, size_t* item_bytes) {
  if (available_bytes == 0) {
    return true;
  }
  if (state_ == State::kGreeting) {
    const size_t compared_bytes = std::min(available_bytes, kMagicBytes);
    if (std::memcmp(at, kMagic, compared_bytes) != 0) {
      addresses_.clear();
      ConnectFailed(absl::FailedPreconditionError(
          "the answer is not a kvstored replication port's: \"" +
          Printable({at, std::min<size_t>(available_bytes, 32)}) + "\""));
      return false;
    }
    if (available_bytes < kGreetingBytes) {
      return true;
    }
    if (at[kMagicBytes] != kWireVersion) {
      addresses_.clear();
      ConnectFailed(absl::FailedPreconditionError(
          "the peer's fabric version is " + std::to_string(at[kMagicBytes]) + ", ours is " +
          std::to_string(kWireVersion) + ": run the same release on both nodes"));
      return false;
    }
    state_ = State::kOpen;
    deadline_us_ = INT64_MAX;
    *item_bytes = kGreetingBytes;
    context_->handler->OnConnected(id_);
    return is_live();
  }
  if (available_bytes < kControlHeaderBytes) {
    return true;
  }
  const uint32_t length = base::LoadBe32(at);
  if (length == 0 || length > kMessageBytesMax + 1) {
    Fail(absl::DataLossError("a message of " + std::to_string(length) +
                             " bytes on the control connection; 1 MiB is the limit"));
    return false;
  }
  if (available_bytes < 4 + size_t{length}) {
    return true;
  }
  *item_bytes = 4 + size_t{length};
  TakeControl(static_cast<ControlKind>(at[4]), {at + kControlHeaderBytes, length - 1});
  return is_live();
}

void TcpLink::TakeControl(ControlKind kind, std::span<const uint8_t> bytes) {
  ++context_->progress_count;
  switch (kind) {
    case ControlKind::kMessage:
      context_->handler->OnMessage(id_, bytes);
      return;
    case ControlKind::kOpenLanes:
      TakeOpenLanes(bytes);
      return;
    case ControlKind::kLanesOffer:
      TakeLanesOffer(bytes);
      return;
    case ControlKind::kLanesReady:
      if (is_accepted_ || lanes_open_ || token_.empty()) {
        break;
      }
      lanes_open_ = true;
      deadline_us_ = INT64_MAX;
      context_->handler->OnLanesOpen(id_, lane_count_);
      return;
    case ControlKind::kGoodbye:
      Shut(absl::UnavailableError(
          "the peer closed the link: " +
          (bytes.empty() ? "done"
                         : Printable(bytes.first(std::min(bytes.size(), kGoodbyeBytesMax))))));
      return;
  }
  Fail(absl::DataLossError("an unexpected item of kind " +
                           std::to_string(static_cast<unsigned>(kind)) +
                           " on the control connection"));
}

void TcpLink::TakeOpenLanes(std::span<const uint8_t> bytes) {
  const LaneId lane_count = bytes.size() == 2 ? base::LoadBe16(bytes.data()) : LaneId{0};
  if (!is_accepted_ || lane_count_ != 0 || lane_count == 0 || lane_count > kLaneCountMax) {
    Fail(absl::DataLossError("a bad request for lanes (1 to " + std::to_string(kLaneCountMax) +
                             ", once): " + std::to_string(lane_count)));
    return;
  }
  lane_count_ = lane_count;
  LaneOf(static_cast<LaneId>(lane_count - 1));
  deadline_us_ = context_->clock->MonotonicUs() + context_->options.handshake_timeout_us;
  while (token_.empty()) {
    const uint64_t halves[2] = {base::SystemRandom(), base::SystemRandom()};
    std::memcpy(token_.bytes.data(), halves, sizeof(halves));
  }
  Queue(ControlKind::kLanesOffer, token_.bytes);
}

void TcpLink::TakeLanesOffer(std::span<const uint8_t> bytes) {
  if (is_accepted_ || lane_count_ == 0 || !token_.empty() || bytes.size() != token_.bytes.size()) {
    Fail(absl::DataLossError("an offer of lanes that was not asked for"));
    return;
  }
  std::memcpy(token_.bytes.data(), bytes.data(), bytes.size());
  const SocketAddress peer = PeerAddress(fd_);
  for (LaneId lane = 0; lane < lane_count_; ++lane) {
    const absl::StatusOr<int> fd = StartConnect(peer);
    if (!fd.ok()) {
      Fail(absl::Status(fd.status().code(), "opening lane " + std::to_string(lane) + ": " +
                                                std::string(fd.status().message())));
      return;
    }
    uint8_t introduction[kIntroductionBytes];
    StoreIntroduction(introduction, kLaneConnection, lane, token_);
    LaneOf(lane)->Adopt(
        *fd, std::string(reinterpret_cast<const char*>(introduction), kIntroductionBytes));
  }
}

}  // namespace kvstored::fabric
