// One link: the control connection, its lanes and the rings that the peer may write to.
//
//   connecting side                        accepting side
//   introduction(control)        ->        OnAccepted
//   OnConnected                  <-        greeting
//   OpenLanes: kOpenLanes        ->
//                                <-        kLanesOffer(token)
//   n x introduction(lane,token) ->        OnLanesOpen when all have arrived
//   OnLanesOpen                  <-        kLanesReady
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/poller.h"
#include "fabric/tcp/context.h"
#include "fabric/tcp/lane.h"
#include "fabric/tcp/socket.h"
#include "fabric/tcp/wire.h"
#include "kvstored/types.h"

namespace kvstored::fabric {

// One owner thread. The object outlives its Shut() until the end of that Poll, so that an upcall
// may close the link it is about.
class TcpLink final : public base::PollTarget {
 public:
  TcpLink(TcpContext* context, LinkId id, bool is_accepted);
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  LinkId id() const {
    return id_;
  }
  bool is_accepted() const {
    return is_accepted_;
  }
  // Neither closed nor failed. From the moment this is false no byte lands and no upcall but
  // OnClosed is made.
  bool is_live() const {
    return state_ != State::kClosed;
  }
  const absl::Status& why() const {
    return why_;
  }

  // Connecting side: the name is being resolved. `target` is for messages.
  void AwaitAddresses(std::string target);
  // Connecting side: tries one address after the other.
  void ConnectTo(std::vector<SocketAddress> addresses);
  // Accepting side: takes over an introduced connection. Makes the upcall OnAccepted.
  void Accept(int fd);
  // Accepting side: a connection that introduced itself as a lane. False: not expected (the caller
  // drops it).
  bool AcceptLane(int fd, LaneId lane, const Id128& token);

  void Send(std::span<const uint8_t> message);
  void OpenLanes(LaneId lane_count);
  RingKey RegisterRing(std::span<uint8_t> memory);
  void PostReceives(LaneId lane, uint32_t count);
  OpResult PostWrite(LaneId lane, RingKey ring, uint64_t offset, std::span<const iovec> pieces,
                     uint32_t immediate, uint64_t wr_id);

  // Fences: every connection is dropped, every ring unregistered. Says goodbye first if the socket
  // takes it.
  void Shut(const absl::Status& why);
  // The same for an error that this end found.
  void Fail(const absl::Status& why);
  // A lane's connection ended: perhaps the control connection has the peer's reason.
  void LaneLost(const absl::Status& why);

  // Sends messages and writes. Inside Poll only.
  void Flush();
  void MarkDirty();
  // Set by the fabric when it takes the link from the dirty list.
  void ClearDirty() {
    is_dirty_ = false;
  }
  // When the fabric must call OnDeadline; INT64_MAX: never.
  int64_t deadline_us() const {
    return is_live() ? deadline_us_ : INT64_MAX;
  }
  void OnDeadline();
  void OnReady(uint32_t events) override;

  // The registered memory, empty if there is none.
  std::span<uint8_t> RingOf(uint32_t remote_key) const;

 private:
  enum class State : uint8_t {
    kResolving,
    kGreeting,  // connecting, or waiting for the greeting
    kOpen,
    kClosed,
  };
  struct Ring {
    uint32_t remote_key;
    std::span<uint8_t> memory;
  };

  TcpLane* LaneOf(LaneId lane);
  void TryNextAddress();
  void ConnectFailed(const absl::Status& why);
  void Queue(ControlKind kind, std::span<const uint8_t> bytes);
  void FlushControl();
  // False: there was nothing, or the link is closed.
  bool ReceiveControl();
  // The size of the whole item at `at`, 0 if it has not arrived yet. False: the link is closed.
  bool TakeItem(const uint8_t* at, size_t available_bytes, size_t* item_bytes);
  void TakeControl(ControlKind kind, std::span<const uint8_t> bytes);
  void TakeOpenLanes(std::span<const uint8_t> bytes);
  void TakeLanesOffer(std::span<const uint8_t> bytes);
  void WatchWritable(bool on);
  void SayGoodbye(const absl::Status& why);

  TcpContext* const context_;
  const LinkId id_;
  const bool is_accepted_;
  State state_ = State::kResolving;
  absl::Status why_;
  int64_t deadline_us_ = INT64_MAX;
  int64_t connect_deadline_us_ = 0;  // of all addresses together
  bool is_dirty_ = false;

  int fd_ = -1;
  bool watches_writable_ = false;
  bool was_writable_ = false;  // the connect has succeeded
  std::string target_;
  std::vector<SocketAddress> addresses_;  // untried ones, last first
  std::deque<std::string> out_;           // framed; the first may be sent in part
  size_t out_front_sent_ = 0;
  size_t out_bytes_ = 0;
  std::vector<uint8_t> in_;  // the begin of an item that has not arrived wholly

  std::vector<std::unique_ptr<TcpLane>> lanes_;
  LaneId lane_count_ = 0;  // asked for or offered
  LaneId lanes_arrived_count_ = 0;
  bool lanes_open_ = false;
  Id128 token_;
  std::vector<Ring> rings_;
};

}  // namespace kvstored::fabric
