// The device as a node sees it: NvmDevice in memory.
#include "tests/sim/sim_nvm.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace kvstored::sim {

class SimNvmFile : public NvmFile {
 public:
  SimNvmFile(SimNvmDevice* device, std::shared_ptr<SimNvmDevice::File> file, uint64_t generation)
      : device_(device), file_(std::move(file)), generation_(generation) {
  }

  absl::Status Write(uint64_t offset, std::span<const iovec> pieces) override {
    const std::lock_guard<std::mutex> lock(device_->mutex_);
    KVS_RETURN_IF_ERROR(device_->CheckAlive(generation_));
    ++device_->counters_.writes;
    if (device_->fail_next_write_) {
      device_->fail_next_write_ = false;
      ++device_->counters_.io_errors;
      return absl::DataLossError("sim: writing: Input/output error");
    }
    SimNvmDevice::PendingWrite write;
    write.offset = offset;
    for (const iovec& piece : pieces) {
      const auto* bytes = static_cast<const uint8_t*>(piece.iov_base);
      write.bytes.insert(write.bytes.end(), bytes, bytes + piece.iov_len);
    }
    // As a device that writes whole blocks: what follows in the last one is gone.
    const uint64_t padded = std::min<uint64_t>(
        (offset + write.bytes.size() + kWriteBlockBytes - 1) / kWriteBlockBytes * kWriteBlockBytes,
        file_->view.size());
    if (padded > offset + write.bytes.size()) {
      write.bytes.resize(padded - offset, 0);
    }
    const uint64_t end = offset + write.bytes.size();
    if (end > file_->view.size() &&
        device_->UsedBytes() + end - file_->view.size() > device_->capacity_bytes_) {
      return device_->NoSpace();
    }
    const bool crash = device_->CrashNow();
    SimNvmDevice::Apply(offset, write.bytes.data(), write.bytes.size(), &file_->view);
    file_->pending.push_back(std::move(write));
    return crash ? device_->CheckAlive(generation_) : absl::OkStatus();
  }

  absl::Status Persist() override {
    const std::lock_guard<std::mutex> lock(device_->mutex_);
    KVS_RETURN_IF_ERROR(device_->CheckAlive(generation_));
    ++device_->counters_.persists;
    if (device_->fail_next_persist_) {
      device_->fail_next_persist_ = false;
      ++device_->counters_.io_errors;
      return absl::DataLossError("sim: persisting: Input/output error");
    }
    if (device_->CrashNow()) {
      return device_->CheckAlive(generation_);
    }
    device_->PersistFile(file_.get());
    return absl::OkStatus();
  }

  absl::Status Read(uint64_t offset, std::span<uint8_t> out) override {
    const std::lock_guard<std::mutex> lock(device_->mutex_);
    KVS_RETURN_IF_ERROR(device_->CheckAlive(generation_));
    if (device_->ReadFailsNow()) {
      return absl::DataLossError("sim: reading: Input/output error");
    }
    if (offset + out.size() > file_->view.size()) {
      return absl::OutOfRangeError(absl::StrFormat("sim: the file ends at %d; %d bytes at %d",
                                                   file_->view.size(), out.size(), offset));
    }
    if (!out.empty()) {
      std::memcpy(out.data(), file_->view.data() + offset, out.size());
    }
    return absl::OkStatus();
  }

  uint64_t size_bytes() const override {
    const std::lock_guard<std::mutex> lock(device_->mutex_);
    return file_->view.size();
  }

 private:
  SimNvmDevice* const device_;
  const std::shared_ptr<SimNvmDevice::File> file_;
  const uint64_t generation_;
};

void SimNvmDevice::Apply(uint64_t offset, const uint8_t* bytes, size_t size_bytes,
                         std::vector<uint8_t>* to) {
  if (to->size() < offset + size_bytes) {
    to->resize(offset + size_bytes);
  }
  if (size_bytes != 0) {
    std::memcpy(to->data() + offset, bytes, size_bytes);
  }
}

absl::Status SimNvmDevice::CheckAlive(uint64_t generation) const {
  if (crashed_ || generation != generation_) {
    return absl::UnavailableError("sim: no power");
  }
  return absl::OkStatus();
}

// Counts a changing call. True: the power fails in this very call.
bool SimNvmDevice::CrashNow() {
  if (!crash_armed_) {
    return false;
  }
  if (calls_to_crash_ > 0) {
    --calls_to_crash_;
    return false;
  }
  crash_armed_ = false;
  crashed_ = true;
  return true;
}

bool SimNvmDevice::ReadFailsNow() {
  if (!reads_to_failure_ || (*reads_to_failure_)-- > 0) {
    return false;
  }
  reads_to_failure_.reset();
  ++counters_.io_errors;
  return true;
}

void SimNvmDevice::PersistFile(File* file) {
  for (const PendingWrite& write : file->pending) {
    Apply(write.offset, write.bytes.data(), write.bytes.size(), &file->durable);
  }
  file->pending.clear();
}

absl::Status SimNvmDevice::NoSpace() {
  ++counters_.no_space_errors;
  return absl::ResourceExhaustedError("sim: No space left on device");
}

