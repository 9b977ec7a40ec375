#include "command/op.h"

#include <cstring>

#include "base/check.h"
#include "command/transaction.h"

namespace kvstored::command {
namespace {

constexpr size_t kKeptBytes = 16 << 10;
constexpr size_t kKeptWords = 64;

void ClearString(std::string* text) {
  text->clear();
  if (text->capacity() > kKeptBytes) {
    text->shrink_to_fit();
  }
}

template <typename T>
void ClearVector(std::vector<T>* items) {
  items->clear();
  if (items->capacity() > kKeptWords) {
    items->shrink_to_fit();
  }
}

}  // namespace

void ArgPack::Assign(std::span<const std::string_view> args, std::span<const Key> keys) {
  size_t bytes = 0;
  for (const std::string_view& arg : args) {
    bytes += arg.size();
  }
  if (bytes > capacity_ || bytes_ == nullptr) {
    capacity_ = bytes < 256 ? 256 : bytes;
    bytes_.reset(new char[capacity_]);
  }
  args_.clear();
  keys_.clear();
  char* to = bytes_.get();
  size_t key = 0;
  for (const std::string_view& arg : args) {
    if (!arg.empty()) {
      std::memcpy(to, arg.data(), arg.size());
    }
    args_.emplace_back(to, arg.size());
    if (key < keys.size() && keys[key].bytes.data() == arg.data() &&
        keys[key].bytes.size() == arg.size()) {
      keys_.push_back({args_.back(), keys[key].digest});
      ++key;
    }
    to += arg.size();
  }
  KVS_CHECK(key == keys.size(), "keys=%zu found=%zu", keys.size(), key);
}

void ArgPack::Clear() {
  if (capacity_ > kKeptBytes) {
    bytes_.reset();
    capacity_ = 0;
  }
  ClearVector(&args_);
  ClearVector(&keys_);
}

Op::Op() = default;
Op::~Op() = default;

void Op::Clear() {
  kind = OpKind::kGroup;
  done = silent = parked = tracked = remote = redirected = false;
  uses = true;
  protocol = 2;
  result = OpResult::kOk;
  shard = 0;
  part = parts_left = gates_left = 0;
  session = nullptr;
  here = nullptr;
  parent = nullptr;
  queue_next = nullptr;
  next = nullptr;
  spec = nullptr;
  queued_us = sum = elapsed_us = 0;
  written = 0;
  pack.Clear();
  ClearString(&reply.bytes);
  reply.externals.clear();
  error.clear();
  ClearVector(&parts);
  ClearVector(&watches);
  run = nullptr;
  value_run = {};
  ClearVector(&gates);
  transaction.reset();
}

}  // namespace kvstored::command
