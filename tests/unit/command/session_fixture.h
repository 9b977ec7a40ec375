// Sessions over real shards on one or two shard threads, all ticked by the test's own thread; a
// connection without a socket; commits when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "command/front_thread.h"
#include "command/session.h"
#include "memory/region_pool.h"
#include "shard/record_clock.h"
#include "shard/shard_thread.h"

namespace kvstored::command {

class ManualClock : public Clock {
 public:
  int64_t WallUs() override {
    return now_us;
  }
  int64_t MonotonicUs() override {
    if (step_us != 0) {
      now_us += step_us;
    }
    return now_us;
  }
  int64_t CoarseUs() override {
    return now_us / coarse_us;
  }
  int64_t step_us = 0;       // what passes between two looks at it
  int64_t coarse_us = 4000;  // how often the kernel's timer ticks
  int64_t now_us = 1'700'000'000'000'000;
};

class FakeNode : public NodeApi {
 public:
  std::string InfoSection(std::string_view /*section*/) override {
    return {};
  }
  std::vector<std::pair<std::string, std::string>> ConfigGet(std::string_view /*name*/) override {
    return {};
  }
  absl::Status ConfigSet(const std::vector<std::pair<std::string, std::string>>&) override {
    return absl::OkStatus();
  }
  void ConfigSet(std::vector<std::pair<std::string, std::string>> pairs,
                 std::function<void(const absl::Status&)> done) override {
    config_sets.emplace_back(std::move(pairs), std::move(done));
  }
  RoleFacts RoleNow() override {
    return {};
  }
  MemoryFacts MemoryNow() override {
    return memory;
  }
  uint32_t ReplicasAt(const std::vector<std::pair<ShardId, Seq>>& positions,
                      bool /*persisted*/) override {
    asked = positions;
    return replicas;
  }
  bool LocallyPersisted(const std::vector<std::pair<ShardId, Seq>>& /*positions*/) override {
    return true;
  }
  void Control(std::vector<std::string> words,
               std::function<void(absl::StatusOr<std::string>)> done) override {
    controls.emplace_back(std::move(words), std::move(done));
  }
  int64_t LastSaveUnixSeconds() override {
    return 0;
  }

  std::vector<std::pair<std::vector<std::pair<std::string, std::string>>,
                        std::function<void(const absl::Status&)>>>
      config_sets;
  uint32_t replicas = 0;
  MemoryFacts memory;
  std::vector<std::pair<ShardId, Seq>> asked;
  std::vector<std::pair<std::vector<std::string>, std::function<void(absl::StatusOr<std::string>)>>>
      controls;
};

// A client: what it sends goes straight into the session's input, what it receives is kept.
class FakeConnection : public net::Connection {
 public:
  explicit FakeConnection(uint32_t number)
      : peer_("10.0.0.1:" + std::to_string(1000 + number)), local_("10.0.0.2:7379") {
  }
  int64_t Send(std::span<const std::string_view> pieces) override {
    int64_t taken = 0;
    for (const std::string_view piece : pieces) {
      const size_t bytes = std::min(piece.size(), window - std::min(window, received.size()));
      received.append(piece.substr(0, bytes));
      taken += static_cast<int64_t>(bytes);
      if (bytes < piece.size()) {
        break;
      }
    }
    return taken;
  }
  void Resume() override {
    if (!input.empty()) {
      Deliver();
    }
  }
  void Close() override {
    closed = true;
    std::exchange(session, nullptr)->OnClosed();
  }
  const std::string& peer() const override {
    return peer_;
  }
  const std::string& local() const override {
    return local_;
  }
  int fd() const override {
    return 7;
  }
  size_t input_bytes() const override {
    return input.size();
  }
  void Deliver() {
    const size_t consumed = session->OnInput({input.data(), input.size()});
    if (session != nullptr) {
      input.erase(0, consumed);
    }
  }
  void Send(std::string_view bytes) {
    input += bytes;
    Deliver();
  }
  // What came since the last call.
  std::string Take() {
    return std::exchange(received, {});
  }

  Session* session = nullptr;
  std::string input;
  std::string received;
  size_t window = SIZE_MAX;  // bytes that `received` may hold: a client that does not read
  bool closed = false;