uint64_t SimNvmDevice::UsedBytes() const {
  uint64_t used = 0;
  for (const auto& [name, file] : files_) {
    used += file->view.size();
  }
  return used;
}

absl::StatusOr<std::unique_ptr<NvmFile>> SimNvmDevice::Create(const std::string& name,
                                                              uint64_t size_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_RETURN_IF_ERROR(CheckAlive(generation_));
  if (files_.count(name) != 0) {
    return absl::AlreadyExistsError("sim: creating " + name + ": File exists");
  }
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos && directories_.count(name.substr(0, slash)) == 0) {
    return absl::NotFoundError("sim: creating " + name + ": No such directory");
  }
  if (UsedBytes() + size_bytes > capacity_bytes_) {
    return NoSpace();
  }
  auto file = std::make_shared<File>();
  if (CrashNow()) {
    if (random_.Below(2) == 0) {
      file->durable.resize(random_.Below(size_bytes + 1));
      file->view = file->durable;
      files_[name] = file;
    }
    return CheckAlive(generation_);
  }
  file->durable.resize(size_bytes);
  file->view = file->durable;
  files_[name] = file;
  return std::make_unique<SimNvmFile>(this, file, generation_);
}

absl::StatusOr<std::unique_ptr<NvmFile>> SimNvmDevice::Open(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_RETURN_IF_ERROR(CheckAlive(generation_));
  const auto found = files_.find(name);
  if (found == files_.end()) {
    return absl::NotFoundError("sim: opening " + name + ": No such file");
  }
  return std::make_unique<SimNvmFile>(this, found->second, generation_);
}

absl::Status SimNvmDevice::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_RETURN_IF_ERROR(CheckAlive(generation_));
  if (directories_.count(from) != 0) {
    return RenameDirectory(from, to);
  }
  const auto found = files_.find(from);
  if (found == files_.end()) {
    return absl::NotFoundError("sim: renaming " + from + ": No such file");
  }
  const bool crash = CrashNow();
  if (crash && random_.Below(2) == 0) {
    return CheckAlive(generation_);
  }
  PersistFile(found->second.get());
  files_[to] = found->second;
  files_.erase(from);
  return crash ? CheckAlive(generation_) : absl::OkStatus();
}

// With mutex_ held. All of it or nothing: files keep what they hold and what of it is durable.
absl::Status SimNvmDevice::RenameDirectory(const std::string& from, const std::string& to) {
  const bool crash = CrashNow();
  if (crash && random_.Below(2) == 0) {
    return CheckAlive(generation_);
  }
  const auto is_below = [&from](const std::string& name) {
    return name == from || name.compare(0, from.size() + 1, from + "/") == 0;
  };
  for (const auto& [name, file] : std::map(files_)) {
    if (is_below(name)) {
      files_.erase(name);
      files_[to + name.substr(from.size())] = file;
    }
  }
  for (const std::string& name : std::set(directories_)) {
    if (is_below(name)) {
      directories_.erase(name);
      directories_.insert(to + name.substr(from.size()));
    }
  }
  return crash ? CheckAlive(generation_) : absl::OkStatus();
}

absl::Status SimNvmDevice::Remove(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_RETURN_IF_ERROR(CheckAlive(generation_));
  const bool crash = CrashNow();
  const auto is_below = [&name](const std::string& other) {
    return other == name || other.compare(0, name.size() + 1, name + "/") == 0;
  };
  // A crash in the middle removes some of a tree's files, never the directory itself.
  std::erase_if(files_, [&](const auto& entry) {
    return is_below(entry.first) && (!crash || random_.Below(2) == 0);
  });
  if (crash) {
    return CheckAlive(generation_);
  }
  std::erase_if(directories_, is_below);
  return absl::OkStatus();
}

absl::Status SimNvmDevice::MakeDirectory(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_RETURN_IF_ERROR(CheckAlive(generation_));
  const bool crash = CrashNow();
  if (!crash || random_.Below(2) == 0) {
    directories_.insert(name);
  }
  return crash ? CheckAlive(generation_) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimNvmDevice::List(const std::string& directory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_RETURN_IF_ERROR(CheckAlive(generation_));
  if (!directory.empty() && directories_.count(directory) == 0) {
    return absl::NotFoundError("sim: listing " + directory + ": No such directory");
  }
  const std::string prefix = directory.empty() ? "" : directory + "/";
  std::set<std::string> names;
  const auto add = [&](const std::string& path) {
    if (path.compare(0, prefix.size(), prefix) == 0) {
      const std::string rest = path.substr(prefix.size());
      names.insert(rest.substr(0, rest.find('/')));
    }
  };
  for (const auto& [name, file] : files_) {
    add(name);
  }
  for (const std::string& name : directories_) {
    add(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<uint64_t> SimNvmDevice::FreeBytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_RETURN_IF_ERROR(CheckAlive(generation_));
  const uint64_t used = UsedBytes();
  return capacity_bytes_ > used ? capacity_bytes_ - used : 0;
}

}  // namespace kvstored::sim
