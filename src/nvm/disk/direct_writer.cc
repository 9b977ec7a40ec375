#include "nvm/disk/direct_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "nvm/disk/posix_status.h"

namespace kvstored::nvm {
namespace {

constexpr size_t kStagingBytes = size_t{256} << 10;
static_assert(kStagingBytes % kWriteBlockBytes == 0);

// Where pieces become aligned blocks; on return from Write it is free again. One a thread: whoever
// writes a log writes one segment at a time.
uint8_t* Staging() {
  struct Free {
    void operator()(uint8_t* bytes) const {
      std::free(bytes);
    }
  };
  static thread_local const std::unique_ptr<uint8_t, Free> staging(
      static_cast<uint8_t*>(std::aligned_alloc(kWriteBlockBytes, kStagingBytes)));
  KVS_CHECK(staging != nullptr, "bytes=%zu", kStagingBytes);
  return staging.get();
}

bool IsBlock(const uint8_t* bytes) {
  return reinterpret_cast<uintptr_t>(bytes) % kWriteBlockBytes == 0;
}

}  // namespace

DirectWriter::DirectWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
}

DirectWriter::~DirectWriter() {
  ::close(fd_);
}

// By its descriptor: the name may have changed (a recycled segment).
std::unique_ptr<DirectWriter> DirectWriter::Open(int fd, const std::string& path) {
  const int direct =
      ::open(absl::StrFormat("/proc/self/fd/%d", fd).c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
  return direct < 0 ? nullptr : std::unique_ptr<DirectWriter>(new DirectWriter(direct, path));
}

absl::Status DirectWriter::WriteBlocks(const uint8_t* blocks, size_t size_bytes, uint64_t offset) {
  for (size_t done = 0; done < size_bytes;) {
    const ssize_t n =
        ::pwrite(fd_, blocks + done, size_bytes - done, static_cast<off_t>(offset + done));
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n == 0) {
      return absl::UnknownError(absl::StrFormat("writing %s: the device takes no bytes", path_));
    } else if (errno == EINVAL && done == 0) {
      return absl::UnimplementedError("no direct writes to " + path_);
    } else if (errno != EINTR) {
      return PosixStatus(errno, "writing", path_);
    }
  }
  return absl::OkStatus();
}

absl::Status DirectWriter::Write(uint64_t offset, std::span<const iovec> pieces) {
  KVS_CHECK(CanWriteAt(offset), "offset=%lu end=%lu", offset, end_);
  uint8_t* const staging = Staging();
  size_t filled = offset % kWriteBlockBytes;
  uint64_t at = offset - filled;  // where staging[0] belongs
  std::memcpy(staging, tail_.data(), filled);
  for (const iovec& piece : pieces) {
    const auto* bytes = static_cast<const uint8_t*>(piece.iov_base);
    for (size_t left = piece.iov_len; left != 0;) {
      const size_t whole = left / kWriteBlockBytes * kWriteBlockBytes;
      if (filled == 0 && whole != 0 && IsBlock(bytes)) {
        KVS_RETURN_IF_ERROR(WriteBlocks(bytes, whole, at));
        bytes += whole;
        left -= whole;
        at += whole;
        continue;
      }
      const size_t step = std::min(left, kStagingBytes - filled);
      std::memcpy(staging + filled, bytes, step);
      bytes += step;
      left -= step;
      filled += step;
      if (filled == kStagingBytes) {
        KVS_RETURN_IF_ERROR(WriteBlocks(staging, filled, at));
        at += filled;
        filled = 0;
      }
    }
  }
  const size_t in_tail = filled % kWriteBlockBytes;
  const size_t tail_begin = filled - in_tail;
  if (in_tail != 0) {
    std::memset(staging + filled, 0, kWriteBlockBytes - in_tail);
    std::memcpy(tail_.data(), staging + tail_begin, kWriteBlockBytes);
  }
  const size_t whole = in_tail == 0 ? filled : tail_begin + kWriteBlockBytes;
  KVS_RETURN_IF_ERROR(WriteBlocks(staging, whole, at));
  end_ = at + filled;
  return absl::OkStatus();
}

}  // namespace kvstored::nvm
