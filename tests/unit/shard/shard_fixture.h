// A shard without threads: batches are collected, log space and node state are switches.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "memory/region_pool.h"
#include "record/record.h"
#include "shard/shard.h"

namespace kvstored::shard {

class ShardFixture : public testing::Test {
 protected:
  ShardFixture()
      : pool_({.max_bytes = uint64_t{1} << 30, .head_room_bytes = uint64_t{64} << 20}),
        digester_(Id128{{9}}) {
    gate_.role.store(static_cast<uint8_t>(Role::kPrimary));
    gate_.loading.store(false);
    gate_.writable.store(true);
    gate_.epoch.store(1);
    shard_ = MakeShard(&batches_);
    shard_->BeginTick(kStartUs);
  }

  std::unique_ptr<Shard> MakeShard(std::vector<record::BatchRef>* batches) {
    return std::make_unique<Shard>(Shard::Options{
        .id = 0,
        .shard_count = 1,
        .pool = &pool_,
        .digester = &digester_,
        .gate = &gate_,
        .submit = [batches](record::BatchRef batch) { batches->push_back(std::move(batch)); },
        .committed_moved = {},
        .reserve_log =
            [this](uint64_t bytes) {
              log_promised_bytes_ += log_answer_ == OpResult::kOk ? bytes : 0;
              return log_answer_;
            },
        .return_log =
            [this](uint64_t bytes) {
              log_promised_bytes_ -= bytes;
            }});
  }

  Key KeyOf(std::string_view bytes) const {
    return {.bytes = bytes, .digest = digester_.Of(bytes)};
  }
  void Set(std::string_view key, std::string_view value, uint64_t expiry_ms = 0) {
    ASSERT_EQ(shard_->Reserve(1, key.size() + value.size()), OpResult::kOk);
    ASSERT_EQ(shard_->Set(KeyOf(key), value, expiry_ms), OpResult::kOk);
  }
  std::string Get(Shard* shard, std::string_view key) const {
    const store::Item* item = shard->store()->Find(KeyOf(key));
    if (item == nullptr) {
      return "(none)";
    }
    std::string value(item->value_bytes(), '\0');
    item->CopyTo(0, value.data(), value.size());
    return value;
  }
  // What a replica or recovery does with the batches.
  static void Replay(const std::vector<record::BatchRef>& batches, Shard* target) {
    for (const record::BatchRef& batch : batches) {
      target->Receive(batch);
    }
    ASSERT_EQ(target->ApplyReceived(target->appended()), OpResult::kOk);
  }

  static constexpr uint64_t kStartUs = 1'700'000'000'000'000;
  memory::RegionPool pool_;
  base::Digester digester_;
  NodeGate gate_;
  OpResult log_answer_ = OpResult::kOk;
  uint64_t log_promised_bytes_ = 0;  // granted and not given back; what was written stays in it
  std::vector<record::BatchRef> batches_;
  std::unique_ptr<Shard> shard_;
};

}  // namespace kvstored::shard
