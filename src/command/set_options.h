// Options of SET and GETEX, and the arithmetic of expiry times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "command/command.h"

namespace kvstored::command {

enum class ExpireUnit : uint8_t { kSeconds, kMilliseconds };

struct SetOptions {
  bool only_if_absent = false;   // NX
  bool only_if_present = false;  // XX
  bool keep_ttl = false;
  bool get = false;
  bool persist = false;
  bool has_expire = false;
  bool absolute = false;  // EXAT, PXAT
  ExpireUnit unit = ExpireUnit::kMilliseconds;
  std::string_view expire_text;
};

enum class OptionsOf : uint8_t { kSet, kGetEx };

// Parses what stands after the fixed arguments. False: syntax error.
[[nodiscard]] bool ParseSetOptions(std::span<const std::string_view> words, OptionsOf command,
                                   SetOptions* options);

// The absolute expiry in Unix milliseconds, > 0. Otherwise writes the error reply and returns
// nullopt.
std::optional<uint64_t> ExpiryOrReply(ShardCall& call, std::string_view text, ExpireUnit unit,
                                      bool absolute);

}  // namespace kvstored::command
