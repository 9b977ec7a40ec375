// Records from elsewhere: the one Apply that recovery, replication, checkpoints and the primary's
// own commands end in. Idempotent: what is older than what it meets is skipped, so a fuzzy snapshot
// with the log replayed over it, any number of times, gives the same state.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/endian.h"
#include "kvstored/record_format.h"
#include "shard/shard.h"

namespace kvstored::shard {
namespace {

// Runs of snapshots are named by their item's seq, which a live run's first part may equal.
constexpr uint64_t kSnapshotRun = uint64_t{1} << 63;

// Records that are applied together: the lines of memory that they need come side by side.
constexpr size_t kGroupMax = 32;

struct Group {
  std::array<record::Record, kGroupMax> records;
  size_t count = 0;

  std::span<const record::Record> all() const {
    return std::span(records).first(count);
  }
};

// The next records, at most `count_max`. They were verified when they arrived, and nobody may have
// touched them since.
void DecodeGroup(std::span<const uint8_t> bytes, uint64_t count_max, Group* group) {
  const size_t limit = std::min<uint64_t>(kGroupMax, count_max);
  for (group->count = 0; group->count < limit && !bytes.empty(); ++group->count) {
    size_t size_bytes = 0;
    const auto decoded = record::Decode(bytes, &group->records[group->count], &size_bytes);
    KVS_CHECK(decoded == record::DecodeResult::kOk, "decoded=%d", static_cast<int>(decoded));
    bytes = bytes.subspan(size_bytes);
  }
}

// What others have, on disk or on the primary, is held here, too: max_memory may have been lowered
// since, or be larger there. A primary that evicts does so afterwards.
class BeyondLimit {
 public:
  explicit BeyondLimit(store::Store* store) : store_(store) {
    store_->SetBeyondLimit(true);
  }
  ~BeyondLimit() {
    store_->SetBeyondLimit(false);
  }
  BeyondLimit(const BeyondLimit&) = delete;
  BeyondLimit& operator=(const BeyondLimit&) = delete;

