// Small pure text functions that the configuration files share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvstored::server {

// Digits only, within 64 bits.
bool ParseCount(std::string_view text, uint64_t* value);
bool IsIpAddress(const std::string& text);
// "name:1234", "10.0.0.1:1234", "[::1]:1234".
bool IsHostAndPort(std::string_view text);

}  // namespace kvstored::server
