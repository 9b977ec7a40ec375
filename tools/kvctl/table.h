// Table: a node's JSON answer for people: fields as aligned lines, lists of objects as tables.
#pragma once

#include <string>

namespace kvstored::kvctl {

// Text that is not JSON comes back as it is.
std::string HumanText(const std::string& json);

}  // namespace kvstored::kvctl
