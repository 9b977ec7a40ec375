// The steady state takes nothing from operator new: this test program counts its calls. Not under
// sanitizers, whose own operator new finds more than a count would.
#include <gtest/gtest.h>

#if !defined(KVS_DEBUG_CHECKS)

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/unit/command/session_fixture.h"

namespace {
std::atomic<uint64_t> allocation_count{0};

void* Counted(size_t bytes) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    std::abort();
  }
  return memory;
}
}  // namespace

void* operator new(size_t bytes) {
  return Counted(bytes);
}
void* operator new[](size_t bytes) {
  return Counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace kvstored::command {
namespace {

constexpr int kKeys = 64;
constexpr int kRounds = 500;

class AllocationTest : public SessionFixture {
 protected:
  AllocationTest() : SessionFixture(1, 1) {
    client_ = Connect();
    client_->received.reserve(1 << 20);
    client_->input.reserve(1 << 20);
  }
  static Words Set(int i) {
    return {"SET", "key:" + std::to_string(i), std::string(100, static_cast<char>('a' + i % 26))};
  }
  static Words Get(int i) {
    return {"GET", "key:" + std::to_string(i)};
  }
  // One client's commands, `depth` a tick; operator new calls a round once warm, at most.
  template <typename Command>
  uint64_t AllocationsOf(int depth, Command command) {
    std::vector<std::string> inputs;
    for (int i = 0; i < kKeys; i += depth) {
      std::string& input = inputs.emplace_back();
      for (int k = 0; k < depth; ++k) {
        input += Encode(command((i + k) % kKeys));
      }
    }
    uint64_t most = 0;
    for (int round = 0; round < 2 * kRounds; ++round) {
      const uint64_t before = allocation_count.load();
      client_->received.clear();
      client_->Send(inputs[static_cast<size_t>(round) % inputs.size()]);
      Tick();
      EXPECT_FALSE(client_->received.empty());
      if (round >= kRounds) {
        most = std::max(most, allocation_count.load() - before);
      }
    }
    return most;
  }

  FakeConnection* client_;
};

TEST_F(AllocationTest, ItemsNeverComeFromOperatorNew) {
  store::Store* store = shard(0)->store();
  std::vector<std::string> names;
  std::vector<Key> keys;
  for (int i = 0; i < kKeys; ++i) {
    names.push_back("key:" + std::to_string(i));
  }
  for (const std::string& name : names) {
    keys.push_back({name, digester_.Of(name)});
  }
  const std::string value(100, 'x');
  const std::string large(300'000, 'y');
  Seq seq = 1;
  const auto work = [&] {
    for (int round = 0; round < 100; ++round) {
      for (const Key& key : keys) {
        ASSERT_EQ(store->Put(key, value, round % 2 == 0 ? 0 : UINT64_MAX, ++seq), OpResult::kOk);
        ASSERT_NE(store->Find(key), nullptr);
        ASSERT_EQ(store->Append(key, value, ++seq), OpResult::kOk);
        ASSERT_EQ(store->SetExpiry(key, 0, ++seq), OpResult::kOk);
      }
      ASSERT_EQ(store->Put(keys[0], large, 0, ++seq), OpResult::kOk);
      ASSERT_EQ(store->SetRange(keys[0], 1000, value, ++seq), OpResult::kOk);
      ASSERT_TRUE(store->Erase(keys[1]));
      while (store->Tick(0)) {
      }
    }
  };
  work();  // the pool's lists make room for the chunks that they may get back
  const uint64_t before = allocation_count.load();
  work();
  EXPECT_EQ(allocation_count.load(), before);
}

TEST_F(AllocationTest, GetTakesNothing) {
  AllocationsOf(1, &Set);
  EXPECT_EQ(AllocationsOf(1, &Get), 0u);
  EXPECT_EQ(AllocationsOf(32, &Get), 0u);
}

// What remains belongs to the tick, not to the operation: the batch that log and replication share
// (object and bytes, which double as it grows) and the queue of sealed batches' sizes.
TEST_F(AllocationTest, SetTakesTheBatchOfItsTick) {
  AllocationsOf(32, &Set);
  const uint64_t one = AllocationsOf(1, &Set);
  const uint64_t many = AllocationsOf(32, &Set);
  RecordProperty("allocations_of_a_tick_with_1", static_cast<int>(one));
  RecordProperty("allocations_of_a_tick_with_32", static_cast<int>(many));
  EXPECT_LE(one, 4u);
  EXPECT_LE(many, 10u) << "of 32 operations";
}

// The gate's groups and ops come from a pool.
TEST_F(AllocationTest, WaitingForTheCommitTakesNothingMore) {
  const auto gated = [this](int depth) {
    std::string input;
    for (int k = 0; k < depth; ++k) {
      input += Encode(Set(k));
    }
    uint64_t most = 0;
    for (int round = 0; round < 2 * kRounds; ++round) {
      const uint64_t before = allocation_count.load();
      client_->received.clear();
      Commit(false);
      client_->Send(input);
      Tick();
      EXPECT_TRUE(client_->received.empty());
      Commit(true);
      Tick();
      EXPECT_FALSE(client_->received.empty());
      if (round >= kRounds) {
        most = std::max(most, allocation_count.load() - before);
      }
    }
    return most;
  };
  EXPECT_LE(gated(1), 4u);
  EXPECT_LE(gated(32), 10u);
}

}  // namespace
}  // namespace kvstored::command

#endif
