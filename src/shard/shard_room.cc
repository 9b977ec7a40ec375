// Room in the one memory budget. Commands only ask for it: what a handler looks at must not go
// while it runs. It is made between commands, once a tick: what was let go comes back first, then
// items go as the policy says. An eviction is a record like any other removal, so replicas never
// decide by themselves.
#include <algorithm>
#include <string>
#include <utility>

#include "kvstored/limits.h"
#include "kvstored/record_format.h"
#include "shard/shard.h"

namespace kvstored::shard {
namespace {

constexpr uint32_t kRoomStepsMax = 1024;  // a tick: about half a millisecond
constexpr uint32_t kReclaimSteps = 32;    // what a step of the store's costs in evictions
constexpr uint32_t kPlaceSteps = 64;      // a tick, while a chunk is waited for
constexpr uint32_t kMissSteps = 4;        // and what looking through that many buckets in vain does
constexpr uint32_t kVictimBuckets = 64;   // of the index, looked through for one victim

// Under a policy that evicts so much is kept free ahead, so that commands need not wait for it.
uint64_t AheadBytes(uint64_t max_bytes) {
  constexpr uint64_t kAheadBytesMax = uint64_t{16} << 20;
  return std::min(max_bytes / 128, kAheadBytesMax);
}

}  // namespace

OpResult Shard::AskRoom(uint64_t bytes) {
  memory::RegionPool& pool = *options_.pool;
  if (pool.WithinBudget(bytes)) {
    return OpResult::kOk;
  }
  // An eviction is a write: who may not write, or has no log for it, waits in vain.
  if (const OpResult reserved = ReserveLog(1, kKeyBytesMax); reserved != OpResult::kOk) {
    return reserved;
  }
  if (bytes > pool.max_bytes() || !(CanGiveRoom() || pool.HasGivers())) {
    return OpResult::kOutOfMemory;
  }
  pool.AskRoom(std::max(bytes, pool.asked_bytes()));
  awaits_room_ = true;
  parked_may_run_ = true;  // the tick goes on at once
  if (wake_others_ && !CanGiveRoom()) {
    wake_others_();
  }
  return OpResult::kWait;
}

// The budget has room, but no chunk is left for this size of item.
OpResult Shard::AskPlace() {
  if (!store_.CanCompact() && !CanGiveRoom()) {
    return OpResult::kOutOfMemory;
  }
  awaits_place_ = true;
  return Yield();
}

bool Shard::CanGiveRoom() const {
  return store_.HasReclaimable() ||
         (store_.HasEvictable() && options_.gate->writable.load(std::memory_order_acquire));
}

// Of two shards the one that holds more gives first: keys are spread evenly, so what goes is about
// as old in both.
void Shard::NoteGiving() {
  uint64_t weight = 0;
  if (CanGiveRoom()) {
    weight =
        1 + (store::IsVolatile(store_.eviction()) ? store_.expiring_count() : store_.used_bytes());
  }
  if (weight != giver_weight_) {
    options_.pool->NoteGivers((weight != 0 ? 1 : 0) - (giver_weight_ != 0 ? 1 : 0),
                              static_cast<int64_t>(weight) - static_cast<int64_t>(giver_weight_));
    giver_weight_ = weight;
  }
}

// True: there is more to do at once.
bool Shard::MakeRoom() {
  memory::RegionPool& pool = *options_.pool;
  NoteGiving();
  if (options_.gate->IsPaused(now_us_)) {
    return false;  // nothing changes meanwhile; who waits for room does so a little longer
  }
  const uint64_t asked_bytes = pool.asked_bytes();
  const uint64_t ahead_bytes = store_.HasEvictable() ? AheadBytes(pool.max_bytes()) : 0;
  const uint64_t wanted_bytes = std::max(asked_bytes, ahead_bytes);
  if (std::exchange(awaits_place_, false)) {
    // Chunks come free where items move together: a few less of them, and there is place for that.
    for (uint32_t i = 0; i < kPlaceSteps && held_by_ == 0 && CanGiveRoom() && FreeOne() != 0; ++i) {
    }
  }
  uint32_t steps = kRoomStepsMax;
  while (!pool.WithinBudget(wanted_bytes) && steps != 0 && held_by_ == 0 && CanGiveRoom() &&
         pool.IsHeavyGiver(giver_weight_)) {
    const uint32_t taken = FreeOne();
    if (taken == 0) {
      break;
    }
    steps -= std::min(steps, taken);
    NoteGiving();
  }
  const bool enough = pool.WithinBudget(asked_bytes);
  if (enough && asked_bytes != 0) {
    pool.AskRoom(0);  // whoever asked for more meanwhile asks again
  }
  if (awaits_room_ && (enough || !pool.HasGivers())) {
    awaits_room_ = false;
    parked_may_run_ = true;
  }
  return steps == 0;
}

// Memory of what has gone already comes back, or else one more item goes. How many steps that took;
// 0: no log for it.
uint32_t Shard::FreeOne() {
  if (store_.HasReclaimable()) {
    store_.Reclaim();
    return kReclaimSteps;
  }
  const store::Item* victim = store_.FindVictim(random_.Next(), kVictimBuckets);
  if (victim == nullptr) {
    return kMissSteps;  // none among these; the next step looks further
  }
  const std::string bytes(victim->key());
  if (ReserveLog(1, bytes.size()) != OpResult::kOk) {
    return 0;
  }
  Delete({.bytes = bytes, .digest = options_.digester->Of(bytes)}, kRecordEvicted);
  return 1;
}

}  // namespace kvstored::shard
