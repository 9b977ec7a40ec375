// Snapshots without fork: the store is read in slices while writes go on. An item keeps its seq, so
// a slice may be mixed with live records in any way that keeps the order of positions
// (docs/protocol.md "Full sync"). Large values are read piece by piece from their pinned chain; the
// link that gives them an effect is written only if the item is still the one that was read.
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

struct SliceContext {
  Shard::SnapshotCursor* cursor = nullptr;
  record::Batch* batch = nullptr;
  const base::Digester* digester = nullptr;
};

void VisitItem(void* context, const store::Item& item) {
  auto* slice = static_cast<SliceContext*>(context);
  if (item.is_chain()) {
    slice->cursor->large.push_back({.key = std::string(item.key()),
                                    .seq = item.seq(),
                                    .expiry_ms = item.expiry_ms(),
                                    .chain = item.chain(),
                                    .offset = 0});
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

// Writes the next pieces of one large value; true when it is through.
bool WriteLarge(Shard::SnapshotCursor::Large* large, const Digest& digest, bool still_there,
                uint64_t budget_bytes, record::Batch* batch) {
  const uint64_t total_bytes = large->chain.size_bytes();
  std::string piece;
  while (still_there && large->offset < total_bytes) {
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
  if (!still_there) {
    return true;  // replaced or removed meanwhile: its own record tells; the parts stay inert
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
    if (!cursor->large.empty()) {
      SnapshotCursor::Large& large = cursor->large.front();
      const Key key{.bytes = large.key, .digest = options_.digester->Of(large.key)};
      const store::Item* item = store_.Find(key);
      const bool still_there = item != nullptr && item->seq() == large.seq;
      if (!WriteLarge(&large, key.digest, still_there, budget_bytes, batch.get())) {
        break;
      }
      cursor->large.pop_front();
    } else {
      cursor->scan = store_.Scan(cursor->scan, kScanItems, VisitItem, &context);
      cursor->scanned = cursor->scan == 0;
    }
  }
  return batch;
}

}  // namespace kvstored::shard
