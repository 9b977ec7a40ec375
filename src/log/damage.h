// Damage (P24): bytes were read, and they are not what was written, or what must be there is not.
// Only verification says so. A device that fails to read has kDataLoss as well, but never this
// mark: what it holds may be whole, so nobody may give it up for that.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kvstored::log {

// kDataLoss with the mark.
absl::Status DamageError(absl::string_view text);
bool IsDamage(const absl::Status& status);

// The same error with another text: code and mark stay.
absl::Status Reworded(const absl::Status& status, absl::string_view text);

}  // namespace kvstored::log
