#include "server/control_request.h"

#include "absl/strings/str_format.h"
#include "command/numbers.h"
#include "kvstored/limits.h"
#include "server/config_text.h"

namespace kvstored::server {
namespace {

using Verb = ControlRequest::Verb;

// The words behind the verb, taken one by one.
class Words {
 public:
  explicit Words(const std::vector<std::string>& words) : words_(words) {
  }
  bool Empty() const {
    return next_ == words_.size();
  }
  std::string Next() {
    return Empty() ? "" : words_[next_++];
  }
  bool Take(const char* word) {
    if (Empty() || !command::EqualsIgnoreCase(words_[next_], word)) {
      return false;
    }
    ++next_;
    return true;
  }

 private:
  const std::vector<std::string>& words_;
  size_t next_ = 0;
};

absl::Status Usage(const char* usage) {
  return absl::InvalidArgumentError(absl::StrFormat("usage: KVSTORED %s", usage));
}

absl::StatusOr<ControlRequest> ParsePromote(Words words) {
  ControlRequest request;
  request.verb = Verb::kPromote;
  while (!words.Empty()) {
    uint64_t count = 0;
    if (words.Take("accept-loss")) {
      request.accept_loss = true;
    } else if (words.Take("ack-replicas") && ParseCount(words.Next(), &count) &&
               count <= kReplicaCountMax) {
      request.ack_replicas = static_cast<uint32_t>(count);
    } else {
      return absl::InvalidArgumentError(absl::StrFormat(
          "usage: KVSTORED promote [ack-replicas 0..%d] [accept-loss]", kReplicaCountMax));
    }
  }
  return request;
}

absl::StatusOr<ControlRequest> ParseMember(Words words) {
  ControlRequest request;
  bool good = true;
  if (words.Take("list")) {
    request.verb = Verb::kMemberList;
  } else if (words.Take("replace")) {
    request.verb = Verb::kMemberReplace;
    request.member = words.Next();
    request.new_member = words.Next();
    request.force = words.Take("force");
    good = !request.member.empty() && !request.new_member.empty();
  } else if (words.Take("drop")) {
    request.verb = Verb::kMemberDrop;
    request.member = words.Next();
    request.force = words.Take("force");
    good = !request.member.empty();
  } else {
    good = false;
  }
  if (!good || !words.Empty()) {
    return Usage(
        "member list | member replace MEMBER NEW-MEMBER [force] | member drop MEMBER [force]");
  }
  return request;
}

absl::StatusOr<ControlRequest> ParseJoin(Words words) {
  ControlRequest request;
  request.verb = Verb::kJoin;
  request.address = words.Next();
  request.discard_local_data = words.Take("discard-local-data");
  if (!IsHostAndPort(request.address) || !words.Empty()) {
    return Usage("join HOST:PORT [discard-local-data]");
  }
  return request;
}

absl::StatusOr<ControlRequest> ParseDemote(Words words) {
  ControlRequest request;
  request.verb = Verb::kDemote;
  request.address = words.Next();
  if ((!request.address.empty() && !IsHostAndPort(request.address)) || !words.Empty()) {
    return Usage("demote [HOST:PORT]");
  }
  return request;
}

absl::StatusOr<ControlRequest> ParseReplicaOf(Words words) {
  ControlRequest request;
  request.verb = Verb::kReplicaOf;
  const std::string host = words.Next();
  request.address = host + ":" + words.Next();
  if (!IsHostAndPort(request.address) || !words.Empty()) {
    return Usage("replicaof HOST PORT");
  }
  return request;
}

absl::StatusOr<ControlRequest> ParseShutdown(Words words) {
  ControlRequest request;
  request.verb = Verb::kShutdown;
  request.nosave = words.Take("nosave");
  if (!request.nosave) {
    words.Take("save");
  }
  if (!words.Empty()) {
    return Usage("shutdown [save|nosave]");
  }
  return request;
}

absl::StatusOr<ControlRequest> ParseBare(Verb verb, Words words, const char* usage) {
  ControlRequest request;
  request.verb = verb;
  if (!words.Empty()) {
    return Usage(usage);
  }
  return request;
}

}  // namespace

absl::StatusOr<ControlRequest> ParseControl(const std::vector<std::string>& words) {
  Words rest(words);
  if (rest.Take("status")) {
    return ParseBare(Verb::kStatus, rest, "status");
  }
  if (rest.Take("checkpoint")) {
    return ParseBare(Verb::kCheckpoint, rest, "checkpoint");
  }
  if (rest.Take("promote")) {
    return ParsePromote(rest);
  }
  if (rest.Take("demote")) {
    return ParseDemote(rest);
  }
  if (rest.Take("member")) {
    return ParseMember(rest);
  }
  if (rest.Take("join")) {
    return ParseJoin(rest);
  }
  if (rest.Take("save")) {
    return ParseBare(Verb::kSave, rest, "save");
  }
  if (rest.Take("bgsave")) {
    return ParseBare(Verb::kBgSave, rest, "bgsave");
  }
  if (rest.Take("replicaof")) {
    return ParseReplicaOf(rest);
  }
  if (rest.Take("shutdown")) {
    return ParseShutdown(rest);
  }
  return Usage("status | checkpoint | promote | demote | member | join");
}

std::vector<std::string> ControlWords(const ControlRequest& request) {
  switch (request.verb) {
    case Verb::kStatus:
      return {"status"};
    case Verb::kCheckpoint:
      return {"checkpoint"};
    case Verb::kPromote: {
      std::vector<std::string> words = {"promote"};
      if (request.ack_replicas.has_value()) {
        words.insert(words.end(), {"ack-replicas", std::to_string(*request.ack_replicas)});
      }
      if (request.accept_loss) {
        words.emplace_back("accept-loss");
      }
      return words;
    }
    case Verb::kDemote:
      return request.address.empty() ? std::vector<std::string>{"demote"}
                                     : std::vector<std::string>{"demote", request.address};
    case Verb::kMemberList:
      return {"member", "list"};
    case Verb::kMemberReplace:
    case Verb::kMemberDrop: {
      const bool replace = request.verb == Verb::kMemberReplace;
      std::vector<std::string> words = {"member", replace ? "replace" : "drop", request.member};
      if (replace) {
        words.push_back(request.new_member);
      }
      if (request.force) {
        words.emplace_back("force");
      }
      return words;
    }
    case Verb::kJoin: {
      std::vector<std::string> words = {"join", request.address};
      if (request.discard_local_data) {
        words.emplace_back("discard-local-data");
      }
      return words;
    }
    case Verb::kReplicaOf: {
      const size_t colon = request.address.rfind(':');
      return {"replicaof", request.address.substr(0, colon), request.address.substr(colon + 1)};
    }
    case Verb::kSave:
      return {"save"};
    case Verb::kBgSave:
      return {"bgsave"};
    case Verb::kShutdown:
      return request.nosave ? std::vector<std::string>{"shutdown", "nosave"}
                            : std::vector<std::string>{"shutdown"};
  }
  return {};
}

}  // namespace kvstored::server
