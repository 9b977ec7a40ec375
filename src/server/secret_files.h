// Files that hold a secret: replication.secret_file, security.password_file. Read at each start of
// the node, which warns when others than the owner have access: the secret is worth as much as the
// file's mode.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace kvstored::server {

// The secret without the line's end; empty if `file` is. Errors name key, file and remedy.
absl::StatusOr<std::string> ReadSecret(const std::string& file);
// The first line of security.password_file; empty if `file` is.
absl::StatusOr<std::string> ReadPassword(const std::string& file);

// What the log says of a secret in a file of this mode; empty: only its owner has access.
std::string SharedAccessText(const std::string& key, const std::string& file, mode_t mode);

}  // namespace kvstored::server
