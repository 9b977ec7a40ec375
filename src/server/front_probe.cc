#include "server/front_probe.h"

#include <hiredis/hiredis.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"

namespace kvstored::server {

absl::StatusOr<std::string> AskReplicationAddress(const std::string& front_address,
                                                  const std::string& password) {
  const size_t colon = front_address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrFormat("'%s' is not HOST:PORT", front_address));
  }
  const std::string host = front_address.substr(0, colon);
  const int port = std::atoi(front_address.c_str() + colon + 1);
  const timeval timeout{.tv_sec = 2, .tv_usec = 0};
  const std::unique_ptr<redisContext, decltype(&redisFree)> context(
      redisConnectWithTimeout(host.c_str(), port, timeout), &redisFree);
  if (!context || context->err != 0) {
    return absl::UnavailableError(
        absl::StrFormat("%s: %s; REPLICAOF takes the front port of a running kvstored",
                        front_address, std::string(context ? context->errstr : "out of memory")));
  }
  redisSetTimeout(context.get(), timeout);
  const auto call = [&](std::vector<const char*> words) {
    return std::unique_ptr<redisReply, decltype(&freeReplyObject)>(
        static_cast<redisReply*>(
            redisCommandArgv(context.get(), static_cast<int>(words.size()), words.data(), nullptr)),
        &freeReplyObject);
  };
  if (!password.empty()) {
    call({"AUTH", password.c_str()});
  }
  const auto reply = call({"KVSTORED", "status"});
  if (!reply || reply->type != REDIS_REPLY_STRING) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s does not answer as a kvstored: %s", front_address,
        std::string(reply && reply->type == REDIS_REPLY_ERROR ? reply->str : "no answer")));
  }
  const auto json = nlohmann::json::parse(reply->str, reply->str + reply->len, nullptr, false);
  if (!json.is_object() || !json.contains("replication_address")) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: its status names no replication port", front_address));
  }
  const std::string bound = json["replication_address"].get<std::string>();
  // It may be bound to a wildcard address: the host is the one that we reached it by.
  return host + bound.substr(bound.rfind(':'));
}

}  // namespace kvstored::server
