// Snapshots without fork: the store is read in slices while writes go on. An item keeps its seq, so
// a slice may be mixed with live records in any way that keeps the order of positions
// (docs/protocol.md "Full sync"). A large value is read piece by piece from its pinned chain, while
// writes go on. What changed parts of it meanwhile needs the version that was read (P3): for a
// checkpoint, whose log is replayed from before the scan's begin, that is always linked; between
// the live records of a full sync, where their place is gone by then, those changes follow the
// link.
#include <algorithm>

#include "base/check.h"
#include "base/endian.h"
#include "kvstored/limits.h"
#include "kvstored/record_format.h"
#include "shard/shard.h"

namespace kvstored::shard {
namespace {

// Items looked at together: their first lines are loaded side by side.
constexpr uint32_t kScanItems = 32;
// Changes kept of one large value that is being read for a full sync.
constexpr uint64_t kDeltasBytesMax = 8 << 20;

struct SliceContext {
  SnapshotCursor* cursor = nullptr;
  record::Batch* batch = nullptr;
  const base::Digester* digester = nullptr;
};

void VisitItem(void* context, const store::Item& item) {
  auto* slice = static_cast<SliceContext*>(context);
  if (item.is_chain()) {
    slice->cursor->large_keys.emplace_back(item.key());
    return;
  }
  record::Encode({.seq = item.seq(),
                  .digest = slice->digester->Of(item.key()),
                  .op = RecordOp::kSet,
                  .flags = kRecordSnapshot,
                  .expiry_ms = item.expiry_ms(),
                  .key = item.key(),
                  .value = item.value()},
                 &slice->batch->bytes);
}

// Writes the next pieces of one large value and its link; true when it is linked.
bool WriteLarge(SnapshotCursor::Large* large, const Digest& digest, uint64_t budget_bytes,
                record::Batch* batch) {
  const uint64_t total_bytes = large->chain.size_bytes();
  std::string piece;
  while (large->offset < total_bytes) {
    if (batch->bytes.size() >= budget_bytes) {
      return false;
    }
    const uint64_t piece_bytes =
        std::min({total_bytes - large->offset, uint64_t{kPartBytesMax},
                  std::max<uint64_t>(budget_bytes - batch->bytes.size(), 4096)});
    piece.resize(piece_bytes);
    large->chain.CopyTo(large->offset, piece.data(), piece_bytes);
    record::Encode({.seq = large->seq,
                    .digest = digest,
                    .op = RecordOp::kPart,
                    .flags = kRecordSnapshot,
                    .expiry_ms = total_bytes,
                    .aux = large->seq,
                    .key = large->key,
                    .value = piece},
                   &batch->bytes);
    large->offset += piece_bytes;
  }
  std::string value(8, '\0');
  base::StoreBe64(value.data(), total_bytes);
  record::Encode({.seq = large->seq,
                  .digest = digest,
                  .op = RecordOp::kLink,
                  .flags = kRecordSnapshot,
                  .expiry_ms = large->expiry_ms,
                  .aux = large->seq,
                  .key = large->key,
                  .value = value},
                 &batch->bytes);
  large->linked = true;
  return true;
}

// What changed the value while it was read, behind its link; true when all of it is written.
bool WriteDeltas(SnapshotCursor::Large* large, uint64_t budget_bytes, record::Batch* batch) {
  for (; !large->deltas.empty(); large->deltas.pop_front()) {
    if (batch->bytes.size() >= budget_bytes) {
      return false;
    }
    const std::vector<uint8_t>& delta = large->deltas.front();
    batch->bytes.insert(batch->bytes.end(), delta.begin(), delta.end());
  }
  return true;
}

}  // namespace

Seq Shard::OldestOpen() {
  Seq oldest = applied_ + 1;
  std::erase_if(emitting_, [&oldest](const std::weak_ptr<const Seq>& run) {
    const auto id = run.lock();
    oldest = id ? std::min(oldest, *id) : oldest;
    return id == nullptr;
  });
  for (const auto& [id, run] : open_runs_) {
    oldest = std::min<Seq>(oldest, id);  // ids of snapshot runs are above every seq
  }
  return oldest;
}

// Pins the value as it is now, if the key still has a large one.
void Shard::BeginLarge(SnapshotCursor* cursor, std::string key) {
  const store::Item* item = store_.Find({.bytes = key, .digest = options_.digester->Of(key)});
  if (item == nullptr || !item->is_chain()) {
    return;  // its own record, which is newer than the scan's begin, tells
  }
  auto large = std::make_shared<SnapshotCursor::Large>();
  large->key = std::move(key);
  large->seq = item->seq();
  large->newest_seq = item->seq();
  large->expiry_ms = item->expiry_ms();
  large->chain = item->chain();
  if (cursor->purpose == SnapshotFor::kStream) {
    std::erase_if(being_read_, [](const auto& read) { return read.expired(); });
    being_read_.push_back(large);
  }
  cursor->reading = std::move(large);
}

void Shard::NoteDelta(const record::Record& record) {
  for (const std::weak_ptr<SnapshotCursor::Large>& weak : being_read_) {
    const std::shared_ptr<SnapshotCursor::Large> large = weak.lock();
    if (large == nullptr || large->newest_seq != record.aux || large->key != record.key) {
      continue;
    }
    record::Record copy = record;
    copy.flags = kRecordSnapshot;
    copy.epoch = 0;
    copy.timestamp_us = 0;
    std::vector<uint8_t> bytes;
    record::Encode(copy, &bytes);
    large->newest_seq = record.seq;
    large->deltas_bytes += bytes.size();
    large->deltas.push_back(std::move(bytes));
  }
}

record::BatchRef Shard::SnapshotSlice(SnapshotCursor* cursor, uint64_t budget_bytes) {
  Seal();
  auto batch = std::make_shared<record::Batch>();
  batch->shard = options_.id;
  batch->is_snapshot = true;
  batch->first_seq = applied_;
  batch->last_seq = applied_;
  batch->committed = committed();
  batch->clock_us = now_us_;
  batch->bytes.reserve(budget_bytes + budget_bytes / 8);
  SliceContext context{.cursor = cursor, .batch = batch.get(), .digester = options_.digester};
  while (batch->bytes.size() < budget_bytes && !cursor->done()) {
    if (cursor->reading != nullptr) {
      if (!ReadLarge(cursor, budget_bytes, batch.get())) {
        break;
      }
    } else if (!cursor->large_keys.empty()) {
      BeginLarge(cursor, std::move(cursor->large_keys.front()));
      cursor->large_keys.pop_front();
    } else {
      cursor->scan = store_.Scan(cursor->scan, kScanItems, VisitItem, &context);
      cursor->scanned = cursor->scan == 0;
    }
  }
  return batch;
}

// The next pieces of the value that is being read; false: the slice is full.
bool Shard::ReadLarge(SnapshotCursor* cursor, uint64_t budget_bytes, record::Batch* batch) {
  SnapshotCursor::Large* const large = cursor->reading.get();
  const Key key{.bytes = large->key, .digest = options_.digester->Of(large->key)};
  if (cursor->purpose == SnapshotFor::kStream) {
    const store::Item* item = store_.Find(key);
    if (item == nullptr || item->seq() != large->newest_seq) {
      // Replaced whole or removed: that record is on its way, and a link behind it would bring back
      // what it took away. Parts stay inert.
      cursor->reading = nullptr;
      return true;
    }
    if (!large->linked && large->deltas_bytes > kDeltasBytesMax) {
      BeginLarge(cursor, large->key);  // anew: memory for a sync is bounded
      return true;
    }
  }
  if (!large->linked && !WriteLarge(large, key.digest, budget_bytes, batch)) {
    return false;
  }
  if (!WriteDeltas(large, budget_bytes, batch)) {
    return false;
  }
  cursor->reading = nullptr;
  return true;
}

}  // namespace kvstored::shard
