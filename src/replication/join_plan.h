// How a replica may join a primary: the common point of each shard (P20) or why not (P15, P18,
// P22). A pure function of what both nodes say; the primary decides with it, the replica checks
// with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvstored/types.h"
#include "replication/node_facts.h"

namespace kvstored::replication {

enum class JoinMode : uint8_t {
  kRefused = 0,
  kCatchUp = 1,   // from the log (or the backlog) after `common`
  kFullSync = 2,  // from memory; the replica builds a new data set directory
};

enum class Refusal : uint8_t {
  kNone = 0,
  kNotPrimary = 1,      // no open epoch here; ask the node in the text
  kDataSet = 2,         // the replica holds another data set (P18)
  kShardCount = 3,      // P22
  kForked = 4,          // neither newest epoch is in the other's list (P15): alarm
  kPrimaryIsOlder = 5,  // the replica's history continues the primary's: the primary must step down
  kLosesCommitted = 6,  // the replica holds committed records that the primary lacks (P18): alarm
  kPromised = 7,        // the replica promised not to follow so old an epoch (P17)
  kLongerThanPrimary = 8,  // same epoch, but more records than the primary: alarm
  kBusy = 9,               // another full sync or handshake is under way: try again
  kAuthentication = 10,    // shared secret missing or wrong
  kNotLoopback = 11,       // no shared secret configured and the peer is not on loopback
  kVersion = 12,           // wire version
  kMalformed = 13,         // a message that makes no sense
  kTooManyReplicas = 14,
  kDiverged = 15,  // another record at an equal (epoch, seq): alarm, full sync
};
std::string_view RefusalName(Refusal refusal);

struct JoinPlan {
  JoinMode mode = JoinMode::kRefused;
  Refusal refusal = Refusal::kNone;
  std::string text;  // for the operator: cause, both values, remedy
  // True: the replica held no data set (or discards its own): it adopts id, seed, shard count.
  bool adopt = false;
  // kCatchUp: per shard the last seq that both have; the replica cuts its log above it.
  std::vector<Seq> common;
  // What the replica holds above `common`, to be reported before it is cut.
  uint64_t dropped_records = 0;
  // The primary's facts: epochs to adopt after the cut (P16), seed, data set id.
  NodeFacts primary;
};

// `discard`: the operator gave --discard-local-data; the replica counts as empty.
// Does not see record checksums of the primary's log: the divergence check at equal (epoch, seq)
// follows where the record can be read.
JoinPlan PlanJoin(const NodeFacts& primary, const NodeFacts& replica, bool discard);

// The number of the epoch that `seq` of `shard` belongs to by that list; 0 if none.
uint32_t EpochNumberAt(const std::vector<EpochEntry>& epochs, ShardId shard, Seq seq);
// Does `list` contain the newest epoch of `other` (by id)? An empty `other` descends from
// everything.
bool ContainsNewestOf(const std::vector<EpochEntry>& list, const std::vector<EpochEntry>& other);

}  // namespace kvstored::replication
