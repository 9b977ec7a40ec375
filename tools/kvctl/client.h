// Client: one RESP connection to a node's front port, for kvctl's single command.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct redisContext;

namespace kvstored::kvctl {

class Client {
 public:
  struct Options {
    std::string host;
    uint16_t port = 0;
    std::string password_file;  // empty: none
    int64_t timeout_seconds = 0;
  };
  // Connected and, with a password, authenticated. The error says what to try.
  static absl::StatusOr<Client> Connect(const Options& options);

  // The reply as text. An error reply becomes a Status with its text, explained where that helps.
  absl::StatusOr<std::string> Call(const std::vector<std::string>& words);

 private:
  using ContextPtr = std::unique_ptr<redisContext, void (*)(redisContext*)>;
  Client(ContextPtr context, std::string address)
      : context_(std::move(context)), address_(std::move(address)) {
  }

  ContextPtr context_;
  std::string address_;
};

}  // namespace kvstored::kvctl
