// Files that hold a secret: replication.secret_file, security.password_file. Read at each start of
// the node, which warns when others than the owner have access: the secret is worth as much as the
// file's mode.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace kvstored::server {

// What a file may hold, without the line ends at its end.
inline constexpr size_t kSharedSecretBytesMin = 16;  // of replication.secret_file
inline constexpr size_t kPasswordBytesMin = 1;
inline constexpr size_t kSecretBytesMax = 4096;

// The secret without the line ends behind it; empty if `file` is. Errors name key, file and remedy.
absl::StatusOr<std::string> ReadSecretFile(const char* key, const std::string& file,
                                           size_t bytes_min);

// What the log says of a secret in a file of this mode; empty: only its owner has access.
std::string SharedAccessText(const std::string& key, const std::string& file, mode_t mode);

}  // namespace kvstored::server
