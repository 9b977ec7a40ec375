// What commands do with a shard: read, reserve, write, transact. Large values are in shard_run.cc,
// the tick in shard_tick.cc, records from elsewhere in shard_apply.cc.
#include "shard/shard.h"

#include "base/check.h"
#include "base/endian.h"
#include "kvstored/limits.h"
#include "kvstored/record_format.h"

namespace kvstored::shard {
namespace {

// A run of parts or a batch of deltas costs a header a record; Reserve counts it.
uint64_t EncodedBound(uint32_t record_count, uint64_t bytes) {
  return bytes + uint64_t{record_count} * (kRecordHeaderBytes + kRecordAlign);
}

uint64_t RemovalKey(const Digest& digest) {
  return digest.high ^ digest.low;
}

}  // namespace

Shard::Shard(Options options)
    : options_(std::move(options)), store_(options_.pool, options_.digester), random_(options_.id) {
}

Shard::~Shard() {
  CountUncommitted(-static_cast<int64_t>(uncommitted_bytes_));
  options_.pool->NoteGivers(giver_weight_ != 0 ? -1 : 0, -static_cast<int64_t>(giver_weight_));
}

const store::Item* Shard::Peek(const Key& key) {
  const store::Item* item = store_.Find(key);
  if (item != nullptr) {
    dependency_ = std::max(dependency_, item->seq());
    if (!IsExpired(*item)) {
      return item;
    }
  } else {
    Seq removal = flush_seq_;
    if (!removals_.empty()) {
      const auto found = removals_.find(RemovalKey(key.digest));
      if (found != removals_.end()) {
        removal = std::max(removal, found->second);
      }
    }
    dependency_ = std::max(dependency_, removal);
  }
  return nullptr;
}

KeyWatch Shard::Watch(const Key& key) {
  const store::Item* item = store_.Find(key);
  if (item != nullptr && !IsExpired(*item)) {
    return {.seq = item->seq(), .absent = nullptr};
  }
  return {.seq = 0, .absent = absent_watches_.Add(key, applied_)};
}

bool Shard::IsTouched(const Key& key, const KeyWatch& watch) const {
  const store::Item* item = store_.Find(key);
  if (watch.absent != nullptr) {
    return watch.absent->touched || (item != nullptr && item->seq() > watch.absent->since);
  }
  return item == nullptr || item->seq() != watch.seq || IsExpired(*item);
}

void Shard::Gate(Gated* gated) {
  KVS_CHECK(gated->dependency <= applied_, "dependency=%lu applied=%lu", gated->dependency,
            applied_);
  ++counters_.gate_waits;
  gated->next = nullptr;
  if (gated_tail_ == nullptr) {
    gated_head_ = gated;
  } else {
    // Rising dependencies keep the list a queue; waiting longer than needed is always safe.
    gated->dependency = std::max(gated->dependency, gated_tail_->dependency);
    gated_tail_->next = gated;
  }
  gated_tail_ = gated;
}

OpResult Shard::Reserve(uint32_t record_count, uint64_t bytes, bool force) {
  if (!force) {
    if (const OpResult room = AskRoom(bytes); room != OpResult::kOk) {
      return room;
    }
  }
  return ReserveLog(record_count, bytes, force);
}

OpResult Shard::ReserveLog(uint32_t record_count, uint64_t bytes, bool force) {
  const uint64_t encoded = EncodedBound(record_count, bytes);
  if (!force) {
    if (const OpResult gated = options_.gate->JudgeWrite(); gated != OpResult::kOk) {
      return gated;
    }
    const uint64_t held = uncommitted_bytes_ + OpenBytes();
    if (held > 0 && held + encoded > UncommittedBytesMax()) {
      return OpResult::kWait;
    }
  }
  const uint64_t needed = OpenBytes() + encoded;
  if (log_quota_bytes_ < needed) {
    const uint64_t asked = std::max(needed - log_quota_bytes_, kLogQuotaStepBytes);
    // More than lies ready: the background thread makes it (kWait), or has found no room for it.
    if (const OpResult reserved = options_.reserve_log(asked); reserved != OpResult::kOk) {
      return reserved;
    }
    log_quota_bytes_ += asked;
  }
  return OpResult::kOk;
}

// On a small node the window is small, too.
uint64_t Shard::UncommittedBytesMax() const {
  const uint64_t all = std::min<uint64_t>(kUncommittedBytesMax, options_.pool->max_bytes() / 8);
  return all / options_.shard_count;
}

void Shard::Encode(record::Record* record) {
  if (!batch_) {
    batch_ = std::make_shared<record::Batch>();
    batch_->shard = options_.id;
    batch_->first_seq = record->seq;
    batch_->bytes.reserve(sealed_bytes_);
  }
  KVS_CHECK(record->seq == applied_ + 1, "seq=%lu applied=%lu", record->seq, applied_);
  applied_ = record->seq;
  batch_->last_seq = record->seq;
  const size_t before = batch_->bytes.size();
  record::Encode(*record, &batch_->bytes);
  ++counters_.records;
  counters_.record_bytes += batch_->bytes.size() - before;
  dependency_ = std::max(dependency_, record->seq);
}

OpResult Shard::Emit(record::Record* record) {
  record->seq = applied_ + 1;
  record->epoch = options_.gate->epoch.load(std::memory_order_relaxed);
  record->timestamp_us = now_us_;
  if (txn_id_ != 0) {
    record->flags |= kRecordInTxn;
    if (txn_first_ == 0) {
      txn_first_ = record->seq;
      txns_.push_back({.first = record->seq, .last = 0, .commit = nullptr, .counted = false});
    }
  }
  // Parts are inert, and SetRun has linked its chain already.
  if (record->op != RecordOp::kPart && record->op != RecordOp::kLink) {
    const OpResult applied = Apply(*record);
    if (applied != OpResult::kOk) {
      if (txn_first_ == record->seq) {
        txn_first_ = 0;
        txns_.pop_back();
      }
      return applied == OpResult::kOutOfMemory ? AskPlace() : applied;
    }
  }
  Encode(record);
  return OpResult::kOk;
}

OpResult Shard::Set(const Key& key, std::string_view value, uint64_t expiry_ms) {
  KVS_CHECK(value.size() <= kPartBytesMax, "value_bytes=%zu", value.size());
  record::Record record{.digest = key.digest,
                        .op = RecordOp::kSet,
                        .expiry_ms = expiry_ms,
                        .key = key.bytes,
                        .value = value};
  return Emit(&record);
}

void Shard::Delete(const Key& key, uint8_t reason_flag) {
  record::Record record{
      .digest = key.digest, .op = RecordOp::kDelete, .flags = reason_flag, .key = key.bytes};
  const OpResult result = Emit(&record);
  KVS_CHECK(result == OpResult::kOk, "result=%d", static_cast<int>(result));
  if ((reason_flag & kRecordExpired) != 0) {
    ++counters_.expired_keys;
  }
  if ((reason_flag & kRecordEvicted) != 0) {
    ++counters_.evicted_keys;
  }
}

OpResult Shard::Append(const Key& key, std::string_view bytes) {
  const store::Item* item = store_.Find(key);
  KVS_CHECK(item != nullptr && bytes.size() <= kPartBytesMax, "bytes=%zu", bytes.size());
  record::Record record{.digest = key.digest,
                        .op = RecordOp::kAppend,
                        .aux = item->seq(),
                        .key = key.bytes,
                        .value = bytes};
  return Emit(&record);
}

OpResult Shard::SetRange(const Key& key, uint64_t offset, std::string_view bytes) {
  const store::Item* item = store_.Find(key);
  KVS_CHECK(item != nullptr && bytes.size() <= kPartBytesMax, "bytes=%zu", bytes.size());
  std::string value(8, '\0');
  base::StoreBe64(value.data(), offset);
  value.append(bytes);
  record::Record record{.digest = key.digest,
                        .op = RecordOp::kSetRange,
                        .aux = item->seq(),
                        .key = key.bytes,
                        .value = value};
  return Emit(&record);
}

OpResult Shard::SetExpiry(const Key& key, uint64_t expiry_ms) {
  const store::Item* item = store_.Find(key);
  KVS_CHECK(item != nullptr, "expiry_ms=%lu", expiry_ms);
  record::Record record{.digest = key.digest,
                        .op = RecordOp::kSetExpiry,
                        .expiry_ms = expiry_ms,
                        .aux = item->seq(),
                        .key = key.bytes};
  return Emit(&record);
}

void Shard::Flush() {
  record::Record record{.op = RecordOp::kFlush};
  const OpResult result = Emit(&record);
  KVS_CHECK(result == OpResult::kOk, "result=%d", static_cast<int>(result));
}

bool Shard::TryHold(uint64_t txn_id) {
  KVS_CHECK(txn_id != 0, "shard=%u", options_.id);
  if (held_by_ != 0) {
    return held_by_ == txn_id;
  }
  held_by_ = txn_id;
  return true;
}

void Shard::ReleaseHold(uint64_t txn_id) {
  KVS_CHECK(held_by_ == txn_id && txn_id_ == 0, "held_by=%lu txn=%lu open=%lu", held_by_, txn_id,
            txn_id_);
  held_by_ = 0;
  parked_may_run_ = true;
}

void Shard::BeginTxn(uint64_t txn_id) {
  KVS_CHECK(txn_id_ == 0 && txn_id != 0, "open=%lu txn=%lu", txn_id_, txn_id);
  txn_id_ = txn_id;
  txn_first_ = 0;
  store_.SetMustSucceed(true);
}

void Shard::EndTxn(std::span<const record::TxnPart> parts, std::shared_ptr<TxnCommit> commit) {
  KVS_CHECK(txn_id_ != 0 && txn_first_ != 0, "txn=%lu first=%lu", txn_id_, txn_first_);
  const std::string value = record::EncodeTxnParts(parts);
  record::Record record{.op = RecordOp::kTxnEnd, .aux = txn_id_, .value = value};
  const OpResult result = Emit(&record);
  KVS_CHECK(result == OpResult::kOk, "result=%d", static_cast<int>(result));
  txns_.back().last = record.seq;
  txns_.back().commit = std::move(commit);
  txn_id_ = 0;
  txn_first_ = 0;
  store_.SetMustSucceed(false);
}

void Shard::AbandonTxn() {
  KVS_CHECK(txn_first_ == 0, "first=%lu", txn_first_);
  txn_id_ = 0;
  store_.SetMustSucceed(false);
}

void Shard::Park(base::Task* task) {
  ++counters_.parked;
  task->next = nullptr;
  if (parked_tail_ == nullptr) {
    parked_head_ = task;
  } else {
    parked_tail_->next = task;
  }
  parked_tail_ = task;
}

void Shard::NoteRemoval(const Digest& digest, Seq seq) {
  if (seq <= committed()) {
    return;
  }
  removals_[RemovalKey(digest)] = seq;
  removal_order_.emplace_back(seq, RemovalKey(digest));
}

void Shard::BeginEpoch(const Epoch& epoch, std::shared_ptr<TxnCommit> commit) {
  KVS_CHECK(txns_.empty(), "shard=%u", options_.id);
  std::string value(12, '\0');
  base::StoreBe32(value.data(), epoch.number);
  base::StoreBe64(value.data() + 4, epoch.id);
  record::Record record{.op = RecordOp::kEpochBegin, .value = value};
  const OpResult result = Emit(&record);
  KVS_CHECK(result == OpResult::kOk, "result=%d", static_cast<int>(result));
  epoch_begin_ = record.seq;
  txns_.push_back({.first = committed() + 1,
                   .last = record.seq,
                   .commit = std::move(commit),
                   .counted = false});
}

}  // namespace kvstored::shard
