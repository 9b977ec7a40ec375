#include "server/report_text.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_format.h"

namespace kvstored::server {

std::string HumanBytes(uint64_t bytes) {
  const char* const units[] = {"B", "K", "M", "G", "T"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%dB", bytes) : absl::StrFormat("%.2f%s", value, units[unit]);
}

std::string OnTheirWay(const std::vector<replication::ReplicaStatus>& replicas,
                       uint64_t data_bytes) {
  using replication::StreamState;
  std::string text;
  for (const replication::ReplicaStatus& replica : replicas) {
    if (!replica.connected) {
      continue;
    }
    if (replica.state != StreamState::kStreaming) {
      text += absl::StrFormat("; replica %s is on its way: %s", replica.address,
                              replication::StreamStateName(replica.state));
    }
    if (replica.state == StreamState::kFullSync) {
      text += absl::StrFormat(", %s of about %s", HumanBytes(replica.full_sync_items_bytes),
                              HumanBytes(data_bytes));
    } else if (replica.state == StreamState::kCatchUp) {
      text += absl::StrFormat(", %d records left", replica.lag_records);
    }
    if (replica.disk_full) {
      text += absl::StrFormat("; the disk of replica %s is full", replica.address);
    }
  }
  return text;
}

uint64_t ResidentBytes() {
  std::FILE* stream = std::fopen("/proc/self/statm", "re");
  if (stream == nullptr) {
    return 0;
  }
  unsigned long total = 0;
  unsigned long resident = 0;
  const int fields = std::fscanf(stream, "%lu %lu", &total, &resident);
  std::fclose(stream);
  return fields == 2 ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace kvstored::server
