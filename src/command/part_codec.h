// The private format of parts (Reach::kShards): numbers and length-prefixed strings, host order,
// since a part never leaves the process.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace kvstored::command {

inline void PutNumber(std::string* part, uint64_t value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  part->append(bytes, sizeof(bytes));
}

inline void PutString(std::string* part, std::string_view bytes) {
  PutNumber(part, bytes.size());
  part->append(bytes);
}

// Reads what Put* wrote, in the same order.
class PartReader {
 public:
  explicit PartReader(std::string_view part) : rest_(part) {
  }
  bool empty() const {
    return rest_.empty();
  }
  uint64_t Number() {
    uint64_t value = 0;
    if (rest_.size() >= sizeof(value)) {
      std::memcpy(&value, rest_.data(), sizeof(value));
      rest_.remove_prefix(sizeof(value));
    }
    return value;
  }
  std::string_view String() {
    const uint64_t size_bytes = Number();
    const std::string_view bytes = rest_.substr(0, size_bytes);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view rest_;
};

}  // namespace kvstored::command
