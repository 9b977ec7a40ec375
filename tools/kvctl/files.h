// Files: the commands that need no running node.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace kvstored::kvctl {

// Reads and checks a configuration file as the server would.
absl::Status CheckConfig(const std::string& file, bool json);
// Every key with its default: as the file that it may be written to, or as an array of objects.
void PrintConfigReference(bool json);
// A segment, a checkpoint: every frame and record, or only whether all checksums hold.
absl::Status DumpLog(const std::string& file, bool json);
absl::Status VerifyLog(const std::string& file, bool json);

}  // namespace kvstored::kvctl
