#include "log/segment_index.h"

#include <algorithm>

#include "base/check.h"

namespace kvstored::log {

void Segment::Note(const FrameHeader& frame, uint64_t offset) {
  if (frame.record_count == 0) {
    return;
  }
  const size_t shards = header.start_seqs.size();
  if (marks.size() != shards) {
    marks.resize(shards);
    next_mark.resize(shards);
  }
  if (offset >= next_mark[frame.shard]) {
    marks[frame.shard].push_back({frame.first_seq, offset});
    next_mark[frame.shard] = offset + kIndexStrideBytes;
  }
}

void SegmentIndex::Add(Segment segment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  segments_.push_back(std::move(segment));
}

void SegmentIndex::Extend(const std::vector<std::pair<FrameHeader, uint64_t>>& frames, uint64_t end,
                          const std::vector<Seq>& last_seqs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_CHECK(!segments_.empty(), "no segment");
  for (const auto& [frame, offset] : frames) {
    segments_.back().Note(frame, offset);
  }
  segments_.back().end = end;
  last_seqs_ = last_seqs;
}

void SegmentIndex::SetLastSeqs(const std::vector<Seq>& last_seqs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_seqs_ = last_seqs;
}

std::optional<ReadStart> SegmentIndex::Find(ShardId shard, Seq seq) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shard >= last_seqs_.size() || seq > last_seqs_[shard]) {
    return std::nullopt;
  }
  // The record lives in the newest segment that begins below it: a cut gives later segments a lower
  // start, and what older ones hold above it does not exist.
  Seq last_seq = last_seqs_[shard];
  for (size_t i = segments_.size(); i-- > 0;) {
    const Segment& segment = segments_[i];
    const Seq start = segment.header.start_seqs[shard];
    if (start >= seq) {
      last_seq = std::min(last_seq, start);
      continue;
    }
    if (segment.marks.empty() || segment.marks[shard].empty()) {
      return std::nullopt;
    }
    const std::vector<Segment::Mark>& marks = segment.marks[shard];
    auto above = std::upper_bound(
        marks.begin(), marks.end(), seq,
        [](Seq wanted, const Segment::Mark& mark) { return wanted < mark.first_seq; });
    if (above == marks.begin()) {
      return std::nullopt;
    }
    --above;
    return ReadStart{segment.file,
                     segment.name,
                     segment.header.number,
                     segment.header.incarnation,
                     above->offset,
                     segment.end,
                     last_seq};
  }
  return std::nullopt;
}

Seq SegmentIndex::LastSeq(ShardId shard) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return shard < last_seqs_.size() ? last_seqs_[shard] : 0;
}

size_t SegmentIndex::TrimmableLocked(const std::vector<Seq>& needed, uint64_t retain_bytes) const {
  KVS_CHECK(needed.size() == shard_count_, "needed=%zu shards=%u", needed.size(), shard_count_);
  uint64_t kept = 0;
  for (const Segment& segment : segments_) {
    kept += segment.end;
  }
  size_t count = 0;
  while (count + 1 < segments_.size() && kept - segments_[count].end >= retain_bytes) {
    const std::vector<Seq>& next_start = segments_[count + 1].header.start_seqs;
    bool is_needed = false;
    for (size_t s = 0; s < needed.size(); ++s) {
      is_needed = is_needed || next_start[s] > needed[s];
    }
    if (is_needed) {
      break;
    }
    kept -= segments_[count].end;
    ++count;
  }
  return count;
}

size_t SegmentIndex::TrimmableCount(const std::vector<Seq>& needed, uint64_t retain_bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return TrimmableLocked(needed, retain_bytes);
}

std::vector<Segment> SegmentIndex::Trim(const std::vector<Seq>& needed, uint64_t retain_bytes,
                                        size_t count_max) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto end = segments_.begin() + static_cast<ptrdiff_t>(std::min(
                                           count_max, TrimmableLocked(needed, retain_bytes)));
  std::vector<Segment> removed(std::make_move_iterator(segments_.begin()),
                               std::make_move_iterator(end));
  segments_.erase(segments_.begin(), end);
  return removed;
}

std::vector<Seq> SegmentIndex::OldestStart() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return segments_.empty() ? std::vector<Seq>(shard_count_) : segments_.front().header.start_seqs;
}

uint64_t SegmentIndex::TotalBytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t total = 0;
  for (const Segment& segment : segments_) {
    total += segment.end;
  }
  return total;
}

size_t SegmentIndex::Count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return segments_.size();
}

}  // namespace kvstored::log
