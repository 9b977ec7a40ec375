// The words that every room shares: identities, positions and levels. Contract only, no behaviour.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kvstored {

// Index of a shard inside the data set, 0-based. The count is fixed when a data directory is made.
using ShardId = uint16_t;

// Position of a record in one shard: +1 each record, never reused. 0 means "none yet".
using Seq = uint64_t;

// XXH3-128 of a key with the data set's secret. Index and shard choice both use it; full keys are
// always compared as well.
struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

// A key with its digest, computed once where the command is parsed. Does not own the bytes.
struct Key {
  std::string_view bytes;
  Digest digest;
};

// A random 128-bit identity (of a store, i.e. one data directory, or of a data set).
struct Id128 {
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const Id128&, const Id128&) = default;
  friend auto operator<=>(const Id128&, const Id128&) = default;
  bool empty() const {
    return *this == Id128{};
  }
};

// One reign of one primary. Epochs are compared by descent (is `id` in the other's list?), never by
// number alone.
struct Epoch {
  uint32_t number = 0;  // 1 + the highest ever seen or promised
  uint64_t id = 0;      // random
  friend bool operator==(const Epoch&, const Epoch&) = default;
};

enum class Role : uint8_t { kPrimary = 1, kReplica = 2 };

// What must be true before a write is answered. See docs/protocol.md "Commit".
enum class AckLevel : uint8_t { kNone = 0, kReceived = 1, kPersisted = 2 };

// When the log reaches the device.
enum class LogSync : uint8_t { kAlways = 0, kInterval = 1, kOff = 2 };

}  // namespace kvstored
