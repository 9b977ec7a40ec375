// Clients: RESP commands on simulated connections, each with what its reply means for the history.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"
#include "tests/sim/history.h"

namespace kvstored::sim {

// What one command, or one MULTI ... EXEC, was about.
struct Request {
  enum class Kind : uint8_t {
    kSet,
    kGet,
    kRemove,
    kAppend,
    kGetList,
    kIncrement,
    kGetCounter,
    kGroupSet,     // MSET of a group of keys over the shards
    kGroupGet,     // MGET of it
    kTransaction,  // MULTI, SET of each key of the group, APPEND, EXEC
    kExpiring,     // SET with PX: only that what is read was written
    kGetExpiring,
  };
  Kind kind = Kind::kGet;
  std::string name;
  std::string list;  // of a transaction
  std::string value;
  size_t write = 0;  // handles of the history
  size_t append = 0;
  uint64_t begin = 0;
  bool fresh = false;  // sent to the primary of the newest epoch
  size_t replies_left = 1;
};

class Client {
 public:
  Client(Cluster* cluster, History* history, uint64_t seed, std::string name);

  // Reads replies, sends commands. `may_send`: new ones.
  void Step(bool may_send);
  bool is_idle() const {
    return pending_.empty();
  }
  // Reads everything at the primary, once.
  void ReadAll();
  // Ends a connection from which nothing comes.
  void GiveUp();
  uint64_t request_count() const {
    return request_count_;
  }

 private:
  bool Connected();
  void Disconnect();
  void SendSome();
  Request MakeRequest();
  void Send(Request request);
  void TakeReplies();
  void Finish(const Request& request, const SimReply& reply);
  Outcome OutcomeOf(const Request& request, const SimReply& reply);
  void EndWrites(const Request& request, Outcome outcome, int64_t number);
  void FinishRead(const Request& request, const SimReply& reply);
  std::string ValueOf(const std::string& token);
  bool TokenOf(const std::string& value, std::string* token);
  std::string FreshToken();

  Cluster* const cluster_;
  History* const history_;
  SimRandom random_;
  const std::string name_;
  std::shared_ptr<SimConnection> connection_;
  uint32_t node_ = 0;
  uint64_t life_ = 0;
  size_t read_bytes_ = 0;  // of connection_->received()
  std::deque<Request> pending_;
  int64_t not_before_us_ = 0;
  int64_t last_reply_us_ = 0;
  uint64_t token_count_ = 0;
  uint64_t request_count_ = 0;
  bool any_node_ = false;
  const int64_t think_us_max_;
};

// The keys of a group, over all shards.
std::vector<std::string> GroupKeys(const std::string& group);

}  // namespace kvstored::sim
