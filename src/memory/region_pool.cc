#include "memory/region_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/system_clock.h"
#include "kvstored/limits.h"
#include "memory/poison.h"

namespace kvstored::memory {
namespace {

constexpr uint64_t kAddressBits = 48;  // what index entries can hold
constexpr uint64_t kHeadRoomBytesMin = uint64_t{64} << 20;
// Address space that is reserved at a time beyond the limit.
constexpr uint64_t kBeyondLimitBytes = uint64_t{64} << 20;

// A kernel clears a huge page in a tenth of that.
constexpr int64_t kSlowChunkUs = 1000;
// So many chunks get small pages before a huge one is tried again: more each time it was slow.
constexpr uint32_t kSmallPageChunksMin = 31;
constexpr uint32_t kSmallPageChunksMax = 1023;

uint64_t RoundUpToChunk(uint64_t bytes) {
  return (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
}

// One write a small page: right whether or not the kernel gave a huge page.
void Touch(char* begin, uint64_t bytes) {
  const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Unpoison(begin, bytes);
  for (uint64_t offset = 0; offset < bytes; offset += page_bytes) {
    *static_cast<volatile char*>(begin + offset) = 0;
  }
}

}  // namespace

// A huge page is cheaper than 512 small ones, unless a hypervisor has to find its memory first: a
// guest that reports free pages to its host gives away what it has in whole huge pages, and gets it
// back a hundred times slower than it would clear it. Small pages come from what the guest kept.
// Which it is only the clock tells, so it is asked again and again.
void RegionPool::FaultIn(char* chunk) {
  uint32_t left = small_page_chunks_.load(std::memory_order_relaxed);
  if (left > 0) {
    small_page_chunks_.store(left - 1, std::memory_order_relaxed);
    madvise(chunk, kChunkBytes, MADV_NOHUGEPAGE);
    Touch(chunk, kChunkBytes);
    // khugepaged(8) may join them later; and the region stays one mapping.
    madvise(chunk, kChunkBytes, MADV_HUGEPAGE);
  } else {
    const int64_t start_us = base::ThreadCpuUs();
    Touch(chunk, kChunkBytes);
    const bool is_slow = base::ThreadCpuUs() - start_us > kSlowChunkUs;
    const uint32_t last = last_small_page_chunks_.load(std::memory_order_relaxed);
    const uint32_t next =
        is_slow ? std::clamp(2 * last + 1, kSmallPageChunksMin, kSmallPageChunksMax) : 0;
    last_small_page_chunks_.store(next, std::memory_order_relaxed);
    small_page_chunks_.store(next, std::memory_order_relaxed);
  }
  Poison(chunk, kChunkBytes);
}

uint64_t RegionPool::DefaultHeadRoomBytes(uint64_t max_bytes) {
  return std::max(max_bytes / 8, kHeadRoomBytesMin);
}

RegionPool::RegionPool(const Options& options) : options_(options), max_bytes_(options.max_bytes) {
}

RegionPool::~RegionPool() {
  KVS_CHECK(counters_.used_bytes == 0, "%llu bytes of chunks are still in use",
            static_cast<unsigned long long>(counters_.used_bytes));
  const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const Region& region : regions_) {
    Unpoison(region.base, region.mapped_bytes);
    munmap(region.base - page_bytes, region.size_bytes + 2 * page_bytes);
  }
}

uint64_t RegionPool::LimitBytesLocked() const {
  const uint64_t max = max_bytes();
  const uint64_t head_room =
      options_.head_room_bytes != 0 ? options_.head_room_bytes : DefaultHeadRoomBytes(max);
  return RoundUpToChunk(max + head_room);
}

absl::Status RegionPool::Start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_CHECK(regions_.empty() && counters_.mapped_bytes == 0, "regions=%zu", regions_.size());
  const uint64_t wanted_bytes = RoundUpToChunk(options_.initial_bytes);
  if (wanted_bytes > LimitBytesLocked()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "memory.pool_size %u is larger than memory.max_memory %u with its head-room: "
        "lower the first or raise the second",
        options_.initial_bytes, options_.max_bytes));
  }
  while (counters_.mapped_bytes < wanted_bytes) {
    char* const chunk = MapNextLocked();
    if (chunk == nullptr) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "cannot map %u of the %u bytes of memory.pool_size: %s; lower memory.pool_size or raise "
          "the address space limit (ulimit -v, vm.overcommit_memory)",
          wanted_bytes - counters_.mapped_bytes, wanted_bytes, std::strerror(errno)));
    }
    free_chunks_.push_back(chunk);
    counters_.free_bytes += kChunkBytes;
  }
  // Lowest addresses first, so that a small data set stays in few huge pages.
  std::reverse(free_chunks_.begin(), free_chunks_.end());
  return absl::OkStatus();
}

