// The device as a test sees it: what it does to the machine, and what it finds there.
#include <algorithm>

#include "base/check.h"
#include "tests/sim/sim_nvm.h"

namespace kvstored::sim {
namespace {

constexpr size_t kSectorBytes = 512;

}  // namespace

// Decides what a power cut leaves of a file.
void SimNvmDevice::Settle(File* file) {
  for (const PendingWrite& write : file->pending) {
    const uint64_t fate = random_.Below(4);
    if (fate == 0) {
      ++counters_.lost_writes;
    } else if (fate == 1) {
      ++counters_.kept_writes;
      Apply(write.offset, write.bytes.data(), write.bytes.size(), &file->durable);
    } else if (fate == 2) {
      ++counters_.torn_writes;
      const size_t kept = static_cast<size_t>(random_.Below(write.bytes.size() + 1));
      Apply(write.offset, write.bytes.data(), kept, &file->durable);
    } else {
      ++counters_.torn_writes;
      uint64_t at = 0;
      while (at < write.bytes.size()) {
        const uint64_t absolute = write.offset + at;
        const uint64_t n =
            std::min<uint64_t>(kSectorBytes - absolute % kSectorBytes, write.bytes.size() - at);
        if (random_.Below(2) == 0) {
          Apply(absolute, write.bytes.data() + at, n, &file->durable);
        }
        at += n;
      }
    }
  }
  file->pending.clear();
  file->view = file->durable;
}

void SimNvmDevice::PowerCut() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counters_.power_cuts;
  ++generation_;
  crashed_ = false;
  crash_armed_ = false;
  fail_next_persist_ = false;
  fail_next_write_ = false;
  reads_to_failure_.reset();
  for (const auto& [name, file] : files_) {
    Settle(file.get());
  }
}

void SimNvmDevice::ProcessCrash() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++generation_;
  crashed_ = false;
  crash_armed_ = false;
}

void SimNvmDevice::CrashAfter(uint64_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  crash_armed_ = true;
  calls_to_crash_ = count;
}

bool SimNvmDevice::crashed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return crashed_;
}

void SimNvmDevice::FailNextPersist() {
  const std::lock_guard<std::mutex> lock(mutex_);
  fail_next_persist_ = true;
}

void SimNvmDevice::FailNextWrite() {
  const std::lock_guard<std::mutex> lock(mutex_);
  fail_next_write_ = true;
}

void SimNvmDevice::FailReadAfter(uint64_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reads_to_failure_ = count;
}

void SimNvmDevice::SetCapacity(uint64_t capacity_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  capacity_bytes_ = capacity_bytes;
}

uint64_t SimNvmDevice::UsedBytesNow() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return UsedBytes();
}

void SimNvmDevice::Disarm() {
  const std::lock_guard<std::mutex> lock(mutex_);
  crash_armed_ = false;
  fail_next_persist_ = false;
  fail_next_write_ = false;
  reads_to_failure_.reset();
}

void SimNvmDevice::FlipBit(const std::string& name, uint64_t offset, uint32_t bit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = files_.find(name);
  KVS_CHECK(found != files_.end() && offset < found->second->view.size(), "name=%s", name.c_str());
  File* file = found->second.get();
  file->view[offset] = static_cast<uint8_t>(file->view[offset] ^ (1U << bit));
  if (offset < file->durable.size()) {
    file->durable[offset] = static_cast<uint8_t>(file->durable[offset] ^ (1U << bit));
  }
  ++counters_.flipped_bits;
}

bool SimNvmDevice::FlipRandomBit(const std::string& part) {
  std::string name;
  uint64_t offset = 0;
  uint32_t bit = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [candidate, file] : files_) {
      if (candidate.find(part) != std::string::npos && !file->view.empty()) {
        names.push_back(candidate);
      }
    }
    if (names.empty()) {
      return false;
    }
    name = names[random_.Below(names.size())];
    offset = random_.Below(files_[name]->view.size());
    bit = static_cast<uint32_t>(random_.Below(8));
  }
  FlipBit(name, offset, bit);
  return true;
}

std::map<std::string, std::vector<uint8_t>> SimNvmDevice::Contents() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, std::vector<uint8_t>> contents;
  for (const auto& [name, file] : files_) {
    contents[name] = file->view;
  }
  return contents;
}

void SimNvmDevice::SetContents(const std::string& name, std::vector<uint8_t> bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto file = std::make_shared<File>();
  file->durable = bytes;
  file->view = std::move(bytes);
  files_[name] = std::move(file);
  for (size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    directories_.insert(name.substr(0, slash));
  }
}

SimNvmCounters SimNvmDevice::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace kvstored::sim
