// ErrorCounts: the error replies of one thread by their code word (INFO errorstats).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace kvstored::command {

// Thread-safe: errors are the exception, so a lock that nobody else wants is cheap enough.
class ErrorCounts {
 public:
  // "-WRONGTYPE Operation against ...".
  void Add(std::string_view reply) {
    const std::string_view code = reply.substr(1, reply.find_first_of(" \r") - 1);
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(code);
    if (found != counts_.end()) {
      ++found->second;
    } else {
      counts_.emplace(std::string(code), 1);
    }
  }
  void AddTo(std::map<std::string, uint64_t>* total) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [code, count] : counts_) {
      (*total)[code] += count;
    }
  }
  void Reset() {
    const std::lock_guard lock(mutex_);
    counts_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> counts_;
};

}  // namespace kvstored::command