void RegionPool::Pretouch(uint32_t slice_index, uint32_t slice_count) {
  std::vector<char*> chunks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    chunks = free_chunks_;
  }
  for (size_t i = slice_index; i < chunks.size(); i += slice_count) {
    FaultIn(chunks[i]);
  }
}

// Address space costs nothing: ask for all that the limit allows, for less if the kernel refuses.
bool RegionPool::ReserveLocked(uint64_t size_bytes) {
  const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (; size_bytes >= kChunkBytes; size_bytes = size_bytes / 2 / kChunkBytes * kChunkBytes) {
    const uint64_t with_slack = size_bytes + kChunkBytes + 2 * page_bytes;
    void* const mapped =
        mmap(nullptr, with_slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      continue;
    }
    const uint64_t begin = reinterpret_cast<uint64_t>(mapped);
    const uint64_t base = RoundUpToChunk(begin + page_bytes);
    // Keep one inaccessible page on either side, give back the rest of the slack.
    const uint64_t keep_begin = base - page_bytes;
    const uint64_t keep_end = base + size_bytes + page_bytes;
    if (keep_begin > begin) {
      munmap(mapped, keep_begin - begin);
    }
    if (begin + with_slack > keep_end) {
      munmap(reinterpret_cast<void*>(keep_end), begin + with_slack - keep_end);
    }
    KVS_CHECK(keep_end < (uint64_t{1} << kAddressBits), "address=%llx",
              static_cast<unsigned long long>(keep_end));
    regions_.push_back({.kind = options_.kind,
                        .base = reinterpret_cast<char*>(base),
                        .size_bytes = size_bytes,
                        .mapped_bytes = 0});
    counters_.reserved_bytes += size_bytes;
    return true;
  }
  return false;
}

// The next chunk of address space, made usable; null with errno set.
char* RegionPool::MapNextLocked(bool beyond_limit) {
  const uint64_t known_bytes = counters_.mapped_bytes + cold_chunks_.size() * kChunkBytes;
  const uint64_t limit_bytes = beyond_limit
                                   ? std::max(LimitBytesLocked(), known_bytes + kBeyondLimitBytes)
                                   : LimitBytesLocked();
  if (known_bytes + kChunkBytes > limit_bytes) {
    errno = ENOMEM;
    return nullptr;
  }
  if (regions_.empty() || regions_.back().mapped_bytes == regions_.back().size_bytes) {
    if (!ReserveLocked(limit_bytes - known_bytes)) {
      return nullptr;
    }
  }
  Region& region = regions_.back();
  char* const chunk = region.base + region.mapped_bytes;
  if (mprotect(chunk, kChunkBytes, PROT_READ | PROT_WRITE) != 0) {
    return nullptr;
  }
  // Only advice: a kernel without huge pages serves small ones.
  if (small_page_chunks_.load(std::memory_order_relaxed) == 0) {
    madvise(chunk, kChunkBytes, MADV_HUGEPAGE);
  } else {
    unadvised_chunks_.push_back(chunk);
  }
  region.mapped_bytes += kChunkBytes;
  counters_.mapped_bytes += kChunkBytes;
  // Here and not in Free(), which must not allocate: the lists have room for every chunk there is.
  const size_t chunk_count = (known_bytes + kChunkBytes) / kChunkBytes;
  if (free_chunks_.capacity() < chunk_count) {
    free_chunks_.reserve(chunk_count * 2);
    cold_chunks_.reserve(chunk_count * 2);
  }
  Poison(chunk, kChunkBytes);
  return chunk;
}

