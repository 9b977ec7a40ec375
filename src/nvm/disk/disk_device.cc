// What a crash can leave behind: a file that Create was making (its name may exist with any length:
// the caller's formats tell a whole file from a part), never a rename half done (POSIX rename is
// atomic, and its directory is synced before we return).
#include "nvm/disk/disk_device.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "nvm/disk/disk_file.h"
#include "nvm/disk/posix_status.h"

namespace kvstored::nvm {
namespace {

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return PosixStatus(errno, "opening directory", path);
  }
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  return result == 0 ? absl::OkStatus() : PosixStatus(error, "persisting directory", path);
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path) {
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    return PosixStatus(errno, "listing", path);
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory);
    if (entry == nullptr) {
      break;
    }
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(name);
    }
  }
  const int error = errno;
  ::closedir(directory);
  if (error != 0) {
    return PosixStatus(error, "listing", path);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Depth first; directories of ours are two levels deep.
absl::Status RemoveTree(const std::string& path) {
  struct stat facts;
  if (::lstat(path.c_str(), &facts) != 0) {
    return errno == ENOENT ? absl::OkStatus() : PosixStatus(errno, "removing", path);
  }
  if (S_ISDIR(facts.st_mode)) {
    KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
    for (const std::string& name : names) {
      KVS_RETURN_IF_ERROR(RemoveTree(absl::StrFormat("%s/%s", path, name)));
    }
    if (::rmdir(path.c_str()) != 0) {
      return PosixStatus(errno, "removing", path);
    }
  } else if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return PosixStatus(errno, "removing", path);
  }
  return absl::OkStatus();
}

// Immutable after construction, so thread-safe.
class DiskDevice : public NvmDevice {
 public:
  explicit DiskDevice(std::string root) : root_(std::move(root)) {
  }

  NvmKind kind() const override {
    return NvmKind::kDisk;
  }

  absl::StatusOr<std::unique_ptr<NvmFile>> Create(const std::string& name,
                                                  uint64_t size_bytes) override {
    const std::string path = PathOf(name);
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
      return PosixStatus(errno, "creating", path);
    }
    auto file = std::make_unique<DiskFile>(fd, path, 0);
    absl::Status status = file->Prewrite(size_bytes);
    if (status.ok() && ::fsync(fd) != 0) {
      status = PosixStatus(errno, "persisting", path);
    }
    if (status.ok()) {
      status = SyncDirectory(ParentOf(path));
    }
    if (!status.ok()) {
      ::unlink(path.c_str());
      return status;
    }
    return file;
  }

  absl::StatusOr<std::unique_ptr<NvmFile>> Open(const std::string& name) override {
    const std::string path = PathOf(name);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      return PosixStatus(errno, "opening", path);
    }
    struct stat facts;
    if (::fstat(fd, &facts) != 0) {
      const int error = errno;
      ::close(fd);
      return PosixStatus(error, "reading the size of", path);
    }
    return std::make_unique<DiskFile>(fd, path, static_cast<uint64_t>(facts.st_size));
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    const std::string source = PathOf(from);
    const std::string target = PathOf(to);
    const int fd = ::open(source.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      return PosixStatus(errno, "opening", source);
    }
    const int result = ::fsync(fd);
    const int error = errno;
    ::close(fd);
    if (result != 0) {
      return PosixStatus(error, "persisting", source);
    }
    if (::rename(source.c_str(), target.c_str()) != 0) {
      return PosixStatus(errno, "renaming " + source + " to", target);
    }
    KVS_RETURN_IF_ERROR(SyncDirectory(ParentOf(target)));
    return ParentOf(source) == ParentOf(target) ? absl::OkStatus()
                                                : SyncDirectory(ParentOf(source));
  }

  absl::Status Remove(const std::string& name) override {
    const std::string path = PathOf(name);
    KVS_RETURN_IF_ERROR(RemoveTree(path));
    // The parent may be absent as well: then so is the file.
    absl::Status synced = SyncDirectory(ParentOf(path));
    return absl::IsNotFound(synced) ? absl::OkStatus() : synced;
  }

  absl::Status MakeDirectory(const std::string& name) override {
    const std::string path = PathOf(name);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return PosixStatus(errno, "making directory", path);
    }
    return SyncDirectory(ParentOf(path));
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    return NamesIn(directory.empty() ? root_ : PathOf(directory));
  }

  absl::StatusOr<uint64_t> FreeBytes() override {
    struct statvfs facts;
    if (::statvfs(root_.c_str(), &facts) != 0) {
      return PosixStatus(errno, "reading the free space of", root_);
    }
    return static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize;
  }

  std::string Describe() const override {
    return root_;
  }

 private:
  std::string PathOf(const std::string& name) const {
    KVS_CHECK(!name.empty() && name[0] != '/' && name.find("..") == std::string::npos, "name=%s",
              name.c_str());
    return root_ + "/" + name;
  }

  const std::string root_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NvmDevice>> OpenDiskDevice(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    char made[PATH_MAX];
    if (::realpath(path.c_str(), made) != nullptr) {
      KVS_RETURN_IF_ERROR(SyncDirectory(ParentOf(made)));
    }
  } else if (errno != EEXIST) {
    return PosixStatus(errno, "making directory", path);
  }
  char absolute[PATH_MAX];
  if (::realpath(path.c_str(), absolute) == nullptr) {
    return PosixStatus(errno, "resolving", path);
  }
  struct stat facts;
  if (::stat(absolute, &facts) != 0) {
    return PosixStatus(errno, "opening", path);
  }
  if (!S_ISDIR(facts.st_mode)) {
    return absl::FailedPreconditionError(absl::StrFormat("%s is not a directory", path));
  }
  if (::access(absolute, R_OK | W_OK | X_OK) != 0) {
    return PosixStatus(errno, "opening", path);
  }
  return std::make_unique<DiskDevice>(absolute);
}

}  // namespace kvstored::nvm
