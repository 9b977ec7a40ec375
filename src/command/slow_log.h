// SlowLog: the newest commands that took longer than slowlog-log-slower-than.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvstored::command {

// Thread-safe: written seldom, unless every command is to be logged.
class SlowLog {
 public:
  struct Entry {
    int64_t id = 0;
    int64_t unix_s = 0;
    int64_t us = 0;
    std::vector<std::string> words;  // at most 32 of at most 128 bytes: what is cut off is told
    std::string peer;
    std::string client_name;
  };
  // Gives the entry its id and its words.
  void Add(Entry entry, std::span<const std::string_view> args, uint64_t entries_max);
  // The newest first.
  std::vector<Entry> Newest(size_t count) const;
  size_t size() const;
  void Reset();
  void Trim(uint64_t entries_max);

 private:
  void TrimLocked(uint64_t entries_max);

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // the newest first
  int64_t next_id_ = 0;
};

}  // namespace kvstored::command
