// The disk device: log, checkpoints and meta in ordinary files of one directory (pwritev,
// fdatasync). Promise: what a call of NvmDevice says is persistent has been confirmed by fdatasync
// or fsync, the directory entry included.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstored/nvm_device.h"

namespace kvstored::nvm {

// Opens the directory; makes it (mode 0700, parents excepted) if it is absent. Errors name the
// path, the system's reason and a remedy.
absl::StatusOr<std::unique_ptr<NvmDevice>> OpenDiskDevice(const std::string& path);

// Holds path/LOCK locked (flock) until destroyed: two processes never share a data directory.
class DirectoryLock {
 public:
  // kFailedPrecondition: another process holds it (its pid is named if it can be read).
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(const std::string& path);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {
  }
  const int fd_;
};

}  // namespace kvstored::nvm