 private:
  store::Store* const store_;
};

uint64_t RunKey(const record::Record& record) {
  const uint64_t id = record.aux != 0 ? record.aux : record.seq;
  return (record.flags & kRecordSnapshot) != 0 ? id | kSnapshotRun : id;
}

}  // namespace

void Shard::Prefetch(std::span<const record::Record> records) const {
  for (const record::Record& record : records) {
    store_.Prefetch(record.digest);
  }
  for (const record::Record& record : records) {
    store_.PrefetchItem(record.digest);
  }
}

// A snapshot holds its items in the order of their digests, and these spread evenly: what part of
// their space the first ones take tells how many there are.
template <typename Records>
void Shard::ExpectItems(const Records& for_each) {
  constexpr uint64_t kSampleMin = 256;  // a smaller one errs by a tenth
  if (store_.size() != 0) {
    return;
  }
  uint64_t count = 0;
  uint64_t last_digest_high = 0;
  for_each([&](RecordOp op, uint8_t flags, uint64_t digest_high) {
    if (op == RecordOp::kSet && (flags & kRecordSnapshot) != 0) {
      ++count;
      last_digest_high = std::max(last_digest_high, digest_high);
    }
  });
  if (count >= kSampleMin) {
    const double part = std::ldexp(static_cast<double>(last_digest_high) + 1, -64);
    store_.Expect(static_cast<uint64_t>(static_cast<double>(count) / part));
  }
}

OpResult Shard::ApplyGroup(std::span<const record::Record> records) {
  const BeyondLimit beyond(&store_);
  Prefetch(records);
  for (const record::Record& record : records) {
    if (const OpResult result = Apply(record); result != OpResult::kOk) {
      return result;
    }
  }
  return OpResult::kOk;
}

OpResult Shard::ApplyAll(std::span<const record::Record> records) {
  ExpectItems([records](const auto& see) {
    for (const record::Record& record : records) {
      see(record.op, record.flags, record.digest.high);
    }
  });
  while (!records.empty()) {
    const auto group = records.first(std::min(kGroupMax, records.size()));
    if (const OpResult result = ApplyGroup(group); result != OpResult::kOk) {
      return result;
    }
    records = records.subspan(group.size());
  }
  return OpResult::kOk;
}

void Shard::TellListener(RecordOp op, std::string_view key) {
  switch (op) {
    case RecordOp::kSet:
    case RecordOp::kDelete:
    case RecordOp::kAppend:
    case RecordOp::kSetRange:
    case RecordOp::kSetExpiry:
    case RecordOp::kLink:
      change_listener_->OnChange(options_.id, key);
      return;
    case RecordOp::kFlush:
      change_listener_->OnFlush(options_.id);
      return;
    case RecordOp::kPart:
    case RecordOp::kTxnEnd:
    case RecordOp::kEpochBegin:
      return;
  }
}

OpResult Shard::Apply(const record::Record& record) {
  if (change_listener_ != nullptr) {
    TellListener(record.op, record.key);
  }
  const Key key{.bytes = record.key, .digest = record.digest};
  if ((record.flags & kRecordSnapshot) != 0) {
    snapshot_seq_max_ = std::max(snapshot_seq_max_, record.seq);
  }
  switch (record.op) {
    case RecordOp::kSet:
      return store_.PutNewer(key, record.value, record.expiry_ms, record.seq);
    case RecordOp::kDelete: {
      const store::Item* item = store_.Find(key);
      if (item != nullptr && item->seq() < record.seq) {
        absent_watches_.OnRemoval(key, item->seq());
        store_.Erase(key);
        NoteRemoval(record.digest, record.seq);
      }
      return OpResult::kOk;
    }
    case RecordOp::kAppend:
    case RecordOp::kSetRange:
    case RecordOp::kSetExpiry: {
      const OpResult result = ApplyDelta(key, record);
      if (result == OpResult::kOk && !being_read_.empty()) {
        NoteDelta(record);
      }
      return result;
    }
    case RecordOp::kFlush:
      return ApplyFlush(record.seq);
    case RecordOp::kPart:
      return ApplyPart(record);
    case RecordOp::kLink:
      return ApplyLink(record);
    case RecordOp::kTxnEnd:
    case RecordOp::kEpochBegin:
      return OpResult::kOk;
  }
  return OpResult::kOk;
}

OpResult Shard::ApplyDelta(const Key& key, const record::Record& record) {
  const store::Item* item = store_.Find(key);
  if (item == nullptr || item->seq() != record.aux) {
    return OpResult::kOk;  // it changed another version: that item's own record tells the rest
  }
  if (record.op == RecordOp::kAppend) {
    return store_.Append(key, record.value, record.seq);
  }
  if (record.op == RecordOp::kSetExpiry) {
    return store_.SetExpiry(key, record.expiry_ms, record.seq);
  }
  if (record.value.size() < 8) {
    return OpResult::kOk;
  }
  return store_.SetRange(key, base::LoadBe64(record.value.data()), record.value.substr(8),
                         record.seq);
}

OpResult Shard::ApplyFlush(Seq seq) {
  if (snapshot_seq_max_ <= seq) {
    absent_watches_.OnFlush(store_);
    store_.Clear();
  } else {
    // Replay over a snapshot that was read later: only what is older goes.
    absent_watches_.TouchAll();
    struct Older {
      Seq seq;
      std::vector<std::string> keys;
    } older{seq, {}};
    uint64_t cursor = 0;
    do {
      cursor = store_.Scan(
          cursor, 1024,
          [](void* context, const store::Item& item) {
            auto* o = static_cast<Older*>(context);
            if (item.seq() < o->seq) {
              o->keys.emplace_back(item.key());
            }
          },
          &older);
      for (const std::string& key : older.keys) {
        store_.Erase({.bytes = key, .digest = options_.digester->Of(key)});
      }
      older.keys.clear();
    } while (cursor != 0);
  }
  if (seq > committed()) {
    flush_seq_ = seq;
  }
  return OpResult::kOk;
}

OpResult Shard::ApplyPart(const record::Record& record) {
  const uint64_t id = RunKey(record);
  const bool first = record.aux == 0 || ((record.flags & kRecordSnapshot) != 0);
  auto found = open_runs_.find(id);
  if (found == open_runs_.end()) {
    if (!first) {
      return OpResult::kOk;  // its first part was before the start of what we replay: never linked
    }
    found = open_runs_.emplace(id, store_.NewChain(record.expiry_ms)).first;
  }
  if (found->second.written_bytes() + record.value.size() > record.expiry_ms) {
    open_runs_.erase(found);
    return OpResult::kOk;
  }
  return found->second.Write(record.value);
}

OpResult Shard::ApplyLink(const record::Record& record) {
  const auto found = open_runs_.find(RunKey(record));
  if (found == open_runs_.end() || record.value.size() != 8 ||
      found->second.written_bytes() != base::LoadBe64(record.value.data())) {
    return OpResult::kOk;
  }
  store::ChainRef chain = found->second.Finish();
  open_runs_.erase(found);
  const Key key{.bytes = record.key, .digest = record.digest};
  const store::Item* item = store_.Find(key);
  if (item != nullptr && item->seq() >= record.seq) {
    return OpResult::kOk;
  }
  return store_.PutChain(key, std::move(chain), record.expiry_ms, record.seq);
}

void Shard::Receive(record::BatchRef batch) {
  KVS_CHECK(batch->first_seq == appended() + 1, "first=%lu appended=%lu", batch->first_seq,
            appended());
  received_.push_back(std::move(batch));
}

OpResult Shard::ApplyReceived(Seq limit) {
  const BeyondLimit beyond(&store_);
  while (!received_.empty() && applied_ < limit) {
    const record::Batch& batch = *received_.front();
    while (received_offset_ < batch.bytes.size() && applied_ < limit) {
      Group group;
      DecodeGroup(std::span(batch.bytes).subspan(received_offset_), limit - applied_, &group);
      Prefetch(group.all());
      for (const record::Record& record : group.all()) {
        KVS_CHECK(record.seq == applied_ + 1, "seq=%lu applied=%lu", record.seq, applied_);
        if (const OpResult result = Apply(record); result != OpResult::kOk) {
          return result;
        }
        applied_ = record.seq;
        received_offset_ += record::EncodedBytes(record.key.size(), record.value.size());
        VerifyIfReached();
      }
    }
    if (received_offset_ == batch.bytes.size()) {
      received_.pop_front();
      received_offset_ = 0;
    }
  }
  return OpResult::kOk;
}

bool Shard::CutReceived(Seq limit) {
  if (applied_ > limit) {
    return false;
  }
  while (!received_.empty() && received_.back()->last_seq > limit) {
    const record::BatchRef last = std::move(received_.back());
    received_.pop_back();
    if (last->first_seq > limit) {
      continue;
    }
    auto kept = std::make_shared<record::Batch>(*last);
    size_t offset = 0;
    Seq seq = last->first_seq - 1;
    while (seq < limit) {
      record::Record record;
      size_t size_bytes = 0;
      const auto decoded =
          record::Decode(std::span(last->bytes).subspan(offset), &record, &size_bytes);
      KVS_CHECK(decoded == record::DecodeResult::kOk, "decoded=%d", static_cast<int>(decoded));
      offset += size_bytes;
      seq = record.seq;
    }
    kept->bytes.resize(offset);
    kept->last_seq = limit;
    received_.push_back(std::move(kept));
  }
  if (received_.empty()) {
    received_offset_ = 0;
  }
  return true;
}

void Shard::ForEachReceived(const std::function<void(const record::Cursor&)>& visit) const {
  for (const record::BatchRef& batch : received_) {
    for (record::Cursor cursor(batch->bytes); cursor.at_record(); cursor.Next()) {
      if (cursor.seq() > applied_) {
        visit(cursor);
      }
    }
  }
}

OpResult Shard::ApplySnapshot(const record::Batch& batch) {
  ExpectItems([&batch](const auto& see) {
    for (record::Cursor cursor(batch.bytes); cursor.at_record(); cursor.Next()) {
      see(cursor.op(), cursor.flags(), cursor.digest_high());
    }
  });
  std::span<const uint8_t> left = batch.bytes;
  while (!left.empty()) {
    Group group;
    DecodeGroup(left, kGroupMax, &group);
    if (const OpResult result = ApplyGroup(group.all()); result != OpResult::kOk) {
      return result;
    }
    for (const record::Record& record : group.all()) {
      left = left.subspan(record::EncodedBytes(record.key.size(), record.value.size()));
    }
  }
  return OpResult::kOk;
}

void Shard::VerifyAt(Seq end, uint64_t hash, std::function<void(bool equal)> done) {
  KVS_CHECK(applied_ <= end, "applied=%lu end=%lu", applied_, end);
  verification_ = {.end = end, .hash = hash, .done = std::move(done)};
  VerifyIfReached();
}

void Shard::VerifyIfReached() {
  if (verification_.done && applied_ == verification_.end) {
    // The scan is over: runs that it began and did not link belong to items that are gone.
    absl::erase_if(open_runs_, [](const auto& run) { return (run.first & kSnapshotRun) != 0; });
    std::exchange(verification_.done, nullptr)(store_.StateHash() == verification_.hash);
  }
}

OpResult Shard::ApplyCommitted(Seq told) {
  const OpResult result = ApplyReceived(told);
  AdvanceCommitted(applied_);
  return result;
}

void Shard::SetRecovered(Seq applied, Seq committed) {
  applied_ = applied;
  committed_.store(std::min(applied, committed), std::memory_order_release);
}

void Shard::Reset(Seq position) {
  if (change_listener_ != nullptr) {
    TellListener(RecordOp::kFlush, {});
  }
  absent_watches_.TouchAll();
  store_.Clear();
  open_runs_.clear();
  received_.clear();
  received_offset_ = 0;
  verification_ = {};
  removals_.clear();
  removal_order_.clear();
  txns_.clear();
  uncommitted_.clear();
  CountUncommitted(-static_cast<int64_t>(uncommitted_bytes_));
  flush_seq_ = 0;
  snapshot_seq_max_ = 0;
  applied_ = position;
  committed_.store(position, std::memory_order_release);
}

}  // namespace kvstored::shard
