// Fabric: the only thing replication knows of a network. Shaped after RDMA Write-with-Immediate
// (ibv_post_send(3), ibv_poll_cq(3)); `fabric/tcp` gives the same semantics over sockets, tests/sim
// an in-memory one with faults, fabric/verbs real queue pairs.
//
// A *link* is one peer: an ordered, reliable message channel (handshake, control) and `lane_count`
// *lanes*. A lane carries write-with-immediate one way each: bytes land in a ring that the peer
// registered, then the peer's OnWrite tells the immediate. Order is kept inside one lane only, and
// between a lane and the message channel there is none.
//
// Credits: every arriving write consumes one receive that the receiver posted on that lane. The
// engine above keeps count, so that a write never meets an empty receive queue; a fabric treats
// that as an error of the link (RNR exceeded), never as a wait.
//
// Thread label: one owner thread calls everything but Wake().
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstored/op_result.h"

namespace kvstored {

using LinkId = uint64_t;  // never reused; a call with a closed link's id does nothing
using LaneId = uint16_t;

// What the peer needs to write into a ring (address and rkey on verbs). Travels in control
// messages.
struct RingKey {
  uint64_t address = 0;
  uint32_t remote_key = 0;
};

class FabricHandler {
 public:
  virtual ~FabricHandler() = default;
  // A peer connected to our listener; `peer` is "ip:port", `loopback` is true for 127/8 and ::1.
  virtual void OnAccepted(LinkId link, std::string_view peer, bool loopback) = 0;
  virtual void OnConnected(LinkId link) = 0;
  // One whole message, as it was sent. Borrowed for the call.
  virtual void OnMessage(LinkId link, std::span<const uint8_t> message) = 0;
  // The lanes that either side asked for are usable in both directions.
  virtual void OnLanesOpen(LinkId link, LaneId lane_count) = 0;
  // A write arrived: its bytes, and those of every earlier write of this lane, are visible in the
  // ring. One posted receive of the lane is used up.
  virtual void OnWrite(LinkId link, LaneId lane, uint32_t immediate) = 0;
  // The pieces of the write `wr_id` (and of all earlier ones on this lane) may be reused. Proves
  // nothing about arrival at the peer: that is known from its watermarks alone.
  virtual void OnPosted(LinkId link, LaneId lane, uint64_t wr_id) = 0;
  // The link is gone (peer closed, error, Close()). No further upcall names it; every posted source
  // may be reused, every registered ring is unregistered and no byte lands in it any more.
  virtual void OnClosed(LinkId link, const absl::Status& why) = 0;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;  // "tcp", "verbs", "sim"

  // `address` "ip:port". Port 0 picks one; returns the bound "ip:port".
  [[nodiscard]] virtual absl::StatusOr<std::string> Listen(const std::string& address) = 0;
  // Starts to connect to "host:port"; ends in OnConnected or OnClosed.
  virtual LinkId Connect(const std::string& address) = 0;
  // Queues one message (at most 1 MiB) on a connected link. What is still queued at a Close may or
  // may not arrive: whoever must be heard (a refusal, say) lets the peer close.
  virtual void Send(LinkId link, std::span<const uint8_t> message) = 0;
  // Opens the lanes (1 .. 64) of a connected link. The connecting side calls it once, after
  // admission.
  virtual void OpenLanes(LinkId link, LaneId lane_count) = 0;

  // Lets the peer of this link write to `memory` (a power of two of bytes, page-aligned) until the
  // link closes. The caller keeps the memory alive until OnClosed. Any time after OnConnected or
  // OnAccepted; several rings a link. (A closed link: remote_key 0, which never names a ring.)
  virtual RingKey RegisterRing(LinkId link, std::span<uint8_t> memory) = 0;
  // Lets the peer send `count` more writes on the lane. Allowed before OnLanesOpen too (from
  // OnConnected or OnAccepted on), so that the first write of the peer meets a receive.
  virtual void PostReceives(LinkId link, LaneId lane, uint32_t count) = 0;
  // Write-with-immediate of the gathered pieces to the peer's ring at `offset` (must not wrap). The
  // pieces stay untouched until OnPosted(wr_id) or OnClosed; the iovec array itself is copied.
  // After OnLanesOpen. It may leave with the next Poll. kOk, or kWait: the send queue is full,
  // nothing was posted, try again after the next OnPosted. On a closed link kOk: flushed, OnClosed
  // gives the pieces back. No pieces at all are allowed (the immediate travels alone); devices
  // gather few pieces (verbs: often 16 to 30), so join small ones.
  virtual OpResult PostWrite(LinkId link, LaneId lane, RingKey ring, uint64_t offset,
                             std::span<const iovec> pieces, uint32_t immediate, uint64_t wr_id) = 0;
  // Ends the link: nothing that the peer sends afterwards has any effect here, from the return of
  // this call on (fencing). OnClosed follows in a later Poll.
  virtual void Close(LinkId link, const absl::Status& why) = 0;

  // Makes progress and delivers upcalls; waits at most `timeout_us` when there is nothing to do.
  // Returns whether anything happened.
  virtual bool Poll(int64_t timeout_us, FabricHandler* handler) = 0;
  // Ends a waiting Poll early. Thread-safe.
  virtual void Wake() = 0;
};

}  // namespace kvstored
