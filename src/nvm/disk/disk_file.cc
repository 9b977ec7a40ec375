#include "nvm/disk/disk_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "nvm/disk/posix_status.h"

namespace kvstored::nvm {

DiskFile::DiskFile(int fd, std::string path, uint64_t size_bytes)
    : fd_(fd), path_(std::move(path)), size_bytes_(size_bytes) {
}

DiskFile::~DiskFile() {
  ::close(fd_);
}

// At most IOV_MAX pieces. Continues after a short write: the kernel may stop at a signal or a
// limit.
absl::Status DiskFile::WriteSome(uint64_t* offset, std::span<const iovec> pieces) {
  std::vector<iovec> left(pieces.begin(), pieces.end());
  size_t next = 0;
  while (next < left.size()) {
    const ssize_t n = ::pwritev(fd_, left.data() + next, static_cast<int>(left.size() - next),
                                static_cast<off_t>(*offset));
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return PosixStatus(errno, "writing", path_);
    }
    *offset += static_cast<uint64_t>(n);
    size_t done = static_cast<size_t>(n);
    while (next < left.size() && done >= left[next].iov_len) {
      done -= left[next].iov_len;
      ++next;
    }
    if (next < left.size()) {
      if (n == 0) {
        return absl::UnknownError(absl::StrFormat("writing %s: the device takes no bytes", path_));
      }
      left[next].iov_base = static_cast<char*>(left[next].iov_base) + done;
      left[next].iov_len -= done;
    }
  }
  return absl::OkStatus();
}

absl::Status DiskFile::Write(uint64_t offset, std::span<const iovec> pieces) {
  uint64_t end = offset;
  for (const iovec& piece : pieces) {
    end += piece.iov_len;
  }
  if (!is_cached_ && end <= size_bytes()) {
    if (direct_ == nullptr) {
      direct_ = DirectWriter::Open(fd_, path_);
    }
    if (direct_ != nullptr && direct_->CanWriteAt(offset)) {
      absl::Status written = direct_->Write(offset, pieces);
      if (!absl::IsUnimplemented(written)) {
        return written;
      }
    }
  }
  // For good: the last block that a direct writer remembers may be an old one from here on.
  is_cached_ = true;
  direct_ = nullptr;
  return WriteCached(offset, pieces);
}

absl::Status DiskFile::WriteCached(uint64_t offset, std::span<const iovec> pieces) {
  uint64_t at = offset;
  for (size_t i = 0; i < pieces.size(); i += IOV_MAX) {
    KVS_RETURN_IF_ERROR(
        WriteSome(&at, pieces.subspan(i, std::min<size_t>(IOV_MAX, pieces.size() - i))));
  }
  if (at > size_bytes()) {
    size_bytes_.store(at, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

absl::Status DiskFile::Persist() {
  while (::fdatasync(fd_) != 0) {
    if (errno != EINTR) {
      return PosixStatus(errno, "persisting (fdatasync)", path_);
    }
  }
  return absl::OkStatus();
}

absl::Status DiskFile::WriteBack() {
  const auto range = [this](uint64_t begin, uint64_t end, unsigned flags) {
    // No bytes would mean all the rest of the file.
    return begin == end || ::sync_file_range(fd_, static_cast<off_t>(begin),
                                             static_cast<off_t>(end - begin), flags) == 0
               ? absl::OkStatus()
               : PosixStatus(errno, "writing back", path_);
  };
  KVS_RETURN_IF_ERROR(range(write_back_begin_, write_back_end_, SYNC_FILE_RANGE_WAIT_BEFORE));
  write_back_begin_ = write_back_end_;
  write_back_end_ = size_bytes();
  return range(write_back_begin_, write_back_end_, SYNC_FILE_RANGE_WRITE);
}

absl::Status DiskFile::Read(uint64_t offset, std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return PosixStatus(errno, "reading", path_);
    }
    if (n == 0) {
      return absl::OutOfRangeError(absl::StrFormat("%s ends at %d; %d bytes at %d were asked for",
                                                   path_, offset + done, out.size(), offset));
    }
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status DiskFile::Prewrite(uint64_t size_bytes) {
  const int error = ::posix_fallocate(fd_, 0, static_cast<off_t>(size_bytes));
  if (error == 0) {
    size_bytes_.store(size_bytes, std::memory_order_relaxed);
  } else if (error != EOPNOTSUPP && error != EINVAL) {
    return PosixStatus(error, absl::StrFormat("allocating %d bytes for", size_bytes), path_);
  }
  constexpr uint64_t kZeroBytes = uint64_t{1} << 20;
  alignas(kWriteBlockBytes) static uint8_t zeros[kZeroBytes];
  for (uint64_t at = 0; at < size_bytes;) {
    const size_t n = static_cast<size_t>(std::min(kZeroBytes, size_bytes - at));
    const iovec piece = {zeros, n};
    KVS_RETURN_IF_ERROR(Write(at, {&piece, 1}));
    at += n;
  }
  return absl::OkStatus();
}

}  // namespace kvstored::nvm
