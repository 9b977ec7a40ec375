// Checkpoints: every live item of every shard in one file, written while writes go on.
//
// Items arrive in slices and carry their own seqs; replay of the log from start_seq[s] skips what
// is older than the item it meets. What a crash leaves: a file "*.tmp" that start-up removes, or a
// whole published one. Only after publication are older log segments and the older checkpoint
// removed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstored/nvm_device.h"
#include "kvstored/types.h"
#include "log/recovery.h"
#include "record/batch.h"

namespace kvstored::log {

inline constexpr uint32_t kCheckpointVersion = 2;  // 1 had no compressed blocks
inline constexpr size_t kCheckpointHeaderBytes = 4096;
inline constexpr size_t kCheckpointFooterBytes = 8192;

struct CheckpointShard {
  Seq start_seq = 0;  // replay begins above it
  Seq end_seq = 0;    // the newest record that some item may already show
  uint64_t item_bytes = 0;
  uint64_t record_count = 0;
};

// What a checkpoint says of itself.
struct CheckpointFacts {
  uint64_t number = 0;  // 1, 2, ...; also the file's name
  Id128 data_set;
  uint64_t newest_timestamp_us = 0;
  uint64_t file_bytes = 0;
  std::vector<CheckpointShard> shards;
  std::vector<Seq> StartSeqs() const;
  std::vector<Seq> EndSeqs() const;
};

// Thread-safe: slices of different shards may come from different threads. Memory: a few
// MiB for all shards together.
class CheckpointWriter {
 public:
  // Begins directory/NNNNNNNNNN.ckpt.tmp, removing an abandoned one. `start_seqs`: applied of each
  // shard, or the seq before its oldest open run, when the scan begins. `incarnation`: random.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Begin(
      NvmDevice* device, const std::string& directory, const Id128& data_set, uint64_t incarnation,
      const std::vector<Seq>& start_seqs);
  // Abandons what was not published.
  ~CheckpointWriter();

  // A slice of items (is_snapshot). kResourceExhausted: the disk is full; the writer is of no more
  // use.
  absl::Status Add(const record::Batch& slice);
  // All items were added; end_seqs[s] = applied of the shard when its scan ended. On OK the file is
  // whole and persistent, but not yet published.
  absl::Status Finish(const std::vector<Seq>& end_seqs, uint64_t newest_timestamp_us);
  // Makes it the newest checkpoint by one rename, then removes older ones. Refused
  // (kFailedPrecondition) unless every shard has committed and persisted its end_seq (P26).
  absl::Status Publish(const std::vector<Seq>& committed, const std::vector<Seq>& persisted);

  const CheckpointFacts& facts() const {
    return facts_;
  }
  uint64_t written_bytes() const;

 private:
  CheckpointWriter(NvmDevice* device, std::string directory)
      : device_(device), directory_(std::move(directory)) {
  }
  absl::Status WriteBlock(ShardId shard);

  NvmDevice* const device_;
  const std::string directory_;
  mutable std::mutex mutex_;
  std::string temp_name_;
  std::unique_ptr<NvmFile> file_;
  uint64_t end_ = 0;
  uint64_t write_back_end_ = 0;
  size_t block_bytes_ = 0;  // a shard's pending records are written from this on
  uint64_t incarnation_ = 0;
  CheckpointFacts facts_;
  std::vector<std::vector<uint8_t>> pending_;  // per shard: records of the next block
  std::vector<uint32_t> pending_count_;
  std::vector<uint8_t> compressed_;  // of the block that is being written
  bool finished_ = false;
  bool published_ = false;
};

class CheckpointReader {
 public:
  // The newest published checkpoint; null if there is none. Removes abandoned temporary files.
  // IsDamage names the file and what to do.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> OpenNewest(NvmDevice* device,
                                                                      const std::string& directory,
                                                                      const Id128& data_set);
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> OpenFile(NvmDevice* device,
                                                                    const std::string& name);

  const CheckpointFacts& facts() const {
    return facts_;
  }
  // Whole path, for messages.
  const std::string& name() const {
    return name_;
  }
  uint64_t incarnation() const {
    return incarnation_;
  }
  // Streams all items, verified, to the sink: shards in parallel on thread_count threads.
  absl::Status Replay(uint32_t thread_count, RecoverySink* sink);

 private:
  CheckpointReader() = default;
  std::string name_;
  std::unique_ptr<NvmFile> file_;
  uint64_t incarnation_ = 0;
  uint64_t blocks_end_ = 0;
  CheckpointFacts facts_;
};

}  // namespace kvstored::log
