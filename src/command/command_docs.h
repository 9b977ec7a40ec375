// What COMMAND INFO and COMMAND DOCS say beyond the table's own fields.
#pragma once

#include <string_view>

namespace kvstored::command {

struct CommandDoc {
  std::string_view name;
  std::string_view since;
  std::string_view group;
  std::string_view summary;
  std::string_view complexity;
  std::string_view key_flags;  // of each key specification, separated by '|'
  std::string_view key_notes;
  std::string_view tips;  // separated by spaces
};

// Never null for a name of the command table (a test checks that).
const CommandDoc* FindCommandDoc(std::string_view name);

}  // namespace kvstored::command