 private:
  std::string peer_;
  std::string local_;
};

using Words = std::vector<std::string>;

inline std::string Encode(const Words& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return bytes;
}

class SessionFixture : public testing::Test {
 protected:
  explicit SessionFixture(uint32_t thread_count = 1, uint32_t shard_count = 4)
      : pool_({.max_bytes = uint64_t{1} << 30, .head_room_bytes = kChunkBytes}),
        digester_(Id128{{1, 2, 3}}),
        record_clock_(&clock_),
        threads_(thread_count, shard_count, &record_clock_) {
    gate_.role.store(static_cast<uint8_t>(Role::kPrimary));
    gate_.loading.store(false);
    gate_.writable.store(true);
    gate_.epoch.store(1);
    for (uint32_t i = 0; i < shard_count; ++i) {
      threads_.thread(threads_.OwnerOf(static_cast<ShardId>(i)))
          ->AddShard(std::make_unique<shard::Shard>(shard::Shard::Options{
              .id = static_cast<ShardId>(i),
              .shard_count = shard_count,
              .pool = &pool_,
              .digester = &digester_,
              .gate = &gate_,
              .submit = [](const record::BatchRef&) {},
              .committed_moved = {},
              .reserve_log =
                  [this](uint64_t bytes) {
                    return !disk_full_ && TakeLog(bytes) ? OpResult::kOk : OpResult::kDiskFull;
                  },
              .return_log =
                  [this](uint64_t bytes) {
                    log_left_bytes_ += bytes;
                  }}));
    }
    safe_.resize(shard_count, UINT64_MAX);
    for (uint32_t i = 0; i < thread_count; ++i) {
      threads_.thread(i)->SetSafeSource([this](ShardId shard) { return safe_[shard]; });
    }
    set_ = std::make_unique<FrontSet>(FrontSet::Options{.threads = &threads_,
                                                        .pool = &pool_,
                                                        .digester = &digester_,
                                                        .gate = &gate_,
                                                        .node = &node_,
                                                        .clock = &clock_});
    Tick();
  }
  ~SessionFixture() override {
    for (auto& client : clients_) {
      if (client->session != nullptr) {
        client->Close();
      }
    }
    Commit(true);
    Settle();
    set_.reset();
  }

  FakeConnection* Connect(uint32_t thread = 0) {
    clients_.push_back(std::make_unique<FakeConnection>(static_cast<uint32_t>(clients_.size())));
    FakeConnection* client = clients_.back().get();
    client->session = set_->thread(thread).AddSession();
    client->session->Attach(client);
    return client;
  }
  void Tick() {
    for (uint32_t i = 0; i < threads_.thread_count(); ++i) {
      threads_.thread(i)->Tick(0);
    }
  }
  // Ticks until everything under way has come to rest.
  void Settle() {
    for (int i = 0; i < 30; ++i) {
      clock_.now_us += 11'000;  // parked commands are tried again every 10 ms
      Tick();
    }
  }
  // Whether what was written counts as safe from now on.
  void Commit(bool commit) {
    for (uint32_t i = 0; i < safe_.size(); ++i) {
      safe_[i] = commit ? UINT64_MAX : shard(static_cast<ShardId>(i))->committed();
    }
  }
  std::string Ask(FakeConnection* client, const Words& words) {
    client->Send(Encode(words));
    Settle();
    return client->Take();
  }
  bool TakeLog(uint64_t bytes) {
    if (log_left_bytes_.fetch_sub(bytes) >= bytes) {
      return true;
    }
    log_left_bytes_ += bytes;
    return false;
  }
  shard::Shard* shard(ShardId id) {
    return threads_.shard(id);
  }
  ShardId ShardOf(std::string_view key) const {
    return base::ShardOf(digester_.Of(key), threads_.shard_count());
  }
  // The n-th key of a shard.
  std::string KeyOn(ShardId wanted, int n = 0) const {
    for (int i = 0;; ++i) {
      const std::string key = "key" + std::to_string(i);
      if (ShardOf(key) == wanted && n-- == 0) {
        return key;
      }
    }
  }

  ManualClock clock_;
  memory::RegionPool pool_;
  base::Digester digester_;
  shard::RecordClock record_clock_;
  shard::NodeGate gate_;
  bool disk_full_ = false;
  std::atomic<uint64_t> log_left_bytes_{uint64_t{1} << 60};
  std::vector<Seq> safe_;
  shard::ThreadSet threads_;
  FakeNode node_;
  std::unique_ptr<FrontSet> set_;
  std::vector<std::unique_ptr<FakeConnection>> clients_;
};

}  // namespace kvstored::command
