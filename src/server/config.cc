// Reading, checking and writing the configuration by the table of keys.
#include "server/config.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "server/config_text.h"

#include <toml++/toml.h>

namespace kvstored::server {
namespace {

std::vector<std::string_view> Choices(const KeySpec& key) {
  std::vector<std::string_view> choices;
  std::string_view rest = key.choices;
  while (!rest.empty()) {
    const size_t bar = std::min(rest.find('|'), rest.size());
    choices.push_back(rest.substr(0, bar));
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return choices;
}

constexpr std::string_view kOff = "off";

absl::Status NotAllowed(const KeySpec& key, std::string_view text) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "'%s' is not allowed; it must be %s", std::string(text.substr(0, 80)), AllowedText(key)));
}

struct StoreNumber {
  uint64_t value;
  void operator()(std::string* field) const {
    *field = std::to_string(value);
  }
  template <typename T>
  void operator()(T* field) const {
    *field = static_cast<T>(value);
  }
};

bool ParseNumber(const KeySpec& key, std::string_view text, uint64_t* value) {
  switch (key.kind) {
    case KeyKind::kSize:
      return ParseSize(text, value);
    case KeyKind::kDuration:
      return ParseDuration(text, value);
    case KeyKind::kLimit:
      if (text == kOff) {
        *value = UINT64_MAX;
        return true;
      }
      return ParseDuration(text, value);
    default:
      return ParseCount(text, value);
  }
}

bool IsNumeric(const KeySpec& key) {
  return key.kind == KeyKind::kCount || key.kind == KeyKind::kPort || key.kind == KeyKind::kSize ||
         key.kind == KeyKind::kDuration || key.kind == KeyKind::kLimit;
}

// The text of a TOML value of the type that the key wants; a size or duration may be a bare number.
absl::StatusOr<std::string> TextOf(const KeySpec& key, const toml::node& node) {
  const bool number = key.kind == KeyKind::kCount || key.kind == KeyKind::kPort;
  if (const auto* integer = node.as_integer()) {
    if (IsNumeric(key)) {
      return std::to_string(integer->get());
    }
  } else if (const auto* string = node.as_string(); string != nullptr && !number) {
    if (string->get().find('\0') != std::string::npos) {
      return absl::InvalidArgumentError("a zero byte is not allowed");
    }
    return string->get();
  }
  std::ostringstream type;
  type << node.type();
  return absl::InvalidArgumentError(absl::StrFormat("a TOML %s is not allowed; it must be %s%s",
                                                    type.str(), AllowedText(key),
                                                    number ? "" : ", in quotes"));
}

// Is the default a 0 of its own, below the range?
bool FallsBelow(const KeySpec& key) {
  return key.min > 0 && std::string_view(key.standard) == "0";
}

std::string Place(const std::string& file, const toml::source_region& source) {
  return source.begin ? absl::StrFormat("%s:%d", file, source.begin.line) : file;
}

std::string KeysOf(std::string_view section) {
  std::string names;
  for (const KeySpec& key : ConfigKeys()) {
    const std::string_view name = key.name;
    if (name.substr(0, section.size()) == section && name[section.size()] == '.') {
      names += names.empty() ? "" : ", ";
      names += name.substr(section.size() + 1);
    }
  }
  return names;
}

std::string Sections() {
  std::string names;
  std::string last;
  for (const KeySpec& key : ConfigKeys()) {
    const std::string_view name = key.name;
    const std::string section(name.substr(0, name.find('.')));
    if (section != last) {
      names += (last.empty() ? "[" : " [") + section + "]";
      last = section;
    }
  }
  return names;
}

absl::Status ReadKey(const std::string& place, const std::string& name, const toml::node& node,
                     Config* config) {
  const KeySpec* key = FindConfigKey(name);
  if (key == nullptr) {
    const std::string section = name.substr(0, name.find('.'));
    return absl::InvalidArgumentError(absl::StrFormat("%s: unknown key %s; section [%s] has: %s",
                                                      place, name, section, KeysOf(section)));
  }
  absl::StatusOr<std::string> text = TextOf(*key, node);
  absl::Status status = text.ok() ? SetConfigValue(*key, *text, config) : text.status();
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %s: %s", place, name, std::string(status.message())));
  }
  return absl::OkStatus();
}

