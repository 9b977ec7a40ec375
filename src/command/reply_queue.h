// What waits on its way to a client: the bytes that may leave now (Output), and before them the
// replies that are not complete, in the order of requests (ReplyQueue).
#pragma once

#include <cstdint>

#include "command/op.h"
#include "command/reply.h"
#include "net/conn_handler.h"

namespace kvstored::command {

// Moves the replies `from` (all of it) behind `to`.
void AppendReply(Reply* to, Reply* from);
// Cuts what stands behind the first `bytes` bytes and `external_count` externals off `from` and
// appends it to `to`.
void MoveTail(Reply* from, size_t bytes, size_t external_count, Reply* to);

// Invariant: what was handed to the kernel is never looked at again; a large value's slots are
// referenced until its last byte was.
class Output {
 public:
  // Committed replies, complete, in order: append to it.
  Reply* reply() {
    return &reply_;
  }
  bool empty() const {
    return sent_bytes_ == reply_.bytes.size() && next_external_ == reply_.externals.size();
  }
  // Copied bytes that wait; values by reference do not count, they are in the store's budget.
  size_t pending_bytes() const {
    return reply_.bytes.size() - sent_bytes_;
  }
  size_t held_bytes() const {
    return reply_.bytes.capacity();
  }
  enum class FlushResult : uint8_t {
    kEmpty,    // all has left
    kPending,  // the socket is full: OnWritable() comes
    kMore,     // the tick's budget is used up: call again in the next one
    kFailed,   // the connection is gone
  };
  // Sends what the socket takes, in one system call unless large values make it more.
  FlushResult Flush(net::Connection* connection);

 private:
  void Advance(uint64_t bytes);
  // Drops what has left from the front, when that is worth it.
  void Compact();

  Reply reply_;
  size_t sent_bytes_ = 0;       // of reply_.bytes
  size_t next_external_ = 0;    // first external that has not left whole
  uint64_t external_sent_ = 0;  // bytes of it that have
};

// Intrusive queue of ops in the order of requests.
class ReplyQueue {
 public:
  bool empty() const {
    return head_ == nullptr;
  }
  Op* head() const {
    return head_;
  }
  Op* tail() const {
    return tail_;
  }
  void Push(Op* op);
  // The first op, if its reply is complete; null otherwise. It is out of the queue then.
  Op* PopDone();
  uint32_t size() const {
    return size_;
  }

 private:
  Op* head_ = nullptr;
  Op* tail_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace kvstored::command
