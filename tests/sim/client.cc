#include "tests/sim/client.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvstored::sim {
namespace {

using Kind = Request::Kind;

constexpr uint64_t kRegisterCount = 5;
constexpr uint64_t kGroupCount = 3;
constexpr uint64_t kListCount = 3;
constexpr uint64_t kCounterCount = 2;
constexpr uint64_t kGroupKeyCount = 4;
constexpr int64_t kPatienceUs = 4'000'000;

bool IsRefusal(const std::string& text) {
  static const std::array<const char*, 6> kRefusals = {"NOREPLICAS", "READONLY", "LOADING",
                                                       "MISCONF",    "OOM",      "EXECABORT"};
  return std::any_of(kRefusals.begin(), kRefusals.end(),
                     [&](const char* refusal) { return text.rfind(refusal, 0) == 0; });
}

}  // namespace

std::vector<std::string> GroupKeys(const std::string& group) {
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kGroupKeyCount; ++i) {
    keys.push_back(group + ".k" + std::to_string(i));
  }
  return keys;
}

Client::Client(Cluster* cluster, History* history, uint64_t seed, std::string name)
    : cluster_(cluster),
      history_(history),
      random_(seed),
      name_(std::move(name)),
      think_us_max_(random_.Chance(0.2) ? 0 : 5'000 << random_.Below(4)) {
}

std::string Client::FreshToken() {
  return name_ + "." + std::to_string(++token_count_);
}

