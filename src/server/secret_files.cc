#include "server/secret_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::server {
namespace {

constexpr size_t kSecretBytesMin = 16;

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

absl::StatusOr<std::string> ReadSecret(const std::string& file) {
  if (file.empty()) {
    return std::string();
  }
  std::FILE* stream = std::fopen(file.c_str(), "re");
  if (stream == nullptr) {
    return absl::NotFoundError(absl::StrFormat(
        "replication.secret_file %s: %s; make it readable for this user or leave the key empty "
        "(loopback peers only)",
        file, std::string(std::strerror(errno))));
  }
  WarnOfSharedAccess("replication.secret_file", file, stream);
  std::string secret(4096, '\0');
  secret.resize(std::fread(secret.data(), 1, secret.size(), stream));
  std::fclose(stream);
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) {
    secret.pop_back();
  }
  if (secret.size() < kSecretBytesMin) {
    return absl::InvalidArgumentError(
        absl::StrFormat("replication.secret_file %s holds %d bytes; at least %d are needed", file,
                        secret.size(), kSecretBytesMin));
  }
  return secret;
}

absl::StatusOr<std::string> ReadPassword(const std::string& file) {
  if (file.empty()) {
    return std::string();
  }
  std::FILE* stream = std::fopen(file.c_str(), "re");
  if (stream == nullptr) {
    return absl::NotFoundError(absl::StrFormat(
        "security.password_file %s cannot be read; make it readable for this user", file));
  }
  WarnOfSharedAccess("security.password_file", file, stream);
  char text[1024] = {};
  (void)!std::fgets(text, sizeof(text), stream);
  std::fclose(stream);
  std::string password(text);
  password.erase(std::remove(password.begin(), password.end(), '\n'), password.end());
  if (password.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat("security.password_file %s is empty", file));
  }
  return password;
}

}  // namespace kvstored::server