absl::Status ReadTable(const toml::table& table, const std::string& file, Config* config) {
  for (const auto& [section_key, section_node] : table) {
    const std::string section(section_key.str());
    const std::string place = Place(file, section_node.source());
    const toml::table* keys = section_node.as_table();
    if (keys == nullptr || KeysOf(section).empty()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: unknown section or key %s; there are the sections %s", place, section, Sections()));
    }
    for (const auto& [key, node] : *keys) {
      KVS_RETURN_IF_ERROR(ReadKey(Place(file, node.source()),
                                  section + "." + std::string(key.str()), node, config));
    }
  }
  return absl::OkStatus();
}

// toml++ throws (it was built with exceptions); this is the only place that may see it.
absl::StatusOr<toml::table> ParseToml(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: not valid TOML: %s", Place(file, error.source()), std::string(error.description())));
  }
}

}  // namespace

std::string AllowedText(const KeySpec& key) {
  switch (key.kind) {
    case KeyKind::kString:
    case KeyKind::kPath:
      return std::string(key.kind == KeyKind::kPath ? "a path" : "a text");
    case KeyKind::kIp:
      return "an IPv4 or IPv6 address";
    case KeyKind::kAddress:
      return "\"host:port\" or empty";
    case KeyKind::kChoice: {
      std::string text = "one of";
      for (const std::string_view choice : Choices(key)) {
        text += " \"" + std::string(choice) + "\"";
      }
      return text;
    }
    case KeyKind::kCount:
    case KeyKind::kPort:
      return absl::StrFormat("a whole number from %d to %d", key.min, key.max);
    case KeyKind::kSize:
      return absl::StrFormat("a size such as \"64MiB\", from %s to %s%s", FormatSize(key.min),
                             FormatSize(key.max), FallsBelow(key) ? ", or 0" : "");
    case KeyKind::kDuration:
      return absl::StrFormat("a duration such as \"500ms\", from %s to %s", FormatDuration(key.min),
                             FormatDuration(key.max)) +
             (FallsBelow(key) ? ", or 0" : "");
    case KeyKind::kLimit:
      return absl::StrFormat("a duration such as \"500ms\", from %s to %s, or \"off\"",
                             FormatDuration(key.min), FormatDuration(key.max));
    case KeyKind::kPercentiles:
      return "numbers from 0 to 100, separated by spaces";
  }
  return "";
}

absl::Status SetConfigValue(const KeySpec& key, std::string_view text, Config* config) {
  const FieldRef field = key.field(*config);
  if (IsNumeric(key)) {
    uint64_t value = 0;
    if (!ParseNumber(key, text, &value) || (value > key.max && text != kOff) ||
        (value < key.min && text != key.standard)) {
      return NotAllowed(key, text);
    }
    std::visit(StoreNumber{value}, field);
    return absl::OkStatus();
  }
  if (key.kind == KeyKind::kChoice) {
    const std::vector<std::string_view> choices = Choices(key);
    const auto found = std::find(choices.begin(), choices.end(), text);
    if (found == choices.end()) {
      return NotAllowed(key, text);
    }
    if (!std::holds_alternative<std::string*>(field)) {
      std::visit(StoreNumber{static_cast<uint64_t>(found - choices.begin())}, field);
      return absl::OkStatus();
    }
  }
  if ((key.kind == KeyKind::kIp && !IsIpAddress(std::string(text))) ||
      (key.kind == KeyKind::kAddress && !text.empty() && !IsHostAndPort(text))) {
    return NotAllowed(key, text);
  }
  std::vector<double> percentiles;
  if (key.kind == KeyKind::kPercentiles && !ParsePercentiles(text, &percentiles)) {
    return NotAllowed(key, text);
  }
  *std::get<std::string*>(field) = std::string(text);
  return absl::OkStatus();
}

