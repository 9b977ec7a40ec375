// Identities as text: 32 lower-case hexadecimal digits.
#pragma once

#include <string>

#include "kvstored/types.h"

namespace kvstored::base {

std::string ToHex(const Id128& id);
[[nodiscard]] bool FromHex(const std::string& text, Id128* id);

}  // namespace kvstored::base
