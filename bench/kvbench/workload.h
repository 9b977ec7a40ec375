// What the next operation is: its kind, its key, its value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/random.h"
#include "kvbench/key_space.h"
#include "kvbench/options.h"
#include "kvbench/zipf.h"

namespace kvstored::bench {

// A read-modify-write is a read whose reply brings on an update of the same key.
enum class OperationKind : uint8_t { kRead, kUpdate, kInsert, kReadModifyWrite };
inline constexpr size_t kOperationKinds = 4;

struct Operation {
  OperationKind kind = OperationKind::kRead;
  uint32_t value_bytes = 0;     // of what is written
  uint64_t key = 0;             // its number
  const char* value = nullptr;  // lives as long as the Workload
};

// Not thread-safe: one per worker.
class Workload {
 public:
  // Without a mix it is the load phase: inserts only.
  Workload(const Options& options, uint64_t seed, KeySpace* keys);
  Operation Next();

 private:
  OperationKind NextKind();
  uint64_t NextKey();

  const Options options_;
  KeySpace* const keys_;
  base::Random random_;
  Zipf zipf_;
  uint64_t latest_count_;  // what zipf_ is made for, with KeyChoice::kLatest
  std::string values_;     // each value is a part of it
};

}  // namespace kvstored::bench
