// One file of the disk device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kvstored/nvm_device.h"
#include "nvm/disk/direct_writer.h"

namespace kvstored::nvm {

// Thread-compatible as NvmFile says. What a crash leaves: any subset of the pages written since the
// last successful Persist, each perhaps torn at a sector.
class DiskFile : public NvmFile {
 public:
  // Takes the descriptor over.
  DiskFile(int fd, std::string path, uint64_t size_bytes);
  ~DiskFile() override;

  absl::Status Write(uint64_t offset, std::span<const iovec> pieces) override;
  absl::Status Persist() override;
  absl::Status WriteBack() override;
  absl::Status Read(uint64_t offset, std::span<uint8_t> out) override;
  uint64_t size_bytes() const override {
    return size_bytes_.load(std::memory_order_relaxed);
  }

  // Fills [0, size_bytes) with zeros that are really written, so that later writes change no
  // metadata (an fdatasync then costs one device write, no journal commit).
  absl::Status Prewrite(uint64_t size_bytes);

 private:
  absl::Status WriteCached(uint64_t offset, std::span<const iovec> pieces);
  absl::Status WriteSome(uint64_t* offset, std::span<const iovec> pieces);

  const int fd_;
  const std::string path_;
  // Writes inside a pre-written file go past the page cache, from the first one that begins at a
  // block, as long as each goes on where another ended or begins at a block.
  bool is_cached_ = false;  // no direct writes (any more)
  std::unique_ptr<DirectWriter> direct_;
  // What the last WriteBack set going.
  uint64_t write_back_begin_ = 0;
  uint64_t write_back_end_ = 0;
  std::atomic<uint64_t> size_bytes_;  // written by the one writer, read by anyone
};

}  // namespace kvstored::nvm
