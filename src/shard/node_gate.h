// What the node tells all its shards, and what that means for a write.
#pragma once

#include <atomic>
#include <cstdint>

#include "kvstored/op_result.h"
#include "kvstored/types.h"

namespace kvstored::shard {

// Written by the control side, read by shard threads each tick.
struct NodeGate {
  std::atomic<uint8_t> role{0};          // Role; 0 = none yet
  std::atomic<bool> loading{true};       // recovery or full sync: everything answers -LOADING
  std::atomic<bool> writable{false};     // primary whose epoch is open
  std::atomic<bool> no_replicas{false};  // member set incomplete or silent beyond commit_timeout
  std::atomic<bool> disk_full{false};
  std::atomic<bool> stepped_down{false};
  std::atomic<uint8_t> ack{0};       // AckLevel
  std::atomic<uint8_t> eviction{0};  // store::Eviction
  std::atomic<uint32_t> epoch{0};
  // CLIENT PAUSE, of the record clock: until then nothing expires or is evicted, and no write
  // begins.
  std::atomic<uint64_t> paused_until_us{0};
  std::atomic<bool> pauses_all{false};  // nor any other command

  bool IsPaused(uint64_t now_us) const {
    return now_us < paused_until_us.load(std::memory_order_acquire);  // partner: FrontSet::Pause
  }

  bool HasRole(Role wanted) const {
    return role.load(std::memory_order_relaxed) == static_cast<uint8_t>(wanted);
  }

  // May a write begin now? kOk, or why not. What only a shard can know (log space, memory) its
  // Reserve tells later.
  OpResult JudgeWrite() const {
    if (writable.load(std::memory_order_acquire)) {  // partner: Roles, which opens the epoch first
      return no_replicas.load(std::memory_order_relaxed) ? OpResult::kNoReplicas : OpResult::kOk;
    }
    if (loading.load(std::memory_order_relaxed)) {
      return OpResult::kLoading;
    }
    if (stepped_down.load(std::memory_order_relaxed)) {
      return OpResult::kSteppedDown;
    }
    if (HasRole(Role::kPrimary) && disk_full.load(std::memory_order_relaxed)) {
      return OpResult::kDiskFull;
    }
    return HasRole(Role::kReplica) ? OpResult::kReadOnly : OpResult::kNoReplicas;
  }
};

}  // namespace kvstored::shard
