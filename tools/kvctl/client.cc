#include "kvctl/client.h"

#include <hiredis/hiredis.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace kvstored::kvctl {
namespace {

constexpr int kConnectTimeoutSeconds = 5;

absl::StatusOr<std::string> ReadPassword(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::NotFoundError(
        absl::StrFormat("--password-file %s cannot be read or is empty", path));
  }
  std::string password = text.str();
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
    password.pop_back();
  }
  return password;
}

// What an operator can do about an error reply; empty if its text says it already.
const char* Remedy(const std::string& error) {
  struct Known {
    const char* prefix;
    const char* remedy;
  };
  static constexpr Known kKnown[] = {
      {"NOAUTH", "; give --password-file"},
      {"WRONGPASS", "; the file given with --password-file holds another password"},
      {"LOADING", "; the node recovers or synchronises, `kvctl status` shows how far it is"},
      {"ERR unknown command 'KVSTORED'", "; this is not the front port of a kvstored node"},
  };
  for (const Known& known : kKnown) {
    if (error.rfind(known.prefix, 0) == 0) {
      return known.remedy;
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<Client> Client::Connect(const Options& options) {
  const std::string address = absl::StrFormat("%s:%d", options.host, options.port);
  ContextPtr context(redisConnectWithTimeout(options.host.c_str(), options.port,
                                             timeval{kConnectTimeoutSeconds, 0}),
                     redisFree);
  if (context == nullptr || context->err != 0) {
    return absl::UnavailableError(absl::StrFormat(
        "cannot connect to %s: %s; is the node running, and are --host and --port its front port?",
        address, context == nullptr ? "out of memory" : context->errstr));
  }
  redisSetTimeout(context.get(), timeval{options.timeout_seconds, 0});
  Client client(std::move(context), address);
  if (!options.password_file.empty()) {
    KVS_ASSIGN_OR_RETURN(const std::string password, ReadPassword(options.password_file));
    const absl::StatusOr<std::string> reply = client.Call({"AUTH", password});
    if (!reply.ok()) {
      return reply.status();
    }
  }
  return client;
}

absl::StatusOr<std::string> Client::Call(const std::vector<std::string>& words) {
  std::vector<const char*> arguments;
  std::vector<size_t> sizes;
  for (const std::string& word : words) {
    arguments.push_back(word.data());
    sizes.push_back(word.size());
  }
  std::unique_ptr<void, void (*)(void*)> owner(
      redisCommandArgv(context_.get(), static_cast<int>(words.size()), arguments.data(),
                       sizes.data()),
      freeReplyObject);
  const auto* reply = static_cast<const redisReply*>(owner.get());
  if (reply == nullptr) {
    const bool timed_out = context_->err == REDIS_ERR_IO && errno == EAGAIN;
    return absl::UnavailableError(
        absl::StrFormat("%s: %s; the outcome of the operation is unknown, look with `kvctl status`",
                        address_, timed_out ? "no answer within --timeout" : context_->errstr));
  }
  const std::string text(reply->str == nullptr ? "" : reply->str,
                         reply->str == nullptr ? 0 : reply->len);
  switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      return text;
    case REDIS_REPLY_ERROR:
      return absl::FailedPreconditionError(
          absl::StrFormat("%s: %s%s", address_, text, Remedy(text)));
    default:
      return absl::InternalError(absl::StrFormat(
          "%s: a reply of type %d where text was expected; this is not a kvstored node", address_,
          reply->type));
  }
}

}  // namespace kvstored::kvctl
