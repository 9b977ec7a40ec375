#include "base/hex.h"

#include <cstdlib>
#include <string_view>

namespace kvstored::base {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string ToHex(const Id128& id) {
  std::string text;
  for (const uint8_t byte : id.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool FromHex(const std::string& text, Id128* id) {
  if (text.size() != 2 * id->bytes.size() || text.find_first_not_of(kDigits) != std::string::npos) {
    return false;
  }
  for (size_t i = 0; i < id->bytes.size(); ++i) {
    id->bytes[i] = static_cast<uint8_t>(std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return true;
}

}  // namespace kvstored::base
