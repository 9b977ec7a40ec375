#include "kvbench/workload.h"

#include <algorithm>

namespace kvstored::bench {
namespace {

// YCSB draws ranks out of this many, whatever the number of keys, and scatters them by their hash:
// so the most popular key is as popular in every data set (ScrambledZipfianGenerator).
constexpr uint64_t kScatteredRanks = 10'000'000'000;
// Values begin at different places of the letters they are cut from.
constexpr uint32_t kValueOffsets = 4096;

}  // namespace

Workload::Workload(const Options& options, uint64_t seed, KeySpace* keys)
    : options_(options),
      keys_(keys),
      random_(seed),
      zipf_(options.key_choice == KeyChoice::kLatest ? std::max<uint64_t>(keys->frontier(), 1)
                                                     : kScatteredRanks,
            Zipf::kYcsbExponent),
      latest_count_(keys->frontier()),
      values_(size_t{options.value_bytes.max} + kValueOffsets, 'v') {
  if (!options.compressible) {
    for (char& letter : values_) {
      letter = static_cast<char>('a' + random_.Below(26));
    }
  }
}

OperationKind Workload::NextKind() {
  if (options_.load) {
    return OperationKind::kInsert;
  }
  const Mix& mix = options_.mix;
  if (mix.read == 1) {
    return OperationKind::kRead;
  }
  const double dice = static_cast<double>(random_.Next() >> 11) * 0x1p-53;
  if (dice < mix.read) {
    return OperationKind::kRead;
  }
  if (dice < mix.read + mix.update) {
    return OperationKind::kUpdate;
  }
  if (mix.insert > 0) {
    return keys_->crowded() ? OperationKind::kRead : OperationKind::kInsert;
  }
  return OperationKind::kReadModifyWrite;
}

uint64_t Workload::NextKey() {
  switch (options_.key_choice) {
    case KeyChoice::kUniform:
      return random_.Below(keys_->frontier());
    case KeyChoice::kZipfian:
      return ScatterHash(zipf_.Next(&random_)) % options_.key_count;
    case KeyChoice::kLatest:
      break;
  }
  const uint64_t count = keys_->frontier();
  if (count != latest_count_) {
    zipf_ = Zipf(count, Zipf::kYcsbExponent);
    latest_count_ = count;
  }
  return count - 1 - zipf_.Next(&random_);
}

Operation Workload::Next() {
  Operation operation;
  operation.kind = NextKind();
  operation.key = operation.kind == OperationKind::kInsert ? keys_->Take() : NextKey();
  if (operation.kind != OperationKind::kRead) {
    const ByteRange& bytes = options_.value_bytes;
    operation.value_bytes = bytes.min;
    if (bytes.min != bytes.max) {
      operation.value_bytes += static_cast<uint32_t>(random_.Below(bytes.max - bytes.min + 1ULL));
    }
    operation.value = values_.data() + random_.Below(kValueOffsets);
  }
  return operation;
}

}  // namespace kvstored::bench
