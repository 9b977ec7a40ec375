// Two nodes of one kind of fabric, driven from one thread, and a handler that records what it is
// told. The contract suite runs against every harness of this shape.
#pragma once

#include <sys/mman.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "kvstored/fabric.h"

namespace kvstored::fabric {

// Page-aligned memory, as RegisterRing wants it.
class RingMemory {
 public:
  explicit RingMemory(size_t size_bytes) : size_bytes_(size_bytes) {
    void* memory =
        ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    KVS_CHECK(memory != MAP_FAILED, "size=%zu", size_bytes);
    data_ = static_cast<uint8_t*>(memory);
  }
  ~RingMemory() {
    ::munmap(data_, size_bytes_);
  }
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  uint8_t* data() {
    return data_;
  }
  std::span<uint8_t> span() {
    return {data_, size_bytes_};
  }
  std::string Text(size_t offset, size_t size_bytes) const {
    return {reinterpret_cast<const char*>(data_) + offset, size_bytes};
  }

 private:
  uint8_t* data_;
  const size_t size_bytes_;
};

struct ArrivedWrite {
  LaneId lane;
  uint32_t immediate;
};

struct CompletedPost {
  LaneId lane;
  uint64_t wr_id;
};

// What one link was told, in order per kind.
struct LinkRecord {
  bool accepted = false;
  bool connected = false;
  std::string peer;
  bool loopback = false;
  LaneId lane_count = 0;
  std::vector<std::string> messages;
  std::vector<ArrivedWrite> writes;
  std::vector<CompletedPost> posted;
  std::optional<absl::Status> closed;
};

class Recorder final : public FabricHandler {
 public:
  void OnAccepted(LinkId link, std::string_view peer, bool loopback) override {
    LinkRecord& record = Live(link);
    record.accepted = true;
    record.peer = std::string(peer);
    record.loopback = loopback;
    last_accepted = link;
  }
  void OnConnected(LinkId link) override {
    Live(link).connected = true;
  }
  void OnMessage(LinkId link, std::span<const uint8_t> message) override {
    Live(link).messages.emplace_back(message.begin(), message.end());
    if (on_message) {
      on_message(link);
    }
  }
  void OnLanesOpen(LinkId link, LaneId lane_count) override {
    KVS_CHECK(Live(link).lane_count == 0, "lanes opened twice");
    Live(link).lane_count = lane_count;
  }
  void OnWrite(LinkId link, LaneId lane, uint32_t immediate) override {
    Live(link).writes.push_back({lane, immediate});
    if (on_write) {
      on_write(link, lane, immediate);
    }
  }
  void OnPosted(LinkId link, LaneId lane, uint64_t wr_id) override {
    Live(link).posted.push_back({lane, wr_id});
    if (on_posted) {
      on_posted(link, lane, wr_id);
    }
  }
  void OnClosed(LinkId link, const absl::Status& why) override {
    Live(link).closed = why;
    if (on_closed) {
      on_closed(link);
    }
  }

  LinkRecord& operator[](LinkId link) {
    return links[link];
  }

  std::map<LinkId, LinkRecord> links;
  LinkId last_accepted = 0;
  std::function<void(LinkId)> on_message;
  std::function<void(LinkId, LaneId, uint32_t)> on_write;
  std::function<void(LinkId, LaneId, uint64_t)> on_posted;
  std::function<void(LinkId)> on_closed;

 private:
  // No upcall may name a link after its OnClosed.
  LinkRecord& Live(LinkId link) {
    LinkRecord& record = links[link];
    KVS_CHECK(!record.closed.has_value(), "upcall for the closed link %llu",
              static_cast<unsigned long long>(link));
    return record;
  }
};

struct Node {
  std::unique_ptr<Fabric> fabric;
  Recorder told;
  LinkId link = 0;
  LinkRecord& record() {
    return told[link];
  }
};

// `server` listens, `client` connects.
class Harness {
 public:
  virtual ~Harness() = default;
  // Lets both nodes make progress once.
  virtual void Step() = 0;
  // A new fabric in place of the node's: its process died and came back.
  virtual void Restart(Node* node) = 0;

  // Steps until `done`; false when nothing came of it after very many steps.
  bool Until(const std::function<bool()>& done) {
    for (int i = 0; i < 200'000; ++i) {
      if (done()) {
        return true;
      }
      Step();
    }
    return done();
  }
  void Settle(int step_count = 50) {
    for (int i = 0; i < step_count; ++i) {
      Step();
    }
  }

  bool Listen() {
    const auto bound = server.fabric->Listen("127.0.0.1:0");
    address = bound.ok() ? *bound : "";
    return bound.ok();
  }
  // Links the two nodes; with lanes unless lane_count is 0.
  bool Link(LaneId lane_count) {
    if (address.empty() && !Listen()) {
      return false;
    }
    server.told.last_accepted = 0;
    client.link = client.fabric->Connect(address);
    if (!Until([&] { return client.record().connected && server.told.last_accepted != 0; })) {
      return false;
    }
    server.link = server.told.last_accepted;
    if (lane_count == 0) {
      return true;
    }
    client.fabric->OpenLanes(client.link, lane_count);
    return Until([&] {
      return client.record().lane_count == lane_count && server.record().lane_count == lane_count;
    });
  }

  Node server;
  Node client;
  std::string address;
};

}  // namespace kvstored::fabric