namespace {

// The number in a field, enums by their value.
struct LoadNumber {
  uint64_t operator()(const std::string* /*field*/) const {
    return 0;
  }
  template <typename T>
  uint64_t operator()(const T* field) const {
    return static_cast<uint64_t>(*field);
  }
};

}  // namespace

std::string ConfigValueText(const KeySpec& key, const Config& config) {
  // The table's accessors want a mutable struct; nothing is written here.
  const FieldRef field = key.field(const_cast<Config&>(config));
  if (std::string* const* string = std::get_if<std::string*>(&field)) {
    return **string;
  }
  const uint64_t number = std::visit(LoadNumber{}, field);
  switch (key.kind) {
    case KeyKind::kChoice:
      return std::string(Choices(key).at(number));
    case KeyKind::kSize:
      return FormatSize(number);
    case KeyKind::kDuration:
      return FormatDuration(number);
    case KeyKind::kLimit:
      return number == UINT64_MAX ? std::string(kOff) : FormatDuration(number);
    default:
      return std::to_string(number);
  }
}

Config DefaultConfig() {
  Config config;
  for (const KeySpec& key : ConfigKeys()) {
    const absl::Status status = SetConfigValue(key, key.standard, &config);
    KVS_CHECK(status.ok(), "default of %s", key.name);
  }
  return config;
}

absl::Status ParseConfig(std::string_view text, const std::string& file, Config* config) {
  KVS_ASSIGN_OR_RETURN(const toml::table table, ParseToml(text, file));
  return ReadTable(table, file, config);
}

absl::Status ApplyConfigSet(const std::string& assignment, Config* config) {
  const std::string place = "--set " + assignment.substr(0, 120);
  const size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, equals);
  const size_t dot = name.find('.');
  if (equals == std::string::npos || dot == std::string::npos) {
    return absl::InvalidArgumentError(place + ": it must be section.key=value");
  }
  if (KeysOf(name.substr(0, dot)).empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: unknown section; there are %s", place, Sections()));
  }
  const std::string value = assignment.substr(equals + 1);
  absl::StatusOr<toml::table> table = ParseToml("value = " + value, place);
  if (table.ok() && table->size() == 1 && table->contains("value")) {
    return ReadKey(place, name, *table->get("value"), config);
  }
  return ReadKey(place, name, toml::value<std::string>(value), config);
}

absl::StatusOr<Config> LoadConfig(const std::string& file, const std::vector<std::string>& sets) {
  Config config = DefaultConfig();
  if (!file.empty()) {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    if (!stream || !(text << stream.rdbuf())) {
      return absl::NotFoundError(
          absl::StrFormat("%s: cannot be read, or is empty; give --config an existing file", file));
    }
    KVS_RETURN_IF_ERROR(ParseConfig(text.str(), file, &config));
  }
  for (const std::string& assignment : sets) {
    KVS_RETURN_IF_ERROR(ApplyConfigSet(assignment, &config));
  }
  return config;
}

std::string ConfigReference() {
  std::string out =
      "# kvstored: every key with its default. Sizes as \"8GiB\", durations as \"500ms\"; an "
      "unknown key\n"
      "# is an error. `kvstored --set section.key=value` wins over this file. Keys marked "
      "[runtime] can\n"
      "# be changed with CONFIG SET while the node runs.\n";
  std::string last;
  const Config config = DefaultConfig();
  for (const KeySpec& key : ConfigKeys()) {
    const std::string_view name = key.name;
    const std::string section(name.substr(0, name.find('.')));
    if (section != last) {
      out += "\n[" + section + "]\n";
      last = section;
    }
    std::istringstream help(key.help);
    for (std::string line; std::getline(help, line);) {
      out += "# " + line + "\n";
    }
    out += absl::StrFormat("# Value: %s%s\n", AllowedText(key), key.changeable ? " [runtime]" : "");
    const bool bare = key.kind == KeyKind::kCount || key.kind == KeyKind::kPort;
    const std::string value = ConfigValueText(key, config);
    out += std::string(name.substr(name.find('.') + 1)) + " = ";
    out += bare ? value + "\n" : "\"" + value + "\"\n";
  }
  return out;
}

}  // namespace kvstored::server
