// The shard's part of the tick: expiry, parked commands, sealing, the commit watermark, the gate.
#include <algorithm>

#include "base/check.h"
#include "kvstored/limits.h"
#include "kvstored/record_format.h"
#include "shard/shard.h"

namespace kvstored::shard {
namespace {

constexpr uint32_t kExpiryBudget = 256;  // index entries looked at a tick
constexpr uint64_t kReservedBytesMax = uint64_t{256} << 10;
constexpr uint64_t kPublishUs = 100'000;
constexpr uint64_t kParkedRetryUs = 10'000;  // node states may have changed meanwhile

}  // namespace

bool Shard::ExpireSome() {
  if (store_.counters().expiring_count == 0 || held_by_ != 0 || options_.gate->IsPaused(now_us_)) {
    return false;
  }
  std::vector<std::string> keys;
  store_.CollectExpired(
      now_ms(), kExpiryBudget,
      [](void* context, const store::Item& item) {
        static_cast<std::vector<std::string>*>(context)->emplace_back(item.key());
      },
      &keys);
  for (const std::string& bytes : keys) {
    // Only the primary decides, and only while its set acknowledges (P8): Reserve says.
    if (ReserveLog(1, bytes.size()) != OpResult::kOk) {
      return false;
    }
    const Key key{.bytes = bytes, .digest = options_.digester->Of(bytes)};
    const store::Item* item = store_.Find(key);
    if (item != nullptr && IsExpired(*item)) {
      Delete(key, kRecordExpired);
    }
  }
  return keys.size() * 4 > kExpiryBudget;  // a quarter was expired: go on, as Redis' cycle does
}

void Shard::RunParked() {
  if (parked_head_ == nullptr) {
    return;
  }
  if (!parked_may_run_ && now_us_ < parked_retry_us_) {
    return;
  }
  parked_may_run_ = false;
  parked_retry_us_ = now_us_ + kParkedRetryUs;
  base::Task* task = parked_head_;
  parked_head_ = nullptr;
  parked_tail_ = nullptr;
  while (task != nullptr) {
    base::Task* next = task->next;  // running it may park it again
    task->run(task);
    task = next;
  }
}

// What a transaction reserved is an upper bound: large values that it turns out not to write would
// leave the other shards without log space (P25). Until it lets go of the shard it may still need
// it; other commands use what they reserve before they return.
void Shard::ReturnQuota() {
  const uint64_t kept = OpenBytes() + kLogQuotaStepBytes;
  if (held_by_ == 0 && log_quota_bytes_ > kept) {
    options_.return_log(log_quota_bytes_ - kept);
    log_quota_bytes_ = kept;
  }
}

void Shard::BeginTick(uint64_t now_us) {
  now_us_ = now_us;
  store_.SetNow(now_us);
  store_.SetEviction(
      static_cast<store::Eviction>(options_.gate->eviction.load(std::memory_order_relaxed)));
}

void Shard::Publish() {
  publish_us_ = now_us_ + kPublishUs;
  const store::StoreCounters& store = store_.counters();
  figures_.keys.Set(store.item_count);
  figures_.expiring_keys.Set(store.expiring_count);
  figures_.keyspace_hits.Set(counters_.keyspace_hits);
  figures_.keyspace_misses.Set(counters_.keyspace_misses);
  figures_.expired_keys.Set(counters_.expired_keys);
  figures_.evicted_keys.Set(counters_.evicted_keys);
  figures_.item_bytes.Set(store.item_bytes);
  figures_.index_bytes.Set(store.index_bytes);
  for (uint32_t slot_class = 1; slot_class < memory::kSlotClassCount; ++slot_class) {
    const memory::SlotClassCounters counters = store_.SlotCounters(slot_class);
    ShardFigures::Class& figure = figures_.classes[slot_class];
    figure.slab_bytes.Set(counters.slab_bytes);
    figure.used_bytes.Set(counters.used_count * memory::SlotClassBytes(slot_class));
    figure.requested_bytes.Set(counters.requested_bytes);
  }
}

bool Shard::Housekeeping(TickPhases* phases) {
  const auto ended = [phases](TickPhase phase) {
    if (phases != nullptr) {
      phases->End(phase);
    }
  };
  if (now_us_ >= publish_us_) {
    Publish();
  }
  bool more = MakeRoom();
  if (more) {
    ended(TickPhase::kEviction);
  }
  if (parked_head_ != nullptr) {
    RunParked();
    ended(TickPhase::kParked);
  }
  ReturnQuota();
  if (options_.gate->writable.load(std::memory_order_acquire) &&
      store_.counters().expiring_count > 0) {
    more = ExpireSome() || more;
    ended(TickPhase::kExpiry);
  }
  if (store_.Tick(random_.Next())) {
    more = true;
    ended(TickPhase::kReclaim);
  }
  return more;
}

void Shard::Seal() {
  if (!batch_) {
    return;
  }
  const uint64_t bytes = batch_->bytes.size();
  sealed_bytes_ = std::min(bytes, kReservedBytesMax);
  // The log spends what was reserved for these bytes; epoch_begin comes out of a reserve of its
  // own.
  log_quota_bytes_ -= std::min(log_quota_bytes_, bytes);
  batch_->committed = committed();
  batch_->clock_us = now_us_;
  CountUncommitted(static_cast<int64_t>(bytes));
  uncommitted_.push_back({.last = batch_->last_seq, .bytes = bytes});
  record::BatchRef sealed = std::move(batch_);
  batch_ = nullptr;
  options_.submit(std::move(sealed));
}

// These batches are memory, too.
void Shard::CountUncommitted(int64_t bytes) {
  uncommitted_bytes_ = static_cast<uint64_t>(static_cast<int64_t>(uncommitted_bytes_) + bytes);
  options_.pool->Charge(bytes);
}

// The highest seq up to `safe` that ends inside no transaction whose other parts are missing.
Seq Shard::TxnLimit(Seq safe) {
  while (!txns_.empty()) {
    CrossTxn& front = txns_.front();
    if (front.first > safe) {
      break;
    }
    if (front.last == 0 || front.last > safe) {
      return front.first - 1;
    }
    if (front.commit != nullptr) {
      if (!front.counted) {
        front.counted = true;
        // Partner: the load below on the other shards' threads.
        if (front.commit->parts_left.fetch_sub(1, std::memory_order_acq_rel) == 1 && wake_others_) {
          wake_others_();
        }
      }
      if (front.commit->parts_left.load(std::memory_order_acquire) != 0) {
        return front.first - 1;
      }
    }
    txns_.pop_front();
  }
  return safe;
}

bool Shard::AdvanceCommitted(Seq safe) {
  const Seq before = committed();
  const Seq target = TxnLimit(std::min(safe, applied_));
  if (target <= before) {
    return false;
  }
  committed_.store(target, std::memory_order_release);  // partner: committed()
  if (options_.committed_moved) {
    options_.committed_moved(target);
  }
  while (!uncommitted_.empty() && uncommitted_.front().last <= target) {
    CountUncommitted(-static_cast<int64_t>(uncommitted_.front().bytes));
    uncommitted_.pop_front();
    parked_may_run_ = true;
  }
  while (!removal_order_.empty() && removal_order_.front().first <= target) {
    const auto found = removals_.find(removal_order_.front().second);
    if (found != removals_.end() && found->second <= target) {
      removals_.erase(found);
    }
    removal_order_.pop_front();
  }
  if (flush_seq_ <= target) {
    flush_seq_ = 0;
  }
  while (gated_head_ != nullptr && gated_head_->dependency <= target) {
    Gated* gated = gated_head_;
    gated_head_ = gated->next;
    if (gated_head_ == nullptr) {
      gated_tail_ = nullptr;
    }
    gated->release(gated);
  }
  return true;
}

}  // namespace kvstored::shard
