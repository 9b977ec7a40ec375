// Replication: the engine of one node, in either role. One thread (or the simulator) calls Step()
// in a loop; it owns the Fabric, all links, lanes, rings and streams. Shard threads and the log
// hand it batches and watermarks through the calls marked thread-safe; it hands results upward
// through ApplySink, RecordSource, NodeState and the ProgressTable. Rules: docs/protocol.md.
//
// Thread label: everything on the replication thread, but for what says "thread-safe". Post()
// brings other threads' control work there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstored/clock.h"
#include "kvstored/fabric.h"
#include "kvstored/limits.h"
#include "kvstored/types.h"
#include "metrics/snapshot.h"
#include "record/batch.h"
#include "replication/apply_sink.h"
#include "replication/node_facts.h"
#include "replication/node_state.h"
#include "replication/progress.h"
#include "replication/record_source.h"

namespace kvstored::replication {

struct ReplicationOptions {
  std::string listen_address;  // "ip:port"; port 0 picks one; empty: does not listen
  std::string secret;          // shared secret; empty: loopback peers only
  uint32_t shard_count = 1;
  // Lanes opened with each peer, at most the shard count; `lanes` of them are used (P14).
  uint16_t lane_count_max = 1;
  uint16_t lanes = 1;
  size_t ring_bytes = kRingBytes;             // per shard at a replica; a power of two
  size_t backlog_bytes = size_t{64} << 20;    // recent batches kept in memory, all shards together
  std::function<void(int64_t bytes)> charge;  // told what the backlog holds more, or less
  size_t slice_bytes = size_t{16} << 20;      // full sync: slices under way, all shards together
  uint32_t lane_credits = 256;                // writes under way on a lane, towards a replica
  uint32_t handshakes_max = 16;               // accepted links that are not admitted yet
  int64_t link_timeout_us = 5'000'000;        // nothing heard for so long: the link is dead
  int64_t heartbeat_us = 100'000;
  int64_t reconnect_min_us = 50'000;  // back-off, doubled with jitter up to
  int64_t reconnect_max_us = 5'000'000;
  uint64_t random_seed = 0;  // jitter and nonces; 0: from the system's random device
#ifdef KVS_TEST_SWITCHES
  // Planted bugs, for the tests of the tests.
  bool plant_no_checksum_check = false;
  bool plant_credit_off_by_one = false;
  bool plant_no_epoch_check = false;
#endif
};

// One replica as the primary sees it (INFO, ROLE, metrics).
struct ReplicaStatus {
  Id128 store_id;
  std::string address;  // replication port
  std::string host;
  uint16_t front_port = 0;
  StreamState state = StreamState::kConnecting;
  bool connected = false;
  bool member = false;
  bool promotable = false;
  bool disk_full = false;
  uint32_t row = 0;  // in the ProgressTable
  uint16_t lanes = 0;
  uint64_t lag_records = 0;
  uint64_t lag_bytes = 0;     // posted, not yet taken by the replica
  int64_t lag_us = 0;         // since when anything has been outstanding
  int64_t last_heard_us = 0;  // Clock::MonotonicUs
  int64_t rtt_us = 0;
  uint64_t full_sync_items_bytes = 0;
};

struct FollowStatus {
  bool active = false;
  std::string address;
  StreamState state = StreamState::kConnecting;
  Refusal refusal = Refusal::kNone;
  std::string text;
  NodeFacts primary;  // as of admission
  int64_t last_heard_us = 0;
  uint64_t primary_clock_us = 0;
};

struct ReplicationCounters {
  uint64_t links_accepted = 0;
  uint64_t links_refused = 0;
  uint64_t reconnects = 0;
  uint64_t bytes_posted = 0;
  uint64_t bytes_received = 0;
  uint64_t heartbeats_sent = 0;
  uint64_t credit_stalls = 0;   // a stream had records but no lane credit
  uint64_t ring_stalls = 0;     // a stream had records but no ring space
  uint64_t backlog_misses = 0;  // records had to be read from the log
  uint64_t full_syncs = 0;
  uint64_t bad_frames = 0;  // checksum, sequence, generation or epoch wrong
  uint64_t bad_messages = 0;
  // Round trips: posted -> watermark.
  metrics::Histogram write_us{.bucket_count = metrics::kHistogramBucketsMax};
};

// Answers of AskPeers, one per address, in the order asked.
struct PeerAnswer {
  std::string address;
  absl::Status status;  // of reaching and understanding it; its own refusal counts as an error
  NodeFacts facts;      // only if status is OK
};

enum class PeerQuestion : uint8_t {
  kWhoAreYou = 1,
  kPromise = 2,  // persist a promise of `number` (P17), then answer
  kAnnounce =
      3,  // "I am the primary": our facts; the other side's NodeState::OnNewerPrimary decides
};

class Replication {
 public:
  // `fabric`, `clock`, `state`, `sink`, `source` are borrowed. `progress_moved(shard)` is called on
  // the replication thread after a row of the table moved or the set changed; it wakes the shard's
  // thread.
  Replication(ReplicationOptions options, Fabric* fabric, Clock* clock, NodeState* state,
              ApplySink* sink, RecordSource* source,
              std::function<void(ShardId shard)> progress_moved);
  ~Replication();
  Replication(const Replication&) = delete;
  Replication& operator=(const Replication&) = delete;

