#include "nvm/disk/posix_status.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"

namespace kvstored::nvm {

absl::Status PosixStatus(int error, const std::string& what, const std::string& path) {
  const std::string cause = absl::StrFormat("%s %s: %s", what, path, std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(cause +
                                          "; free space on this file system or raise the quota");
    case EFBIG:
      return absl::ResourceExhaustedError(cause + "; raise the file size limit (ulimit -f)");
    case ENOENT:
      return absl::NotFoundError(cause);
    case EEXIST:
      return absl::AlreadyExistsError(cause);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          cause + "; the directory must belong to the user that runs kvstored");
    case EROFS:
      return absl::PermissionDeniedError(cause + "; the file system is mounted read-only");
    case EMFILE:
    case ENFILE:
      return absl::UnavailableError(cause + "; raise the limit of open files (ulimit -n)");
    case EIO:
      return absl::DataLossError(cause + "; the device failed: see dmesg, replace it");
    default:
      return absl::UnknownError(cause);
  }
}

}  // namespace kvstored::nvm
