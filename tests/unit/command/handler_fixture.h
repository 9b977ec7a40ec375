// One real shard and a way to run handlers on it as the dispatcher does, without sessions.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "command/command.h"
#include "memory/region_pool.h"
#include "record/record.h"
#include "shard/shard.h"

namespace kvstored::command {

using Words = std::vector<std::string>;

inline uint64_t constexpr kStartUs = 1'700'000'000'000'000;

class HandlerFixture : public testing::Test {
 protected:
  explicit HandlerFixture(uint32_t shard_count = 1)
      : pool_({.max_bytes = uint64_t{1} << 30, .head_room_bytes = kChunkBytes}),
        digester_(Id128{{1, 2, 3}}) {
    gate_.role.store(static_cast<uint8_t>(Role::kPrimary));
    gate_.loading.store(false);
    gate_.writable.store(true);
    gate_.epoch.store(1);
    shard_ = MakeShard(shard_count);
    shard_->BeginTick(now_us_);
  }

  std::unique_ptr<shard::Shard> MakeShard(uint32_t shard_count) {
    return std::make_unique<shard::Shard>(shard::Shard::Options{
        .id = 0,
        .shard_count = shard_count,
        .pool = &pool_,
        .digester = &digester_,
        .gate = &gate_,
        .submit = [this](record::BatchRef batch) { batches_.push_back(std::move(batch)); },
        .committed_moved = {},
        .reserve_log =
            [this](uint64_t) { return disk_full_ ? OpResult::kDiskFull : OpResult::kOk; },
        .return_log =
            [](uint64_t) {
            }});
  }

  // One run of a handler; `key_count` < 0: all arguments after the name are keys. The result of the
  // last run is in result_.
  std::string Run(ShardHandler handler, const Words& words, int key_count = 1, size_t first_key = 1,
                  int protocol = 2) {
    std::vector<std::string_view> args(words.begin(), words.end());
    std::vector<Key> keys;
    const size_t end = key_count < 0 ? args.size() : first_key + static_cast<size_t>(key_count);
    for (size_t i = first_key; i < end; ++i) {
      keys.push_back(KeyOf(args[i]));
    }
    Reply reply;
    resp::Writer writer(&reply.bytes, protocol);
    ShardCall call{.shard = shard_.get(),
                   .args = args,
                   .keys = keys,
                   .reply = &reply,
                   .out = &writer,
                   .run = &run_,
                   .force = false};
    shard_->BeginCommand();
    result_ = handler(call);
    if (result_ != OpResult::kWait) {
      run_ = shard::Run{};
    }
    if (result_ != OpResult::kOk) {
      EXPECT_TRUE(reply.empty()) << reply.bytes;
    }
    return Flatten(reply);
  }

  // Runs until it does not wait, a tick in between.
  std::string RunToEnd(ShardHandler handler, const Words& words) {
    std::string reply = Run(handler, words);
    for (int i = 0; i < 1000 && result_ == OpResult::kWait; ++i) {
      Tick();
      reply = Run(handler, words);
    }
    return reply;
  }

  std::string RunPart(PartHandler handler, const Words& words) {
    std::vector<std::string_view> args(words.begin(), words.end());
    std::string part;
    PartCall call{.shard = shard_.get(), .args = args, .part = &part, .force = false};
    shard_->BeginCommand();
    result_ = handler(call);
    return part;
  }

  static std::string Flatten(const Reply& reply) {
    std::string bytes;
    size_t at = 0;
    for (const Reply::External& external : reply.externals) {
      bytes.append(reply.bytes, at, external.offset - at);
      at = external.offset;
      std::string value(external.chain.size_bytes(), '\0');
      external.chain.CopyTo(0, value.data(), value.size());
      bytes += value;
    }
    return bytes + reply.bytes.substr(at);
  }

  // Everything made so far is committed.
  void Tick(uint64_t advance_us = 0) {
    shard_->Seal();
    shard_->AdvanceCommitted(shard_->applied());
    now_us_ += advance_us;
    shard_->BeginTick(now_us_);
  }

  Key KeyOf(std::string_view bytes) const {
    return {.bytes = bytes, .digest = digester_.Of(bytes)};
  }

  std::optional<std::string> ValueOf(std::string_view key) {
    const store::Item* item = shard_->Find(KeyOf(key));
    if (item == nullptr) {
      return std::nullopt;
    }
    std::string value(item->value_bytes(), '\0');
    item->CopyTo(0, value.data(), value.size());
    return value;
  }

  uint64_t now_ms() const {
    return now_us_ / 1000;
  }

  memory::RegionPool pool_;
  base::Digester digester_;
  shard::NodeGate gate_;
  bool disk_full_ = false;
  uint64_t now_us_ = kStartUs;
  std::vector<record::BatchRef> batches_;
  std::unique_ptr<shard::Shard> shard_;
  shard::Run run_;
  OpResult result_ = OpResult::kOk;
};

}  // namespace kvstored::command