  // Begins to listen. Call before the first Step; the bound "ip:port" or an error naming the
  // address.
  [[nodiscard]] absl::StatusOr<std::string> Start();

  // Makes progress on everything; waits at most timeout_us (bounded by due timers) when there is
  // nothing to do. Returns whether anything happened.
  bool Step(int64_t timeout_us);
  // Earliest Clock::MonotonicUs at which Step has work without outside events.
  int64_t NextTimerUs() const;

  // --- Thread-safe. ---

  // Runs `work` on the replication thread in a coming Step.
  void Post(std::function<void()> work);
  // Primary: the batch was handed to the log (P2). Order per shard is the caller's order of calls.
  void SubmitBatch(record::BatchRef batch);
  // Replica: its own log has persisted up to seq (goes back to the primary as `persisted`).
  void SetLocalPersisted(ShardId shard, Seq seq);
  // Primary: what replicas are told. Sent with the next batch, within 1 ms if there is none.
  void SetCommitted(ShardId shard, Seq seq);
  // Primary: the record clock that heartbeats carry; replaces the last batch's.
  void SetRecordClock(uint64_t clock_us);
  // The sink has published a full sync, or gives it up (then it starts again).
  void FinishFullSync(absl::Status status);
  const ProgressTable& progress() const;
  // The lowest seq of the shard that a connected replica still has to be sent; kUnbounded if none.
  // The log keeps from there if it can.
  Seq NeededFrom(ShardId shard) const;
  void Wake();

  // --- Roles. ---

  // The epoch of state->Facts() is open: serves followers from `ends` on. `members` as in meta;
  // this node itself is left out of it (P19).
  void BecomePrimary(const MemberSet& members);
  // Follows the primary at "host:port" (replication port), reconnecting by itself until told
  // otherwise. `discard_local_data`: the operator's --discard-local-data, for the first admission.
  void FollowPrimary(const std::string& address, bool discard_local_data);
  // Ends the role at once: on return nothing that a peer sends has any effect any more (fencing,
  // P19), no sink call follows, and no link to a follower or primary exists. Questions are still
  // answered.
  void FenceAndStop(const std::string& why);
  // Tunes the number of lanes in use; streams move at a batch boundary (P14).
  void SetLanes(uint16_t lanes);

  // --- Members (primary). ---

  MemberSet members() const;
  // False: the set lacks members, and no replica streams that could join it (P8).
  bool HasOrAwaitsMembers() const;
  using Done = std::function<void(absl::Status)>;
  // Level and count (P5). A lowered one first has the right to be promoted withdrawn and confirmed
  // from every member that loses it (P19); `force` goes on without those that cannot be reached.
  void SetAck(AckLevel ack, uint32_t ack_replicas, bool force, Done done);
  void DropMember(const Id128& store_id, bool force, Done done);
  // The old one leaves, the streaming replica takes its place.
  void ReplaceMember(const Id128& old_store, const Id128& new_store, bool force, Done done);

  // --- Questions to other nodes (P15, P17, P19); no role needed. ---

  void AskPeers(const std::vector<std::string>& addresses, PeerQuestion question, uint32_t number,
                int64_t timeout_us, std::function<void(std::vector<PeerAnswer>)> done);
  // P17: the records of `shard` from `from_seq` on out of that node's log, one verified, contiguous
  // batch at a time until its end. `next(batch)`: false stops. Then done(OK) or an error.
  void FetchTail(const std::string& address, ShardId shard, Seq from_seq, int64_t timeout_us,
                 std::function<bool(record::BatchRef)> next, Done done);

  // --- Figures (replication thread; the server snapshots them by Post). ---

  std::vector<ReplicaStatus> replicas() const;
  FollowStatus follow_status() const;
  const ReplicationCounters& counters() const;
  bool streaming() const;  // a replica that streams

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace kvstored::replication
