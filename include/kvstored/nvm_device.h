// NvmDevice: the one seam through which log, checkpoint and meta reach storage.
// Implementations: nvm/disk (files, pwritev + fdatasync), later nvm/pmem (libpmem on DAX), and the
// simulator's disk (tests/sim), which loses, tears and reorders whatever was not persisted.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvstored {

inline constexpr uint64_t kWriteBlockBytes = 4096;

enum class NvmKind : uint8_t { kPmem, kDisk, kVolatile };

// One file. Thread-compatible: one writer at a time; reads may run beside it at other offsets.
class NvmFile {
 public:
  virtual ~NvmFile() = default;
  // Copies the pieces to [offset, offset + sum). On return the bytes are visible to Read, NOT
  // persistent: a crash may keep any subset of them, torn at any byte. A file is written forward: a
  // device may fill what follows, up to the next multiple of kWriteBlockBytes and inside the file,
  // with zeros. kResourceExhausted = no space (only possible beyond size_bytes()); any other error
  // = the device failed.
  [[nodiscard]] virtual absl::Status Write(uint64_t offset, std::span<const iovec> pieces) = 0;
  // On OK everything written before the call is persistent, the file's size included. An error is
  // final for the role of the node: never call again in the hope that it works (a page that failed
  // to be written may be marked clean; https://lwn.net/Articles/752063/).
  [[nodiscard]] virtual absl::Status Persist() = 0;
  // For the writer of a long file that grows: what was written since the last call begins its way
  // to the device, what that call began is waited for. Proves nothing, that is Persist's; an error
  // is as final as one of Persist.
  [[nodiscard]] virtual absl::Status WriteBack() {
    return absl::OkStatus();
  }
  // Reads exactly `out.size()` bytes; kOutOfRange when the file ends before.
  [[nodiscard]] virtual absl::Status Read(uint64_t offset, std::span<uint8_t> out) = 0;
  virtual uint64_t size_bytes() const = 0;
};

// One directory tree. Names are relative paths below it ("log/0000000001.seg"). Thread-safe.
class NvmDevice {
 public:
  virtual ~NvmDevice() = default;
  virtual NvmKind kind() const = 0;
  // Pre-writes `size_bytes` zero bytes (0 = an empty file that grows) and persists file and
  // directory entry. kResourceExhausted leaves nothing behind; kAlreadyExists if the name is taken.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<NvmFile>> Create(const std::string& name,
                                                                        uint64_t size_bytes) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<NvmFile>> Open(const std::string& name) = 0;
  // Publishes a file, in its directory or another: (1) what was written to `from` becomes
  // persistent, (2) the name `to` means it and whatever had that name is gone, (3) the entries of
  // both directories become persistent. On OK all three hold after any crash. A crash inside the
  // call leaves `to` as it was or the new file, never a part of either, and the file never without
  // a name; between two directories it may be found under both names, so a start must be able to
  // meet `from` again. After an error reads may see the new name although a crash could still take
  // it back: it counts like an error of Persist. Handles stay with the file, not with the name.
  // A directory with all it holds is renamed inside its own directory, to a name that nobody has; a
  // crash leaves it under one of the two. What it holds becomes no more persistent than it was, so
  // a new one is published by a file that names it.
  [[nodiscard]] virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file, or a directory with all it holds; persistent on return. Absent is OK. A crash
  // inside the call leaves any part of the tree, and the directories above what it left.
  [[nodiscard]] virtual absl::Status Remove(const std::string& name) = 0;
  // An empty directory, persistent on return; OK if it is there already. Its parent must be there.
  [[nodiscard]] virtual absl::Status MakeDirectory(const std::string& name) = 0;
  // Names (not paths) in a directory, sorted.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) = 0;
  [[nodiscard]] virtual absl::StatusOr<uint64_t> FreeBytes() = 0;
  // What an operator can look at: the absolute path of the directory.
  virtual std::string Describe() const = 0;
};

}  // namespace kvstored
