#include "tests/sim/history.h"

#include <algorithm>
#include <cstdlib>

namespace kvstored::sim {
namespace {

std::string Short(const std::string& value) {
  return value.size() <= 60 ? value : value.substr(0, 57) + "...";
}

std::vector<std::string> Tokens(const std::string& bytes) {
  std::vector<std::string> tokens;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t end = bytes.find(';', at);
    const size_t next = end == std::string::npos ? bytes.size() : end + 1;
    tokens.push_back(bytes.substr(at, next - at));
    at = next;
  }
  return tokens;
}

}  // namespace

size_t History::Begin(const std::string& name, const std::string& value, uint64_t now) {
  operations_.push_back({.name = name, .value = value, .begin = now});
  return operations_.size() - 1;
}

size_t History::BeginWrite(const std::string& name, const std::string& value, uint64_t now) {
  const size_t write = Begin(name, value, now);
  registers_[name].writes[value] = write;
  return write;
}

size_t History::BeginRemove(const std::string& name, uint64_t now) {
  const size_t remove = Begin(name, "", now);
  registers_[name].removes.push_back(remove);
  return remove;
}

void History::EndWrite(size_t write, Outcome outcome, uint64_t now) {
  Operation& operation = operations_[write];
  operation.outcome = outcome;
  if (outcome == Outcome::kDone) {
    operation.end = now;
    ++acknowledged_count_;
  }
}

void History::Read(const std::string& name, const std::string& value, uint64_t begin, uint64_t now,
                   bool fresh) {
  ++read_count_;
  Register& reg = registers_[name];
  if (!value.empty() && !reg.writes.contains(value)) {
    Fail("register " + name + ": read '" + Short(value) + "', which nobody wrote");
    return;
  }
  reg.reads.push_back({.value = value, .begin = begin, .end = now, .fresh = fresh});
}

size_t History::BeginAppend(const std::string& name, const std::string& token, uint64_t now) {
  const size_t append = Begin(name, token, now);
  lists_[name].appends.push_back(append);
  lists_[name].by_token[token] = append;
  return append;
}

void History::EndAppend(size_t append, Outcome outcome, uint64_t now) {
  EndWrite(append, outcome, now);
}

void History::ReadList(const std::string& name, const std::string& bytes, uint64_t begin,
                       uint64_t now, bool fresh, const std::string& observer) {
  ++read_count_;
  List& list = lists_[name];
  size_t& seen = list.seen_bytes[observer];
  if (bytes.size() < seen) {
    Fail("list " + name + ": " + observer + " went back from " + std::to_string(seen) + " to " +
         std::to_string(bytes.size()) + " bytes");
  }
  seen = std::max(seen, bytes.size());
  list.reads.push_back({.value = bytes, .begin = begin, .end = now, .fresh = fresh});
}

size_t History::BeginIncrement(const std::string& name, uint64_t now) {
  const size_t increment = Begin(name, "", now);
  counters_[name].increments.push_back(increment);
  return increment;
}

void History::EndIncrement(size_t increment, Outcome outcome, int64_t number, uint64_t now) {
  EndWrite(increment, outcome, now);
  operations_[increment].number = number;
}

void History::ReadCounter(const std::string& name, int64_t number, uint64_t begin, uint64_t now,
                          bool fresh) {
  ++read_count_;
  counters_[name].reads.push_back(
      {.value = std::to_string(number), .begin = begin, .end = now, .fresh = fresh});
}

// A fresh read of nothing needs a removal (or the beginning) that no completed write has covered.
std::string History::CheckAbsent(const std::string& name, const Register& reg,
                                 const ReadOf& read) const {
  const auto covered = [&](uint64_t removed) {  // the earliest moment at which it surely was over
    return std::any_of(reg.writes.begin(), reg.writes.end(), [&](const auto& write) {
      const Operation& operation = operations_[write.second];
      return operation.outcome == Outcome::kDone && operation.end < read.begin &&
             removed < operation.begin;
    });
  };
  if (!covered(0)) {
    return "";
  }
  for (const size_t remove : reg.removes) {
    const Operation& operation = operations_[remove];
    if (operation.outcome != Outcome::kRefused && operation.begin < read.end &&
        !covered(operation.end)) {
      return "";
    }
  }
  return "register " + name + ": absent at " + std::to_string(read.begin) + ".." +
         std::to_string(read.end) + " although a write was acknowledged before and never removed";
}