// token ':' size ':' filler, so that a read proves every byte.
std::string Client::ValueOf(const std::string& token) {
  const uint64_t dice = random_.Below(100);
  const uint64_t size = dice < 80   ? random_.Below(64)
                        : dice < 95 ? random_.Below(8'000)
                        : dice < 98 ? random_.Below(60'000)
                                    : 66'000 + random_.Below(60'000);
  std::string value = token + ":" + std::to_string(size) + ":";
  const size_t head = value.size();
  value.resize(head + size);
  for (size_t i = 0; i < size; ++i) {
    value[head + i] = static_cast<char>('a' + (i * 7 + token.size() + size) % 26);
  }
  return value;
}

bool Client::TokenOf(const std::string& value, std::string* token) {
  const size_t first = value.find(':');
  const size_t second = first == std::string::npos ? first : value.find(':', first + 1);
  if (second == std::string::npos) {
    return false;
  }
  *token = value.substr(0, first);
  const uint64_t size = std::strtoull(value.c_str() + first + 1, nullptr, 10);
  bool good = value.size() == second + 1 + size;
  for (size_t i = 0; good && i < size; ++i) {
    good = value[second + 1 + i] == static_cast<char>('a' + (i * 7 + token->size() + size) % 26);
  }
  return good;
}

bool Client::Connected() {
  if (connection_ && connection_->closed()) {
    Disconnect();
  }
  if (connection_) {
    return true;
  }
  if (cluster_->clock().now_us() < not_before_us_) {
    return false;
  }
  any_node_ = random_.Chance(0.15);
  node_ = any_node_ ? static_cast<uint32_t>(random_.Below(cluster_->node_count()))
                    : cluster_->BelievedPrimary();
  life_ = cluster_->node(node_).life;
  connection_ = cluster_->Connect(node_);
  read_bytes_ = 0;
  last_reply_us_ = cluster_->clock().now_us();
  if (!connection_) {
    not_before_us_ = cluster_->clock().now_us() + random_.Between(1'000, 60'000);
  }
  return connection_ != nullptr;
}

// What had no reply may have happened or not.
void Client::Disconnect() {
  TakeReplies();
  for (const Request& request : pending_) {
    EndWrites(request, Outcome::kUnknown, 0);
  }
  pending_.clear();
  connection_->HangUp();
  connection_ = nullptr;
  not_before_us_ = cluster_->clock().now_us() + random_.Between(0, 30'000);
}

void Client::GiveUp() {
  if (connection_) {
    Disconnect();
  }
}

void Client::Step(bool may_send) {
  if (!Connected()) {
    return;
  }
  TakeReplies();
  if (!pending_.empty() && cluster_->clock().now_us() - last_reply_us_ > kPatienceUs) {
    Disconnect();
    return;
  }
  if (pending_.empty() && node_ != cluster_->BelievedPrimary() && !any_node_) {
    Disconnect();
    return;
  }
  if (may_send && pending_.empty()) {
    if (random_.Chance(any_node_ ? 0.2 : 0.01)) {
      Disconnect();  // also: hang up and begin anew, perhaps elsewhere
    } else if (cluster_->clock().now_us() >= not_before_us_) {
      SendSome();
    }
  }
}

void Client::SendSome() {
  const uint64_t depth = random_.Chance(0.4) ? 1 + random_.Below(8) : 1;
  for (uint64_t i = 0; i < depth; ++i) {
    Send(MakeRequest());
  }
  last_reply_us_ = cluster_->clock().now_us();
  not_before_us_ = last_reply_us_ + random_.Between(0, think_us_max_);
}

Request Client::MakeRequest() {
  static constexpr std::array<Kind, 20> kMix = {
      Kind::kSet,       Kind::kSet,       Kind::kSet,         Kind::kGet,      Kind::kGet,
      Kind::kRemove,    Kind::kAppend,    Kind::kAppend,      Kind::kAppend,   Kind::kGetList,
      Kind::kIncrement, Kind::kIncrement, Kind::kGetCounter,  Kind::kGroupSet, Kind::kGroupSet,
      Kind::kGroupGet,  Kind::kGroupGet,  Kind::kTransaction, Kind::kExpiring, Kind::kGetExpiring};
  Request request;
  request.kind = kMix[random_.Below(kMix.size())];
  switch (request.kind) {
    case Kind::kSet:
    case Kind::kGet:
    case Kind::kRemove:
      request.name = "r" + std::to_string(random_.Below(kRegisterCount));
      break;
    case Kind::kAppend:
    case Kind::kGetList:
      request.name = "l" + std::to_string(random_.Below(kListCount));
      break;
    case Kind::kIncrement:
    case Kind::kGetCounter:
      request.name = "n" + std::to_string(random_.Below(kCounterCount));
      break;
    case Kind::kGroupSet:
    case Kind::kGroupGet:
    case Kind::kTransaction:
      request.name = "g" + std::to_string(random_.Below(kGroupCount));
      request.list = "l" + std::to_string(random_.Below(kListCount));
      break;
    case Kind::kExpiring:
    case Kind::kGetExpiring:
      request.name = "t" + std::to_string(random_.Below(2));
      break;
  }
  return request;
}

void Client::Send(Request request) {
  ++request_count_;
  const uint64_t now = history_->Now();
  request.begin = now;
  request.fresh = cluster_->IsCurrent(node_);
  const std::string token = FreshToken();
  request.value = token;
  std::string bytes;
  const auto add = [&bytes](std::vector<std::string> words) {
    bytes += EncodeCommand(words);
  };
  switch (request.kind) {
    case Kind::kSet:
      request.write = history_->BeginWrite(request.name, token, now);
      add({"SET", request.name, ValueOf(token)});
      break;
    case Kind::kExpiring:
      request.write = history_->BeginWrite(request.name, token, now);
      add({"SET", request.name, ValueOf(token), "PX", std::to_string(1 + random_.Below(500))});
      break;
    case Kind::kRemove:
      request.write = history_->BeginRemove(request.name, now);
      add({"DEL", request.name});
      break;
    case Kind::kAppend:
      request.append = history_->BeginAppend(request.name, token + ";", now);
      add({"APPEND", request.name, token + ";"});
      break;
    case Kind::kIncrement:
      request.write = history_->BeginIncrement(request.name, now);
      add({"INCR", request.name});
      break;
    case Kind::kGroupSet: {
      request.write = history_->BeginWrite(request.name, token, now);
      std::vector<std::string> words = {"MSET"};
      for (const std::string& key : GroupKeys(request.name)) {
        words.insert(words.end(), {key, ValueOf(token)});
      }
      add(words);
      break;
    }
    case Kind::kTransaction:
      request.write = history_->BeginWrite(request.name, token, now);
      request.append = history_->BeginAppend(request.list, token + ";", now);
      add({"MULTI"});
      for (const std::string& key : GroupKeys(request.name)) {
        add({"SET", key, ValueOf(token)});
      }
      add({"APPEND", request.list, token + ";"});
      add({"EXEC"});
      request.replies_left = kGroupKeyCount + 3;
      break;
    case Kind::kGroupGet: {
      std::vector<std::string> words = GroupKeys(request.name);
      words.insert(words.begin(), "MGET");
      add(words);
      break;
    }
    case Kind::kGet:
    case Kind::kGetList:
    case Kind::kGetCounter:
    case Kind::kGetExpiring:
      add({"GET", request.name});
      break;
  }
  connection_->Write(bytes);
  pending_.push_back(std::move(request));
}

void Client::TakeReplies() {
  std::string& received = connection_->received();
  SimReply reply;
  while (read_bytes_ < received.size() && ParseReply(received, &read_bytes_, &reply)) {
    last_reply_us_ = cluster_->clock().now_us();
    if (pending_.empty()) {
      history_->Fail(name_ + ": a reply that nobody asked for: " + reply.type + reply.text);
      return;
    }
    Request& request = pending_.front();
    if (--request.replies_left == 0) {
      const Request done = std::move(request);
      pending_.pop_front();
      Finish(done, reply);
    }
    reply = {};
  }
  received.erase(0, std::exchange(read_bytes_, 0));
}

Outcome Client::OutcomeOf(const Request& request, const SimReply& reply) {
  if (reply.type != '-') {
    return Outcome::kDone;
  }
  if (!IsRefusal(reply.text)) {
    history_->Fail(name_ + ": " + request.name + " answered '" + reply.text + "'");
  }
  cluster_->Count("refused_" + reply.text.substr(0, reply.text.find(' ')));
  not_before_us_ = cluster_->clock().now_us() + random_.Between(2'000, 60'000);
  return Outcome::kRefused;
}

void Client::EndWrites(const Request& request, Outcome outcome, int64_t number) {
  const uint64_t now = history_->Now();
  switch (request.kind) {
    case Kind::kIncrement:
      history_->EndIncrement(request.write, outcome, number, now);
      break;
    case Kind::kAppend:
      history_->EndAppend(request.append, outcome, now);
      break;
    case Kind::kTransaction:
      history_->EndWrite(request.write, outcome, now);
      history_->EndAppend(request.append, outcome, now);
      break;
    case Kind::kSet:
    case Kind::kExpiring:
    case Kind::kRemove:
    case Kind::kGroupSet:
      history_->EndWrite(request.write, outcome, now);
      break;
    case Kind::kGet:
    case Kind::kGetList:
    case Kind::kGetCounter:
    case Kind::kGroupGet:
    case Kind::kGetExpiring:
      break;
  }
}

void Client::Finish(const Request& request, const SimReply& reply) {
  const Outcome outcome = OutcomeOf(request, reply);
  if (request.kind == Kind::kTransaction && outcome == Outcome::kDone) {
    for (const SimReply& item : reply.items) {
      if (item.type == '-') {
        history_->Fail(name_ + ": a part of a transaction answered '" + item.text + "'");
      }
    }
    if (reply.items.size() != kGroupKeyCount + 1) {
      history_->Fail(name_ + ": EXEC answered " + std::to_string(reply.items.size()) + " parts");
    }
  }
  EndWrites(request, outcome, reply.number);
  if (outcome == Outcome::kDone) {
    FinishRead(request, reply);
  }
}

void Client::FinishRead(const Request& request, const SimReply& reply) {
  const uint64_t now = history_->Now();
  const bool fresh =
      request.fresh && cluster_->IsCurrent(node_) && cluster_->node(node_).life == life_;
  switch (request.kind) {
    case Kind::kGet:
    case Kind::kGetExpiring: {
      std::string token;
      if (reply.type == '$' && !TokenOf(reply.text, &token)) {
        history_->Fail("register " + request.name + ": damaged value " + reply.text.substr(0, 60));
      }
      history_->Read(request.name, token, request.begin, now, fresh && request.kind == Kind::kGet);
      break;
    }
    case Kind::kGetList:
      history_->ReadList(
          request.name, reply.text, request.begin, now, fresh,
          name_ + " at " + cluster_->node(node_).name + " life " + std::to_string(life_));
      break;
    case Kind::kGetCounter:
      history_->ReadCounter(request.name, std::strtoll(reply.text.c_str(), nullptr, 10),
                            request.begin, now, fresh);
      break;
    case Kind::kGroupGet: {
      std::string first;
      for (size_t i = 0; i < reply.items.size(); ++i) {
        std::string token;
        if (reply.items[i].type == '$' && !TokenOf(reply.items[i].text, &token)) {
          history_->Fail("group " + request.name + ": damaged value");
        }
        first = i == 0 ? token : first;
        if (token != first && fresh) {
          history_->Fail("group " + request.name + ": half a transaction: '" + first + "' and '" +
                         token + "' at " + std::to_string(now));
        }
      }
      if (fresh) {
        history_->Read(request.name, first, request.begin, now, true);
      }
      break;
    }
    default:
      break;
  }
}

void Client::ReadAll() {
  const auto read = [this](Kind kind, const char* prefix, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      Request request;
      request.kind = kind;
      request.name = prefix + std::to_string(i);
      Send(request);
    }
  };
  if (!Connected()) {
    return;
  }
  read(Kind::kGet, "r", kRegisterCount);
  read(Kind::kGetList, "l", kListCount);
  read(Kind::kGetCounter, "n", kCounterCount);
  read(Kind::kGroupGet, "g", kGroupCount);
}

}  // namespace kvstored::sim
