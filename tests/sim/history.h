// What the clients saw, and whether one correct store could have shown it. Knows nothing of the
// store: operations with the interval in which they were under way, and their outcome.
//
// Registers hold values that are written once each, so the order of writes follows from what was
// read (P. Gibbons, E. Korach: Testing Shared Memories, SIAM J. Comput. 26(4), 1997): the
// operations of one value form a zone, and a history is linearizable if and only if no two forward
// zones overlap and no backward zone lies inside a forward one.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace kvstored::sim {

inline constexpr uint64_t kNoTime = std::numeric_limits<uint64_t>::max();

enum class Outcome : uint8_t { kPending, kDone, kRefused, kUnknown };

class History {
 public:
  // Moments are numbers of their own: each call is a later one.
  uint64_t Now() {
    return ++now_;
  }
  // A write of `value` begins. Values of one register are never written twice. Returns its handle.
  size_t BeginWrite(const std::string& name, const std::string& value, uint64_t now);
  // Removes the value (any value).
  size_t BeginRemove(const std::string& name, uint64_t now);
  void EndWrite(size_t write, Outcome outcome, uint64_t now);
  // A read that began at `begin` and ended now. An empty value: absent. `fresh`: from the primary
  // of the newest epoch; otherwise it may be old, but must have been written.
  void Read(const std::string& name, const std::string& value, uint64_t begin, uint64_t now,
            bool fresh);

  // Appends of unique tokens to a list; the outcome tells the list's bytes after it if known.
  size_t BeginAppend(const std::string& name, const std::string& token, uint64_t now);
  void EndAppend(size_t append, Outcome outcome, uint64_t now);
  // The whole list: tokens end with ';'. `observer`: what must not go back in time by itself.
  void ReadList(const std::string& name, const std::string& bytes, uint64_t begin, uint64_t now,
                bool fresh, const std::string& observer);

  // An increment that answered `number`, and reads of the counter.
  size_t BeginIncrement(const std::string& name, uint64_t now);
  void EndIncrement(size_t increment, Outcome outcome, int64_t number, uint64_t now);
  void ReadCounter(const std::string& name, int64_t number, uint64_t begin, uint64_t now,
                   bool fresh);

  // After everything: the first contradiction, or an empty text.
  std::string Check() const;
  // A contradiction that was seen at once.
  const std::string& error() const {
    return error_;
  }
  void Fail(const std::string& text) {
    if (error_.empty()) {
      error_ = text;
    }
  }
  size_t operation_count() const {
    return operations_.size() + read_count_;
  }
  uint64_t acknowledged_count() const {
    return acknowledged_count_;
  }

 private:
  struct Operation {
    std::string name;
    std::string value;
    uint64_t begin = 0;
    uint64_t end = kNoTime;
    int64_t number = 0;
    Outcome outcome = Outcome::kPending;
  };
  struct ReadOf {
    std::string value;
    uint64_t begin = 0;
    uint64_t end = 0;
    bool fresh = true;
  };
  struct Register {
    std::map<std::string, size_t> writes;  // value -> operation
    std::vector<size_t> removes;
    std::vector<ReadOf> reads;
  };
  struct List {
    std::vector<size_t> appends;
    std::map<std::string, size_t> by_token;
    std::vector<ReadOf> reads;
    std::map<std::string, size_t> seen_bytes;  // by observer
  };
  struct Counter {
    std::vector<size_t> increments;
    std::vector<ReadOf> reads;
  };

  size_t Begin(const std::string& name, const std::string& value, uint64_t now);
  std::string CheckRegister(const std::string& name, const Register& reg) const;
  std::string CheckAbsent(const std::string& name, const Register& reg, const ReadOf& read) const;
  std::string CheckList(const std::string& name, const List& list) const;
  std::string CheckCounter(const std::string& name, const Counter& counter) const;

  std::vector<Operation> operations_;
  std::map<std::string, Register> registers_;
  std::map<std::string, List> lists_;
  std::map<std::string, Counter> counters_;
  std::string error_;
  uint64_t now_ = 0;
  size_t read_count_ = 0;
  uint64_t acknowledged_count_ = 0;
};

}  // namespace kvstored::sim
