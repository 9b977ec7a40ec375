// Configuration texts: whatever the bytes are, parsing ends in a configuration within its ranges or
// in an error that names the source. The first byte chooses the way in.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "server/config.h"
#include "server/control_request.h"

namespace {

using kvstored::server::Config;

// What was accepted can be written and read back to the same.
void CheckAccepted(const Config& config) {
  Config copy = kvstored::server::DefaultConfig();
  for (const auto& key : kvstored::server::ConfigKeys()) {
    const std::string text = kvstored::server::ConfigValueText(key, config);
    const absl::Status status = kvstored::server::SetConfigValue(key, text, &copy);
    KVS_CHECK(status.ok(), "%s = '%s' does not read back", key.name, text.c_str());
    KVS_CHECK(kvstored::server::ConfigValueText(key, copy) == text, "%s = '%s'", key.name,
              text.c_str());
  }
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void RunFile(std::string_view text) {
  Config config = kvstored::server::DefaultConfig();
  const absl::Status status = kvstored::server::ParseConfig(text, "input", &config);
  if (status.ok()) {
    CheckAccepted(config);
  } else {
    KVS_CHECK(status.message().substr(0, 5) == "input", "an error that names no source");
  }
}

void RunSet(std::string_view text) {
  Config config = kvstored::server::DefaultConfig();
  if (kvstored::server::ApplyConfigSet(std::string(text), &config).ok()) {
    CheckAccepted(config);
  }
}

void RunCommand(std::string_view text) {
  Config config = kvstored::server::DefaultConfig();
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& line : Split(text, '\n')) {
    const size_t equals = line.find('=');
    pairs.emplace_back(line.substr(0, equals),
                       equals == std::string::npos ? "" : line.substr(equals + 1));
    (void)kvstored::server::ConfigGet(config, line);
  }
  std::vector<std::string> changed;
  if (kvstored::server::ConfigSet(pairs, &config, &changed).ok()) {
    CheckAccepted(config);
  }
}

void RunControl(std::string_view text) {
  const auto request = kvstored::server::ParseControl(Split(text, ' '));
  if (request.ok()) {
    const auto again = kvstored::server::ParseControl(kvstored::server::ControlWords(*request));
    KVS_CHECK(again.ok(), "a request's own words are refused");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      RunFile(text);
      break;
    case 1:
      RunSet(text);
      break;
    case 2:
      RunCommand(text);
      break;
    default:
      RunControl(text);
      break;
  }
  return 0;
}
