#include "command/sensitive_args.h"

#include <algorithm>
#include <array>

#include "command/numbers.h"

namespace kvstored::command {
namespace {

constexpr std::string_view kRedacted = "(redacted)";

// Settings whose value is a secret, here or in a Redis.
bool IsSecretSetting(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {
      "requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [name](std::string_view secret) { return EqualsIgnoreCase(name, secret); });
}

}  // namespace

std::vector<std::string_view> WithoutSecrets(const CommandSpec& spec,
                                             std::span<const std::string_view> args) {
  std::vector<std::string_view> words(args.begin(), args.end());
  const std::string_view name = spec.name;
  const auto hide = [&words](size_t at) {
    if (at < words.size()) {
      words[at] = kRedacted;
    }
  };
  if (name == "auth") {
    hide(1);
    hide(2);
  } else if (name == "hello") {
    for (size_t i = 2; i + 2 < args.size(); ++i) {
      if (EqualsIgnoreCase(args[i], "auth")) {
        hide(i + 1);
        hide(i + 2);
        i += 2;
      } else if (EqualsIgnoreCase(args[i], "setname")) {
        ++i;
      }
    }
  } else if (name == "config" && EqualsIgnoreCase(args[1], "set")) {
    for (size_t i = 2; i + 1 < args.size(); i += 2) {
      if (IsSecretSetting(args[i])) {
        hide(i + 1);
      }
    }
  }
  return words;
}

}  // namespace kvstored::command
