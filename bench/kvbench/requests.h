// Requests as bytes, in the dialect of the server.
#pragma once

#include <string>

#include "kvbench/key_text.h"
#include "kvbench/options.h"
#include "kvbench/outbox.h"
#include "kvbench/workload.h"

namespace kvstored::bench {

// Immutable: shared by all connections.
class Requests {
 public:
  explicit Requests(const Options& options);

  // What a new connection says before anything else, and how many replies that brings.
  const std::string& greeting() const {
    return greeting_;
  }
  uint32_t greeting_replies() const {
    return greeting_replies_;
  }
  void Get(uint64_t key, Outbox* out) const;
  void Set(const Operation& operation, Outbox* out) const;
  void Wait(Outbox* out) const {
    out->Append(wait_);
  }

 private:
  void AppendKey(const std::string& head, uint64_t key, const std::string& tail, Outbox* out) const;

  const Dialect dialect_;
  const KeyText key_text_;
  std::string greeting_;
  uint32_t greeting_replies_ = 0;
  // Around the key, up to the value's length.
  std::string get_head_, get_tail_, set_head_, set_tail_;
  std::string wait_;
};

}  // namespace kvstored::bench
