// Writes past the page cache: one write goes to the device from the caller's thread, without a copy
// by the kernel, and the persist after it has nothing left to write (open(2), O_DIRECT).
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "kvstored/nvm_device.h"

namespace kvstored::nvm {

// For a file of fixed size that is written from front to back, in whole blocks of kWriteBlockBytes:
// they suit every logical block size in use. Thread-compatible.
class DirectWriter {
 public:
  // Opens the file behind `fd` once more; `path` is for errors. Null: no direct writes here.
  static std::unique_ptr<DirectWriter> Open(int fd, const std::string& path);
  ~DirectWriter();
  DirectWriter(const DirectWriter&) = delete;
  DirectWriter& operator=(const DirectWriter&) = delete;

  // As NvmFile::Write, within [0, size of the file). A write that goes on where the last one ended
  // writes the block in which that was again, with the bytes that it has; any other offset must be
  // a multiple of kWriteBlockBytes. The rest of the last block becomes zero. kUnimplemented: the
  // file system wants other blocks; some of the pieces may be written, so all of them are to be
  // written again by other means.
  absl::Status Write(uint64_t offset, std::span<const iovec> pieces);
  bool CanWriteAt(uint64_t offset) const {
    return offset % kWriteBlockBytes == 0 || offset == end_;
  }

 private:
  DirectWriter(int fd, std::string path);
  absl::Status WriteBlocks(const uint8_t* blocks, size_t size_bytes, uint64_t offset);

  const int fd_;
  const std::string path_;
  uint64_t end_ = 0;                              // of the last write
  std::array<uint8_t, kWriteBlockBytes> tail_{};  // the block that end_ is in
};

}  // namespace kvstored::nvm
