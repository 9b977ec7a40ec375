// How an item's use is remembered: 32 bits in its header, a hint only: not replicated, not
// persisted, not part of the state's hash. After a restart all items are equally fresh.
//
//   recency (default): time of the last use, in units of 2^12 us (they come round in 203 days)
//   frequency: bits 31..8 seconds of the last use, bits 7..0 a logarithmic counter, incremented
//     with probability 1 / (10 * (counter - 5) + 1) and decremented by one a minute without use,
//     as Redis counts (https://redis.io/docs/latest/develop/reference/eviction/, "LFU")
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvstored::store {

class AccessTracker {
 public:
  // What the words hold from now on. Those written before are read as if they held that already:
  // the order of eviction takes some time to adjust, as in Redis.
  void CountFrequency(bool on) {
    frequency_ = on;
  }
  // Once a tick.
  void SetNow(uint64_t now_us) {
    recency_now_ = static_cast<uint32_t>(now_us >> kRecencyShift);
    seconds_now_ = static_cast<uint32_t>(now_us / 1'000'000) & kSecondsMask;
  }

  // Of an item that is new.
  uint32_t First() const {
    return frequency_ ? seconds_now_ << kCounterBits | kFirstCount : recency_now_;
  }
  // Of an item that was used now.
  uint32_t Used(uint32_t word) {
    return frequency_ ? seconds_now_ << kCounterBits | Increment(Frequency(word)) : recency_now_;
  }

  // How long ago it was used last.
  uint64_t IdleUs(uint32_t word) const {
    return frequency_ ? uint64_t{IdleSeconds(word)} * 1'000'000
                      : uint64_t{recency_now_ - word} << kRecencyShift;
  }
  // The counter, decayed. Only while frequencies are counted.
  uint32_t Frequency(uint32_t word) const {
    const uint32_t count = word & kCountMax;
    return count - std::min(count, IdleSeconds(word) / kSecondsADecrement);
  }

 private:
  static constexpr uint32_t kRecencyShift = 12;
  static constexpr uint32_t kCounterBits = 8;
  static constexpr uint32_t kCountMax = 255;
  static constexpr uint32_t kSecondsMask = (1u << 24) - 1;
  static constexpr uint32_t kFirstCount = 5;  // else a new item would be the first to go
  static constexpr uint32_t kLogFactor = 10;
  static constexpr uint32_t kSecondsADecrement = 60;

  uint32_t IdleSeconds(uint32_t word) const {
    return (seconds_now_ - (word >> kCounterBits)) & kSecondsMask;
  }
  uint32_t Increment(uint32_t count) {
    if (count == kCountMax) {
      return count;
    }
    const uint32_t base = count > kFirstCount ? count - kFirstCount : 0;
    random_ ^= random_ << 13;  // xorshift32 (Marsaglia 2003)
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    return random_ <= UINT32_MAX / (base * kLogFactor + 1) ? count + 1 : count;
  }

  bool frequency_ = false;
  uint32_t recency_now_ = 0;
  uint32_t seconds_now_ = 0;
  uint32_t random_ = 0x9e3779b9;
};

}  // namespace kvstored::store
