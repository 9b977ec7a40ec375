// errno as a status that names the operation, the path and what an operator can do.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace kvstored::nvm {

absl::Status PosixStatus(int error, const std::string& what, const std::string& path);

}  // namespace kvstored::nvm
