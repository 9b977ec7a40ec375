#include "kvctl/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"

namespace kvstored::kvctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kUnitStep = 1024;

// "memory_bytes" 1536 -> "1.5 KiB"; other numbers as they are.
std::string Bytes(double value) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (value >= kUnitStep && unit + 1 < std::size(units)) {
    value /= kUnitStep;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", value)
                   : absl::StrFormat("%.1f %s", value, units[unit]);
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string Cell(const std::string& name, const Json& value) {
  if (value.is_string()) {
    return value.get_ref<const std::string&>().empty() ? "-" : value.get<std::string>();
  }
  if (value.is_null()) {
    return "-";
  }
  if (value.is_boolean()) {
    return value.get<bool>() ? "yes" : "no";
  }
  if (value.is_number() && EndsWith(name, "_bytes")) {
    return Bytes(value.get<double>());
  }
  if (value.is_number_float()) {
    return absl::StrFormat("%.3f", value.get<double>());
  }
  if (value.is_array()) {
    std::string text;
    for (const Json& entry : value) {
      text += (text.empty() ? "" : ", ") + Cell(name, entry);
    }
    return text.empty() ? "-" : text;
  }
  return value.dump();
}

// The unit is in the cell; the heading needs it no more.
std::string Heading(std::string name) {
  if (EndsWith(name, "_bytes")) {
    name.resize(name.size() - 6);
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string Rows(const std::vector<std::vector<std::string>>& rows, const std::string& indent) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const auto& row : rows) {
    out += indent;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      out += row[i] + (last ? "\n" : std::string(widths[i] - row[i].size() + 2, ' '));
    }
  }
  return out;
}

bool IsTable(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}

std::string TableOf(const Json& list, const std::string& indent) {
  std::vector<std::string> names;
  for (const Json& row : list) {
    for (const auto& field : row.items()) {
      if (std::find(names.begin(), names.end(), field.key()) == names.end()) {
        names.push_back(field.key());
      }
    }
  }
  std::vector<std::vector<std::string>> rows(1);
  for (const std::string& name : names) {
    rows[0].push_back(Heading(name));
  }
  for (const Json& entry : list) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string& name : names) {
      row.push_back(entry.contains(name) ? Cell(name, entry[name]) : "-");
    }
  }
  return Rows(rows, indent);
}

// Plain fields first, then what needs lines of its own.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the answer, which the parser bounded
std::string ObjectText(const Json& object, const std::string& indent) {
  std::vector<std::vector<std::string>> rows;
  std::string below;
  for (const auto& field : object.items()) {
    const Json& value = field.value();
    if (IsTable(value)) {
      below += "\n" + indent + Heading(field.key()) + "\n" + TableOf(value, indent + "  ");
    } else if (value.is_object() && !value.empty()) {
      below += "\n" + indent + Heading(field.key()) + "\n" + ObjectText(value, indent + "  ");
    } else {
      rows.push_back({Heading(field.key()), Cell(field.key(), value)});
    }
  }
  return Rows(rows, indent) + below;
}

}  // namespace

std::string HumanText(const std::string& json) {
  const Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (value.is_object()) {
    return ObjectText(value, "");
  }
  if (IsTable(value)) {
    return TableOf(value, "");
  }
  if (value.is_array() && value.empty()) {
    return "none\n";
  }
  return json + "\n";
}

}  // namespace kvstored::kvctl
