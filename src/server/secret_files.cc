#include "server/secret_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::server {
namespace {

// Of the open file, so that it is the one that was read.
void WarnOfSharedAccess(const char* key, const std::string& file, std::FILE* stream) {
  struct stat facts {};
  if (::fstat(::fileno(stream), &facts) != 0) {
    return;
  }
  if (const std::string text = SharedAccessText(key, file, facts.st_mode); !text.empty()) {
    base::LogWarning(text);
  }
}

}  // namespace

std::string SharedAccessText(const std::string& key, const std::string& file, mode_t mode) {
  constexpr mode_t kOthers = S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
  if ((mode & kOthers) == 0) {
    return "";
  }
  return absl::StrFormat("%s %s: mode %04o lets group or others at the secret: chmod 600 %s", key,
                         file, mode & 07777u, file);
}

absl::StatusOr<std::string> ReadSecretFile(const char* key, const std::string& file,
                                           size_t bytes_min) {
  if (file.empty()) {
    return std::string();
  }
  std::FILE* stream = std::fopen(file.c_str(), "re");
  if (stream == nullptr) {
    return absl::NotFoundError(absl::StrFormat(
        "%s %s: %s; make it readable for this user, or leave the key empty if none is wanted", key,
        file, std::string(std::strerror(errno))));
  }
  WarnOfSharedAccess(key, file, stream);
  std::string secret(kSecretBytesMax + 2, '\0');
  secret.resize(std::fread(secret.data(), 1, secret.size(), stream));
  std::fclose(stream);
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) {
    secret.pop_back();
  }
  if (secret.size() < bytes_min || secret.size() > kSecretBytesMax) {
    return absl::InvalidArgumentError(
        secret.size() > kSecretBytesMax
            ? absl::StrFormat("%s %s holds more than %d bytes", key, file, kSecretBytesMax)
            : absl::StrFormat("%s %s holds %d bytes; at least %d are needed", key, file,
                              secret.size(), bytes_min));
  }
  return secret;
}

}  // namespace kvstored::server