char* RegionPool::TakeColdOrNewLocked(bool beyond_limit) {
  if (cold_chunks_.empty()) {
    return MapNextLocked(beyond_limit);
  }
  if (!beyond_limit && counters_.mapped_bytes + kChunkBytes > LimitBytesLocked()) {
    return nullptr;
  }
  char* const chunk = cold_chunks_.back();
  cold_chunks_.pop_back();
  counters_.mapped_bytes += kChunkBytes;
  return chunk;
}

void* RegionPool::Allocate(bool beyond_limit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  char* chunk = nullptr;
  // max_bytes may have been lowered below what is mapped: free chunks are then no room.
  if (counters_.used_bytes + kChunkBytes > LimitBytesLocked()) {
    if (!beyond_limit) {
      ++counters_.exhausted_count;
      exhausted_.store(true, std::memory_order_relaxed);
      return nullptr;
    }
    ++counters_.beyond_limit_count;
  }
  if (!free_chunks_.empty()) {
    chunk = free_chunks_.back();
    free_chunks_.pop_back();
    counters_.free_bytes -= kChunkBytes;
  } else {
    chunk = TakeColdOrNewLocked(beyond_limit);
    if (chunk == nullptr) {
      ++counters_.exhausted_count;
      exhausted_.store(true, std::memory_order_relaxed);
      return nullptr;
    }
    ++counters_.grow_in_tick_count;
  }
  counters_.used_bytes += kChunkBytes;
  Unpoison(chunk, kChunkBytes);
  return chunk;
}

void RegionPool::Free(void* chunk) {
  KVS_CHECK(chunk != nullptr && reinterpret_cast<uint64_t>(chunk) % kChunkBytes == 0, "chunk=%p",
            chunk);
  Poison(chunk, kChunkBytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_CHECK(counters_.used_bytes >= kChunkBytes, "used_bytes=%llu",
            static_cast<unsigned long long>(counters_.used_bytes));
  counters_.used_bytes -= kChunkBytes;
  counters_.free_bytes += kChunkBytes;
  free_chunks_.push_back(static_cast<char*>(chunk));
  exhausted_.store(false, std::memory_order_relaxed);
}

// Chunks that a tick took untouched, while huge pages are slow, got small ones; with the same
// advice as their neighbours the region is one mapping again (the kernel allows a process 65,530).
void RegionPool::AdviseAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (char* chunk : unadvised_chunks_) {
    madvise(chunk, kChunkBytes, MADV_HUGEPAGE);
  }
  unadvised_chunks_.clear();
}

uint32_t RegionPool::KeepFree(uint32_t count) {
  AdviseAll();
  uint32_t added_count = 0;
  for (;;) {
    char* chunk = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (free_chunks_.size() >= count) {
        return added_count;
      }
      chunk = TakeColdOrNewLocked();
    }
    if (chunk == nullptr) {
      return added_count;
    }
    FaultIn(chunk);  // outside the lock: this is what takes long
    const std::lock_guard<std::mutex> lock(mutex_);
    free_chunks_.push_back(chunk);
    counters_.free_bytes += kChunkBytes;
    ++added_count;
  }
}

uint32_t RegionPool::Trim(uint32_t keep_count) {
  uint32_t trimmed_count = 0;
  for (;;) {
    char* chunk = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (free_chunks_.size() <= keep_count) {
        return trimmed_count;
      }
      chunk = free_chunks_.back();
      free_chunks_.pop_back();
      counters_.free_bytes -= kChunkBytes;
      counters_.mapped_bytes -= kChunkBytes;
    }
    madvise(chunk, kChunkBytes, MADV_DONTNEED);
    const std::lock_guard<std::mutex> lock(mutex_);
    cold_chunks_.push_back(chunk);
    ++trimmed_count;
  }
}

void RegionPool::SetMaxBytes(uint64_t max_bytes) {
  max_bytes_.store(max_bytes, std::memory_order_relaxed);
  exhausted_.store(false, std::memory_order_relaxed);
}

PoolCounters RegionPool::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

std::vector<Region> RegionPool::regions() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return regions_;
}

}  // namespace kvstored::memory
