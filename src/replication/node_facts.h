// What one node says of itself to another: identity, history, positions. Built by the server,
// carried by the handshake and by answers to "who are you", judged by join_plan.h. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvstored/types.h"

namespace kvstored::replication {

// One epoch of a history. A list of these is ordered from oldest to newest and complete: the first
// one's first_seq are the first records that the data set ever had.
struct EpochEntry {
  Epoch epoch;
  std::vector<Seq> first_seq;  // per shard: the seq of its kEpochBegin record
  friend bool operator==(const EpochEntry&, const EpochEntry&) = default;
};

// The end of one shard's log.
struct ShardEnd {
  Seq end = 0;                 // 0: no record yet
  uint32_t last_checksum = 0;  // the checksum field of the record `end`; 0: not known
  friend bool operator==(const ShardEnd&, const ShardEnd&) = default;
};

struct Member {
  Id128 store_id;
  std::string address;  // "host:port" of its replication port
  uint16_t front_port = 0;
  friend bool operator==(const Member&, const Member&) = default;
};

// Who must acknowledge, and what (P5, P7). `version` grows by one with every change inside an
// epoch.
struct MemberSet {
  uint64_t version = 0;
  AckLevel ack = AckLevel::kNone;
  uint32_t ack_replicas = 0;  // the set is complete when it has that many members
  std::vector<Member> members;
  friend bool operator==(const MemberSet&, const MemberSet&) = default;
};

struct NodeFacts {
  Id128 store_id;     // one data directory
  Id128 data_set_id;  // empty: this node holds no data set (it may adopt one)
  Id128 data_seed;    // told to admitted peers only (P22)
  Id128 incarnation;  // one life of the process
  Role role = Role::kReplica;
  bool serving = false;  // a primary whose epoch is open
  bool promotable = false;
  bool opening_epoch = false;  // being promoted, or a restarted primary past its questions (P19)
  uint32_t shard_count = 0;
  uint32_t promised = 0;  // follows nobody whose newest epoch number is lower (P17)
  uint16_t front_port = 0;
  uint16_t replication_port = 0;
  std::string following;  // a replica's primary ("host:port"), or empty
  std::vector<EpochEntry> epochs;
  std::vector<ShardEnd> ends;  // per shard
  std::vector<Seq> committed;  // per shard: a primary's own, a replica's as it was told
  std::vector<Seq> log_start;  // per shard: the oldest seq that its log can still give
  MemberSet members;           // as its meta has it
  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

}  // namespace kvstored::replication
