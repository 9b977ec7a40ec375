// What one connection says and hears, without its socket and without a clock: when requests start,
// which reply belongs to which, how long each took.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvbench/key_space.h"
#include "kvbench/measurement.h"
#include "kvbench/options.h"
#include "kvbench/outbox.h"
#include "kvbench/reply_scanner.h"
#include "kvbench/requests.h"
#include "kvbench/workload.h"

namespace kvstored::bench {

// When operations start, in nanoseconds of the monotonic clock.
//
// Closed loop (interval_ns 0): a burst of `depth` operations, the next one when all are answered.
// Open loop: operation k of the connection is meant to start at first_due_ns + k * interval_ns,
// whatever the server does. One that cannot be sent then, because `depth` are unanswered, is sent
// later, but its latency counts from when it was meant to start: otherwise a server that stalls
// would keep from the figures all that should have been asked meanwhile ("coordinated omission").
struct Pace {
  double interval_ns = 0;
  uint64_t first_due_ns = 0;
  uint64_t measure_from_ns = 0;  // what starts before is warm-up
  uint64_t stop_ns = 0;          // what would start later does not
};

// What the sessions of one worker share; outlives them.
struct SessionShared {
  const Options* options;
  const Requests* requests;
  Workload* workload;
  KeySpace* keys;
  Measurement* measurement;
  uint64_t operations_left = ~uint64_t{0};  // to be measured
};

// Not thread-safe: belongs to one worker.
class Session : public ReplySink {
 public:
  explicit Session(SessionShared* shared);

  // The connection is new: what it says first goes into the outbox.
  void Greet();
  void SetPace(const Pace& pace) {
    pace_ = pace;
  }
  // Puts the requests into the outbox that may start now; none before SetPace().
  void Start(uint64_t now_ns);
  // Bytes came in, or (Skip) bytes of a value that nobody looks at.
  void Take(const char* bytes, size_t size, uint64_t now_ns);
  void Skip(size_t size, uint64_t now_ns);
  // Value bytes that are expected next, see ReplyScanner.
  size_t skippable_bytes() const {
    return scanner_->skippable_bytes();
  }
  // The connection is gone, and with it all that was under way.
  void Lose();

  Outbox* outbox() {
    return &outbox_;
  }
  bool greeted() const {
    return greetings_left_ == 0;
  }
  // Something is to be answered.
  bool waiting() const {
    return in_flight_count_ > 0 || greetings_left_ > 0;
  }
  // No more can start before a reply comes.
  bool full() const {
    return in_flight_count_ >= shared_->options->depth;
  }
  // Nothing is under way and nothing will start any more.
  bool Done(uint64_t now_ns) const;
  // Open loop: when the next operation is meant to start.
  uint64_t NextDueNs() const;
  // Empty, or why there is no sense in going on: what the server said instead of a greeting or
  // without having been asked.
  const std::string& failure() const {
    return failure_;
  }

 private:
  struct InFlight {
    enum class Part : uint8_t { kWhole, kModify, kWait };  // kModify: the write behind a read

    uint64_t intended_ns;
    Operation operation;
    Part part;
  };

  void OnReply(const Reply& reply) override;
  void FinishWait(const InFlight& wait, const Reply& reply);
  void StartOne(uint64_t intended_ns);
  void Push(const InFlight& entry);
  bool Measured(uint64_t intended_ns) const {
    return intended_ns >= pace_.measure_from_ns;
  }

  SessionShared* const shared_;
  Pace pace_;
  uint64_t due_count_ = 0;  // operations of the open loop that have started
  Outbox outbox_;
  std::unique_ptr<ReplyScanner> scanner_;
  uint32_t greetings_left_ = 0;
  uint64_t now_ns_ = 0;  // of the bytes that are being looked at
  // A ring, the oldest at in_flight_at_; replies come in the order of the requests.
  std::vector<InFlight> in_flight_;
  size_t in_flight_at_ = 0;
  size_t in_flight_count_ = 0;
  std::string failure_;
};

}  // namespace kvstored::bench