std::string History::CheckRegister(const std::string& name, const Register& reg) const {
  struct Zone {
    uint64_t first_end = kNoTime;  // f
    uint64_t last_begin = 0;       // s
    const std::string* value = nullptr;
  };
  std::map<std::string, Zone> zones;
  for (const auto& [value, index] : reg.writes) {
    const Operation& write = operations_[index];
    if (write.outcome == Outcome::kDone) {
      zones[value] = {write.end, write.begin, &value};
    }
  }
  for (const ReadOf& read : reg.reads) {
    if (read.value.empty()) {
      if (const std::string error = read.fresh ? CheckAbsent(name, reg, read) : "";
          !error.empty()) {
        return error;
      }
      continue;
    }
    const auto found = reg.writes.find(read.value);
    const Operation& write = operations_[found->second];
    if (write.outcome == Outcome::kRefused) {
      return "register " + name + ": read '" + Short(read.value) + "', whose write was refused";
    }
    if (write.begin > read.end) {
      return "register " + name + ": read '" + Short(read.value) + "' before it was written";
    }
    if (!read.fresh) {
      continue;
    }
    Zone& zone =
        zones.try_emplace(read.value, Zone{write.end, write.begin, &found->first}).first->second;
    zone.first_end = std::min(zone.first_end, read.end);
    zone.last_begin = std::max(zone.last_begin, read.begin);
  }
  for (const auto& [value, a] : zones) {
    if (a.first_end >= a.last_begin) {
      continue;
    }
    for (const auto& [other, b] : zones) {
      if (&a == &b) {
        continue;
      }
      const bool forward = b.first_end < b.last_begin;
      const bool overlap = forward && a.first_end < b.last_begin && b.first_end < a.last_begin;
      const bool inside = !forward && b.last_begin > a.first_end && b.first_end < a.last_begin;
      if (overlap || inside) {
        return "register " + name + ": '" + Short(value) + "' (" + std::to_string(a.first_end) +
               ".." + std::to_string(a.last_begin) + ") and '" + Short(other) + "' (" +
               std::to_string(b.first_end) + ".." + std::to_string(b.last_begin) +
               ") fit no order of writes";
      }
    }
  }
  return "";
}

std::string History::CheckList(const std::string& name, const List& list) const {
  const ReadOf* longest = nullptr;
  for (const ReadOf& read : list.reads) {
    longest = longest == nullptr || read.value.size() > longest->value.size() ? &read : longest;
  }
  if (longest == nullptr) {
    return "";
  }
  std::set<std::string> seen;
  for (const std::string& token : Tokens(longest->value)) {
    const auto found = list.by_token.find(token);
    if (found == list.by_token.end()) {
      return "list " + name + ": holds '" + Short(token) + "', which nobody appended";
    }
    if (operations_[found->second].outcome == Outcome::kRefused) {
      return "list " + name + ": holds '" + Short(token) + "', whose append was refused";
    }
    if (!seen.insert(token).second) {
      return "list " + name + ": holds '" + Short(token) + "' twice";
    }
  }
  for (const ReadOf& read : list.reads) {
    if (longest->value.compare(0, read.value.size(), read.value) != 0) {
      return "list " + name + ": two reads contradict each other: ..." +
             read.value.substr(read.value.size() - std::min<size_t>(40, read.value.size())) +
             " at " + std::to_string(read.begin);
    }
    if (!read.fresh) {
      continue;
    }
    for (const size_t index : list.appends) {
      const Operation& append = operations_[index];
      const size_t at = append.outcome == Outcome::kDone && append.end < read.begin
                            ? longest->value.find(append.value)
                            : 0;
      if (at >= read.value.size() && append.outcome == Outcome::kDone && append.end < read.begin) {
        return "list " + name + ": the acknowledged '" + Short(append.value) + "' (done at " +
               std::to_string(append.end) + ") is missing in the read at " +
               std::to_string(read.begin);
      }
    }
  }
  return "";
}

std::string History::CheckCounter(const std::string& name, const Counter& counter) const {
  std::vector<const Operation*> done;
  int64_t possible = 0;
  for (const size_t index : counter.increments) {
    const Operation& operation = operations_[index];
    possible += operation.outcome != Outcome::kRefused ? 1 : 0;
    if (operation.outcome == Outcome::kDone) {
      done.push_back(&operation);
    }
  }
  std::map<int64_t, const Operation*> by_number;
  for (const Operation* a : done) {
    if (a->number < 1 || a->number > possible || !by_number.emplace(a->number, a).second) {
      return "counter " + name + ": increment answered " + std::to_string(a->number) +
             " twice or out of range (" + std::to_string(possible) + ")";
    }
    for (const Operation* b : done) {
      if (a->end < b->begin && a->number >= b->number) {
        return "counter " + name + ": " + std::to_string(b->number) + " after " +
               std::to_string(a->number);
      }
    }
  }
  for (const ReadOf& read : counter.reads) {
    const int64_t number = std::strtoll(read.value.c_str(), nullptr, 10);
    if (number > possible) {
      return "counter " + name + ": read " + read.value + " of at most " + std::to_string(possible);
    }
    for (const Operation* a : done) {
      if (read.fresh && a->end < read.begin && number < a->number) {
        return "counter " + name + ": read " + read.value + " after " + std::to_string(a->number) +
               " was acknowledged";
      }
    }
  }
  return "";
}

std::string History::Check() const {
  if (!error_.empty()) {
    return error_;
  }
  for (const auto& [name, reg] : registers_) {
    if (const std::string error = CheckRegister(name, reg); !error.empty()) {
      return error;
    }
  }
  for (const auto& [name, list] : lists_) {
    if (const std::string error = CheckList(name, list); !error.empty()) {
      return error;
    }
  }
  for (const auto& [name, counter] : counters_) {
    if (const std::string error = CheckCounter(name, counter); !error.empty()) {
      return error;
    }
  }
  return "";
}

}  // namespace kvstored::sim
