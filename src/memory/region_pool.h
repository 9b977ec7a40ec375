// Region pool: the memory of the data set. Chunks of kChunkBytes, each aligned to its size, inside
// few large regions of address space. A region is reserved whole and made usable chunk by chunk, so
// that it stays one mapping for the kernel and can be registered with a device as a whole; a guard
// page lies on each side of it, so that an overrun faults instead of writing into a neighbour.
//
// The promise: an address handed out stays mapped until the pool is destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"

namespace kvstored::memory {

// What a region is made of. Decides how it is reserved and who may touch it.
enum class RegionKind : uint8_t { kHost = 0 };

// A run of chunks in one piece of address space.
struct Region {
  RegionKind kind = RegionKind::kHost;
  char* base = nullptr;       // aligned to kChunkBytes
  uint64_t size_bytes = 0;    // reserved; a multiple of kChunkBytes
  uint64_t mapped_bytes = 0;  // usable from `base` on; grows only
};

struct PoolCounters {
  uint64_t reserved_bytes = 0;      // address space
  uint64_t mapped_bytes = 0;        // chunks that may be backed by memory: used + free
  uint64_t used_bytes = 0;          // chunks handed out
  uint64_t free_bytes = 0;          // chunks ready to be handed out
  uint64_t grow_in_tick_count = 0;  // Allocate() calls that found no chunk ready
  uint64_t exhausted_count = 0;     // Allocate() calls that were refused
  uint64_t beyond_limit_count = 0;  // Allocate() calls that were granted beyond the limit
};

// Thread-safe. The lock is held for list operations only, never while memory is touched, and is
// asked for once in kChunkBytes of growth.
class RegionPool {
 public:
  struct Options {
    RegionKind kind = RegionKind::kHost;
    uint64_t initial_bytes = 0;    // made usable by Start(), rounded up to chunks
    uint64_t max_bytes = 0;        // max_memory: the budget of WithinBudget()
    uint64_t head_room_bytes = 0;  // what chunks may take beyond max_bytes: slabs are never all
                                   // full. 0 = DefaultHeadRoomBytes(max_bytes)
  };

  explicit RegionPool(const Options& options);
  // Every chunk must have been given back.
  ~RegionPool();
  RegionPool(const RegionPool&) = delete;
  RegionPool& operator=(const RegionPool&) = delete;

  static uint64_t DefaultHeadRoomBytes(uint64_t max_bytes);

  // Makes initial_bytes usable, untouched. Once, before anything is allocated.
  absl::Status Start();
  // Touches this caller's share of the initial bytes, so that no tick pays for the first page
  // faults. Each of `slice_count` threads calls it once with its index, at the same time, after
  // Start() and before anything is allocated.
  void Pretouch(uint32_t slice_index, uint32_t slice_count);

  // A chunk (contents undefined) or null: at the limit, or the kernel refuses. With `beyond_limit`
  // only the latter: for what was judged by WithinBudget() before it began and cannot stop half
  // way. It is no more than what fragmentation takes beyond the head-room.
  void* Allocate(bool beyond_limit = false);
  void Free(void* chunk);
  // The last Allocate() was refused, and no chunk has come back since.
  bool IsExhausted() const {
    return exhausted_.load(std::memory_order_relaxed);
  }

  // For a background thread: makes and touches chunks until `count` are free or the limit is
  // reached. Returns how many it added.
  uint32_t KeepFree(uint32_t count);
  // For a background thread: gives the memory (not the addresses) of free chunks beyond
  // `keep_count` back to the kernel. Returns how many.
  uint32_t Trim(uint32_t keep_count);

  // The one memory budget: what the data set, client buffers, replication and checkpoints hold.
  // Whoever holds memory charges it, and takes the charge back with a negative amount.
  void Charge(int64_t bytes) {
    const int64_t charged = charged_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (charged > peak_bytes_.load(std::memory_order_relaxed)) {
      peak_bytes_.store(charged, std::memory_order_relaxed);  // of two at once, either will do
    }
  }
  // The most that was charged.
  uint64_t peak_bytes() const {
    return static_cast<uint64_t>(peak_bytes_.load(std::memory_order_relaxed));
  }
  int64_t charged_bytes() const {
    return charged_bytes_.load(std::memory_order_relaxed);
  }
  // Would `extra_bytes` more still be within max_bytes?
  bool WithinBudget(uint64_t extra_bytes) const {
    return charged_bytes() + static_cast<int64_t>(extra_bytes) <= static_cast<int64_t>(max_bytes());
  }
  // Who needs room and could not make it says how much; whoever can give memory back looks here
  // once a tick. 0: nobody waits.
  void AskRoom(uint64_t bytes) {
    asked_bytes_.store(bytes, std::memory_order_relaxed);
  }
  uint64_t asked_bytes() const {
    return asked_bytes_.load(std::memory_order_relaxed);
  }
  // Holders that could give memory back now, and how much (in units that all of them share): each
  // says by itself what changed.
  void NoteGivers(int32_t count_change, int64_t weight_change) {
    giver_count_.fetch_add(count_change, std::memory_order_relaxed);
    giver_weight_.fetch_add(weight_change, std::memory_order_relaxed);
  }
  bool HasGivers() const {
    return giver_count_.load(std::memory_order_relaxed) > 0;
  }
  // Has a giver of this weight at least as much as the mean? Then it is the one to give, so that
  // all are left with about as much; one always is.
  bool IsHeavyGiver(uint64_t weight) const {
    return static_cast<int64_t>(weight) * giver_count_.load(std::memory_order_relaxed) >=
           giver_weight_.load(std::memory_order_relaxed);
  }
  uint64_t max_bytes() const {
    return max_bytes_.load(std::memory_order_relaxed);
  }
  // May go below what is held: then WithinBudget() is false until enough was given back.
  void SetMaxBytes(uint64_t max_bytes);

  PoolCounters counters() const;
  std::vector<Region> regions() const;

 private:
  void FaultIn(char* chunk);
  void AdviseAll();
  uint64_t LimitBytesLocked() const;
  bool ReserveLocked(uint64_t size_bytes);
  char* MapNextLocked(bool beyond_limit = false);
  char* TakeColdOrNewLocked(bool beyond_limit = false);

  const Options options_;
  std::atomic<uint64_t> max_bytes_;
  std::atomic<int64_t> charged_bytes_{0};
  std::atomic<int64_t> peak_bytes_{0};
  std::atomic<uint64_t> asked_bytes_{0};
  std::atomic<int32_t> giver_count_{0};
  std::atomic<int64_t> giver_weight_{0};
  std::atomic<bool> exhausted_{false};
  std::atomic<uint32_t> small_page_chunks_{0};       // so many chunks to come get small pages
  std::atomic<uint32_t> last_small_page_chunks_{0};  // how many it were the last time

  mutable std::mutex mutex_;
  std::vector<Region> regions_;
  std::vector<char*> free_chunks_;  // may be backed
  std::vector<char*> cold_chunks_;  // memory given back, address kept
  std::vector<char*> unadvised_chunks_;
  PoolCounters counters_;
};

}  // namespace kvstored::memory
