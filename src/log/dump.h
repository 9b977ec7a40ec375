// What `kvctl log dump|verify FILE` prints: a segment or a checkpoint, frame by frame.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kvstored/nvm_device.h"

namespace kvstored::log {

enum class DumpFormat : uint8_t { kText, kJsonLines };

// Prints one line a header, frame and record ("name" below the device). Goes on behind a bad frame
// where a valid one follows. kDataLoss if anything was bad.
absl::Status DumpFile(NvmDevice* device, const std::string& name, DumpFormat format,
                      const std::function<void(std::string_view line)>& print);
// Verifies every checksum and prints a summary line.
absl::Status VerifyFile(NvmDevice* device, const std::string& name, DumpFormat format,
                        const std::function<void(std::string_view line)>& print);

}  // namespace kvstored::log
