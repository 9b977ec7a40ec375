// flock dies with the process, whatever ends it: a crash leaves no stale lock behind.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_format.h"
#include "nvm/disk/disk_device.h"
#include "nvm/disk/posix_status.h"

namespace kvstored::nvm {

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& path) {
  const std::string file = path + "/LOCK";
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return PosixStatus(errno, "opening", file);
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    char holder[32] = {};
    const ssize_t n = ::pread(fd, holder, sizeof(holder) - 1, 0);
    ::close(fd);
    if (error != EWOULDBLOCK) {
      return PosixStatus(error, "locking", file);
    }
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s is in use by another process (pid %s); stop it or choose another server.data_dir", path,
        n > 0 ? std::string(holder) : std::string("unknown")));
  }
  // For the operator's eyes only; the lock itself is the kernel's.
  const std::string pid = absl::StrFormat("%d", ::getpid());
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    const int error = errno;
    if (error != ENOSPC) {
      ::close(fd);
      return PosixStatus(error, "writing", file);
    }
  }
  return std::unique_ptr<DirectoryLock>(new DirectoryLock(fd));
}

DirectoryLock::~DirectoryLock() {
  ::close(fd_);
}

}  // namespace kvstored::nvm
