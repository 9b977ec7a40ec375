// Fabric over TCP sockets, for nodes without an RDMA device: the same semantics as
// write-with-immediate on queue pairs, with an epoll loop of its own. One control connection a
// link, one connection a lane (wire.h has the bytes, link.h the steps).
//
// What differs from queue pairs, inside the contract: OnPosted means that the local kernel has
// copied the pieces; a write without a receive is an error at once, without retries.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "fabric/tcp/acceptor.h"
#include "fabric/tcp/context.h"
#include "fabric/tcp/link.h"
#include "fabric/tcp/resolver.h"
#include "fabric/tcp/tcp_options.h"
#include "kvstored/clock.h"
#include "kvstored/fabric.h"

namespace kvstored::fabric {

// One owner thread for everything but Wake(). Upcalls are made inside Poll only. Posts and messages
// leave in Poll: one system call for many of them.
class TcpFabric final : public Fabric {
 public:
  // `clock` outlives the fabric and serves time-outs only.
  TcpFabric(const TcpOptions& options, Clock* clock);
  // Drops every link without upcalls.
  ~TcpFabric() override;
  TcpFabric(const TcpFabric&) = delete;
  TcpFabric& operator=(const TcpFabric&) = delete;

  std::string_view name() const override {
    return "tcp";
  }
  // A numeric address; may be called for several.
  [[nodiscard]] absl::StatusOr<std::string> Listen(const std::string& address) override;
  // A host name is resolved on a thread of its own, so this never blocks; its addresses are tried
  // one after the other.
  LinkId Connect(const std::string& address) override;
  void Send(LinkId link, std::span<const uint8_t> message) override;
  void OpenLanes(LinkId link, LaneId lane_count) override;
  RingKey RegisterRing(LinkId link, std::span<uint8_t> memory) override;
  void PostReceives(LinkId link, LaneId lane, uint32_t count) override;
  OpResult PostWrite(LinkId link, LaneId lane, RingKey ring, uint64_t offset,
                     std::span<const iovec> pieces, uint32_t immediate, uint64_t wr_id) override;
  void Close(LinkId link, const absl::Status& why) override;
  bool Poll(int64_t timeout_us, FabricHandler* handler) override;
  void Wake() override;

  const TcpCounters& counters() const {
    return context_.counters;
  }
  // Accepted connections that have not introduced themselves.
  size_t unfinished_handshake_count() const {
    return acceptor_.unfinished_count();
  }

 private:
  TcpLink* LiveLink(LinkId id);
  TcpLink* AddLink(bool is_accepted);
  bool OnIntroduced(int fd, const Introduction& introduction);
  void TakeResolved();
  void RunDeadlines();
  int64_t WaitUs(int64_t timeout_us) const;
  void FlushDirty();
  void TellClosed();

  TcpContext context_;
  std::atomic<bool> names_resolved_{false};
  Resolver resolver_;
  Acceptor acceptor_;
  std::unordered_map<LinkId, std::unique_ptr<TcpLink>> links_;
  LinkId next_link_ = 1;
  size_t accepted_link_count_ = 0;
};

}  // namespace kvstored::fabric
