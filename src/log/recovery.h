// Reads a log back: finds its chain and its end, tells a torn tail from damage (P24), and hands the
// records of all shards to a sink, in order per shard, shards in parallel.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstored/nvm_device.h"
#include "kvstored/types.h"
#include "log/log.h"
#include "record/record.h"

namespace kvstored::log {

struct TornTail {
  std::string file;
  uint64_t offset = 0;  // valid bytes end here
  uint64_t bytes = 0;   // bytes above that were not zero
};

struct RecoveredShard {
  Seq start_seq = 0;  // the log holds start_seq + 1 .. last_seq
  Seq last_seq = 0;
  Seq committed = 0;           // stored watermark (P10), never above last_seq
  uint32_t last_checksum = 0;  // of the record last_seq; 0 if the log holds none
  Seq open_run_first = 0;      // first part of the oldest open run; 0: none
  // The greatest vector that holds no transaction in part (P6, P27): last_seq, or less.
  Seq whole_txn_seq = 0;
  uint64_t key_count = 0;  // about so many different keys were set
};

struct RecoveryResult {
  std::vector<RecoveredShard> shards;
  uint64_t newest_timestamp_us = 0;
  std::vector<TornTail> torn;  // at most one: the scan has logged it, no error
  uint64_t total_bytes = 0;
};

// Receives records. Different shards on different threads; one shard in seq order, one call at a
// time.
class RecoverySink {
 public:
  virtual ~RecoverySink() = default;
  // Verified records of one shard; they borrow bytes that live until the call returns.
  virtual absl::Status OnRecords(ShardId shard, std::span<const record::Record> records) = 0;
};

struct RecoveryOptions {
  NvmDevice* device = nullptr;
  std::string directory;
  uint32_t shard_count = 1;
  Id128 data_set;
  // The log must hold everything above this (a checkpoint's start, or the data set's); empty:
  // zeros.
  std::vector<Seq> needed_from;
  // A log that ends before a checkpoint's end is damage (P26); empty: no checkpoint.
  std::vector<Seq> checkpoint_end;
  uint32_t thread_count = 1;
};

class Recovery {
 public:
  // Reads and verifies everything. IsDamage names file, offset, shard, seq and remedy;
  // kFailedPrecondition: another data set, another shard count, or a newer format.
  static absl::StatusOr<std::unique_ptr<Recovery>> Scan(RecoveryOptions options);

  const RecoveryResult& result() const {
    return result_;
  }
  // Hands over the records in (from[s], to[s]] of every shard.
  absl::Status Replay(const std::vector<Seq>& from, const std::vector<Seq>& to, RecoverySink* sink);
  // Gives the chain to Log::Open. Last call.
  LogTail TakeTail();

 private:
  friend class RecoveryScan;
  explicit Recovery(RecoveryOptions options) : options_(std::move(options)) {
  }
  RecoveryOptions options_;
  RecoveryResult result_;
  LogTail tail_;
};

}  // namespace kvstored::log
