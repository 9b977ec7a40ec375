// Small pure text functions that the configuration files share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvstored::server {

// Digits only, within 64 bits.
bool ParseCount(std::string_view text, uint64_t* value);
// Numbers with spaces between them.
bool ParseNumbers(std::string_view text, std::vector<double>* numbers);
bool IsIpAddress(const std::string& text);
// "name:1234", "10.0.0.1:1234", "[::1]:1234".
bool IsHostAndPort(std::string_view text);

}  // namespace kvstored::server
