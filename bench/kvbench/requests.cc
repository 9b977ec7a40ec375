#include "kvbench/requests.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>

#include "fmt/format.h"

namespace kvstored::bench {
namespace {

std::string RespCommand(std::initializer_list<std::string_view> words) {
  std::string text = fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) {
    text += fmt::format("${}\r\n{}\r\n", word.size(), word);
  }
  return text;
}

}  // namespace

Requests::Requests(const Options& options)
    : dialect_(options.dialect), key_text_(options.key_bytes) {
  if (dialect_ == Dialect::kMemcached) {
    get_head_ = "get ";
    get_tail_ = "\r\n";
    set_head_ = "set ";
    set_tail_ = " 0 0 ";
    return;
  }
  get_head_ = fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n", options.key_bytes);
  get_tail_ = "\r\n";
  set_head_ = fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n", options.key_bytes);
  set_tail_ = "\r\n$";
  wait_ =
      RespCommand({"WAIT", std::to_string(options.wait_replicas), std::to_string(options.wait_ms)});
  if (!options.password.empty()) {
    greeting_ += RespCommand({"AUTH", options.password});
    ++greeting_replies_;
  }
  if (dialect_ == Dialect::kResp3) {
    greeting_ += RespCommand({"HELLO", "3"});
    ++greeting_replies_;
  }
}

void Requests::AppendKey(const std::string& head, uint64_t key, const std::string& tail,
                         Outbox* out) const {
  char* at = out->Extend(head.size() + key_text_.bytes() + tail.size());
  at = std::copy(head.begin(), head.end(), at);
  key_text_.Write(key, at);
  std::copy(tail.begin(), tail.end(), at + key_text_.bytes());
}

void Requests::Get(uint64_t key, Outbox* out) const {
  AppendKey(get_head_, key, get_tail_, out);
}

void Requests::Set(const Operation& operation, Outbox* out) const {
  AppendKey(set_head_, operation.key, set_tail_, out);
  char length[16];
  char* const end = std::to_chars(length, length + sizeof(length), operation.value_bytes).ptr;
  *end = '\r';
  *(end + 1) = '\n';
  out->Append({length, static_cast<size_t>(end + 2 - length)});
  out->AppendValue({operation.value, operation.value_bytes});
  out->Append("\r\n");
}

}  // namespace kvstored::bench
