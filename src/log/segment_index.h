// What is in the log right now: the chain of segments, oldest first, with a sparse index to find
// records. Written by the log thread, read by catch-up.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kvstored/nvm_device.h"
#include "kvstored/types.h"
#include "log/frame.h"

namespace kvstored::log {

// One index entry every this many bytes of a shard's frames: what a reader may have to skip.
inline constexpr uint64_t kIndexStrideBytes = 64 << 10;

struct Segment {
  struct Mark {
    Seq first_seq = 0;
    uint64_t offset = 0;
  };
  SegmentHeader header;
  std::string name;
  std::shared_ptr<NvmFile> file;
  uint64_t end = kSegmentHeaderBytes;    // valid bytes
  std::vector<std::vector<Mark>> marks;  // per shard, ascending
  std::vector<uint64_t> next_mark;       // per shard: offset from which the next mark is due

  // Notes a frame that was written at `offset`.
  void Note(const FrameHeader& frame, uint64_t offset);
};

// Where to begin reading a record.
struct ReadStart {
  std::shared_ptr<NvmFile> file;
  std::string name;
  uint64_t number = 0;
  uint64_t incarnation = 0;
  uint64_t offset = 0;
  uint64_t end = 0;
  Seq last_seq = 0;  // newest record of the shard that exists in this segment
};

// Thread-safe.
class SegmentIndex {
 public:
  explicit SegmentIndex(uint32_t shard_count) : shard_count_(shard_count) {
  }
  void Add(Segment segment);
  // Of the newest segment: frames became readable up to `end`.
  void Extend(const std::vector<std::pair<FrameHeader, uint64_t>>& frames, uint64_t end,
              const std::vector<Seq>& last_seqs);
  // Records above are gone (a cut).
  void SetLastSeqs(const std::vector<Seq>& last_seqs);
  // Nothing if the log does not hold the record.
  std::optional<ReadStart> Find(ShardId shard, Seq seq) const;
  // Newest readable record of a shard.
  Seq LastSeq(ShardId shard) const;
  // Removes from the front every segment that holds nothing above needed[s] for any shard, as long
  // as the rest keeps at least `retain_bytes`. The newest always stays. Returns what was removed.
  std::vector<Segment> Trim(const std::vector<Seq>& needed, uint64_t retain_bytes,
                            size_t count_max = SIZE_MAX);
  // How many segments Trim would remove.
  size_t TrimmableCount(const std::vector<Seq>& needed, uint64_t retain_bytes) const;
  // Per shard the seq before the oldest record that is kept.
  std::vector<Seq> OldestStart() const;
  uint64_t TotalBytes() const;
  size_t Count() const;

 private:
  size_t TrimmableLocked(const std::vector<Seq>& needed, uint64_t retain_bytes) const;

  const uint32_t shard_count_;
  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  std::vector<Seq> last_seqs_;
};

}  // namespace kvstored::log
