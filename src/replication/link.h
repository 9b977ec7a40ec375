// What all parts of the engine share, and the base of everything that owns a link. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/random.h"
#include "replication/handshake.h"
#include "replication/replication.h"
#include "replication/wire.h"

namespace kvstored::replication {

class Link;

// Implemented by the engine.
class LinkHost {
 public:
  virtual ~LinkHost() = default;
  // From now on the link's upcalls go to `successor`; the old owner lives until the end of the
  // Step.
  virtual void Replace(LinkId link, std::unique_ptr<Link> successor) = 0;
  // Connects; the owner is told through its upcalls. Returns it, borrowed until OnClosed returned.
  virtual Link* Connect(const std::string& address, std::unique_ptr<Link> owner) = 0;
  // A replica asks to join (accepted link, admitted). Takes over the link or refuses on it.
  virtual void Admit(Link* link, const Hello& hello, const std::string& peer_host) = 0;
};

// What is on its way to the log is there soon.
inline constexpr int64_t kReadAgainUs = 1'000;

struct EngineContext {
  ReplicationOptions options;
  Fabric* fabric = nullptr;
  Clock* clock = nullptr;
  NodeState* state = nullptr;
  ApplySink* sink = nullptr;
  RecordSource* source = nullptr;
  LinkHost* host = nullptr;
  ProgressTable* progress = nullptr;
  ReplicationCounters* counters = nullptr;
  base::Random* random = nullptr;
  std::function<void(ShardId)> progress_moved;
  bool log_awaited = false;  // a stream asks the log again soon (kReadAgainUs)
  // Runs the work in a coming drain of the inbox. Thread-safe, outlives the engine (then drops it).
  std::function<void(std::function<void()>)> post;
  // Facts() completed by what the engine knows better: a primary's ends, committed, members.
  std::function<NodeFacts()> facts;

  Nonce NewNonce() const {
    Nonce nonce;
    for (auto& byte : nonce) {
      byte = static_cast<uint8_t>(random->Next());
    }
    return nonce;
  }
  int64_t now_us() const {
    return clock->MonotonicUs();
  }
};

// Gives callbacks that arrive late a way to see that their owner is gone.
class Alive {
 public:
  // A function of the same arguments that may be called once on any thread: `f` runs on the
  // replication thread, in a coming drain, unless the owner of this Alive is gone by then.
  template <typename Arg, typename F>
  std::function<void(Arg)> Guard(const EngineContext& context, F f) const {
    return [post = context.post, token = std::weak_ptr<int>(token_), f = std::move(f)](Arg arg) {
      post([token, f, arg = std::move(arg)]() mutable {
        if (!token.expired()) {
          f(std::move(arg));
        }
      });
    };
  }

 private:
  std::shared_ptr<int> token_ = std::make_shared<int>(0);
};

class Link {
 public:
  explicit Link(EngineContext* context) : context_(context), last_heard_us_(context->now_us()) {
  }
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  virtual void OnConnected() {
  }
  virtual void OnMessage(Message& message) = 0;
  virtual void OnLanesOpen(LaneId /*lane_count*/) {
  }
  virtual void OnWrite(LaneId /*lane*/, uint32_t /*immediate*/) {
  }
  virtual void OnPosted(LaneId /*lane*/, uint64_t /*wr_id*/) {
  }
  // The owner is destroyed at the end of the Step.
  virtual void OnClosed(const absl::Status& why) = 0;
  // The next moment at which OnTimer wants to be called.
  virtual int64_t timer_us() const {
    return last_heard_us_ + context_->options.link_timeout_us;
  }
  virtual void OnTimer(int64_t now_us) {
    if (now_us >= last_heard_us_ + context_->options.link_timeout_us) {
      Close(absl::DeadlineExceededError("nothing was heard from the peer for link_timeout"));
    }
  }
  // Before the peer is admitted nothing longer is decoded.
  virtual size_t message_bytes_max() const {
    return kMessageBytesMax;
  }

  LinkId id() const {
    return id_;
  }
  void set_id(LinkId id) {
    id_ = id;
  }
  void NoteHeard(int64_t now_us) {
    last_heard_us_ = now_us;
  }
  int64_t last_heard_us() const {
    return last_heard_us_;
  }
  bool closing() const {
    return closing_;
  }

  void Send(const Message& message) {
    if (!closing_) {
      const std::vector<uint8_t> bytes = EncodeMessage(message);
      if (bytes.size() > kMessageBytesMax) {
        Close(absl::ResourceExhaustedError("a control message grew beyond 1 MiB: too many epochs"));
        return;
      }
      context_->fabric->Send(id_, bytes);
    }
  }
  // Fences at once; OnClosed follows.
  void Close(const absl::Status& why) {
    if (!closing_) {
      closing_ = true;
      context_->fabric->Close(id_, why);
    }
  }
  // Says why, and gives the message time to arrive: the peer is expected to close.
  void RefuseAndLinger(Refused refused) {
    Send(refused);
    lingering_ = true;
  }
  bool lingering() const {
    return lingering_;
  }

 protected:
  EngineContext* const context_;
  Alive alive_;

 private:
  LinkId id_ = 0;
  int64_t last_heard_us_;
  bool closing_ = false;
  bool lingering_ = false;
};

}  // namespace kvstored::replication
