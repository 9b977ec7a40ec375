// One lane: one TCP connection with frames both ways (wire.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/poller.h"
#include "fabric/tcp/context.h"
#include "fabric/tcp/wire.h"

namespace kvstored::fabric {

class TcpLink;

// One owner thread. Lives as long as its link's object; Drop() ends its connection.
class TcpLane final : public base::PollTarget {
 public:
  TcpLane(TcpContext* context, TcpLink* link, LaneId id);
  ~TcpLane() override;
  TcpLane(const TcpLane&) = delete;
  TcpLane& operator=(const TcpLane&) = delete;

  // Takes over a connection, or a connect under way; `introduction` is sent first.
  void Adopt(int fd, std::string introduction);
  bool has_connection() const {
    return fd_ >= 0;
  }
  void Drop();

  void AddReceives(uint32_t count) {
    receive_count_ += count;
  }
  OpResult Post(uint32_t ring_key, uint64_t offset, std::span<const iovec> pieces,
                uint32_t immediate, uint64_t wr_id);
  // Sends what is queued, up to the budget, and tells OnPosted of what the kernel has copied.
  // Inside Poll only.
  void Flush();
  void OnReady(uint32_t events) override;

 private:
  // A queued write. The pieces are the poster's until OnPosted: the kernel copies them in sendmsg.
  struct Frame {
    uint8_t header[kLaneHeaderBytes];
    std::vector<iovec> pieces;  // keeps its capacity: no allocation once warm
    size_t size_bytes = 0;      // header and pieces
    uint64_t wr_id = 0;
  };

  size_t Gather(std::span<iovec> out, size_t* piece_count) const;
  // False: the link was closed by an upcall.
  bool CompleteSent(size_t sent_bytes);
  void WatchWritable(bool on);
  void Receive();
  // Both false: the link is closed.
  bool TakeBuffered(size_t end);
  bool BeginFrame(const LaneHeader& header);
  bool EndFrame();

  TcpContext* const context_;
  TcpLink* const link_;
  const LaneId id_;
  int fd_ = -1;
  bool watches_writable_ = false;

  std::string introduction_;   // unsent rest
  std::vector<Frame> frames_;  // ring of send_queue_depth
  uint32_t frame_head_ = 0;
  uint32_t frame_count_ = 0;
  size_t front_sent_bytes_ = 0;

  uint64_t receive_count_ = 0;         // posted and not used up
  std::unique_ptr<uint8_t[]> buffer_;  // headers and small payloads
  size_t buffered_bytes_ = 0;          // an unfinished header at its start
  uint8_t* payload_to_ = nullptr;      // where the rest of the payload lands
  size_t payload_left_bytes_ = 0;
  bool in_frame_ = false;
  uint32_t immediate_ = 0;
};

}  // namespace kvstored::fabric
