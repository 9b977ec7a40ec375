// What a tick tells the log: whether batches were handed over, and whether anybody misses this
// thread while it writes them itself.
#include "shard/shard_thread.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "tests/unit/shard/shard_fixture.h"

namespace kvstored::shard {
namespace {

class TickClock : public Clock {
 public:
  int64_t WallUs() override {
    return now_us;
  }
  int64_t MonotonicUs() override {
    return now_us;
  }
  int64_t now_us = 1'000'000'000;
};

// A connection that always has something to say.
class Speaker : public base::PollTarget {
 public:
  void OnReady(uint32_t /*events*/) override {
    command();
  }
  std::function<void()> command;
};

class ShardThreadTest : public ShardFixture {
 protected:
  ShardThreadTest() : record_clock_(&clock_), threads_(1, 1, &record_clock_) {
    ShardThread* const thread = threads_.thread(0);
    thread->AddShard(std::make_unique<Shard>(
        Shard::Options{.id = 0,
                       .shard_count = 1,
                       .pool = &pool_,
                       .digester = &digester_,
                       .gate = &gate_,
                       .submit = [thread](record::BatchRef) { thread->NoteSubmitted(); },
                       .committed_moved = {},
                       .reserve_log = [](uint64_t) { return OpResult::kOk; },
                       .return_log =
                           [](uint64_t) {
                           }}));
    thread->SetLogRound([this](bool idle) { rounds_.push_back(idle); });
    EXPECT_EQ(::pipe(pipe_), 0);
    EXPECT_EQ(::write(pipe_[1], "x", 1), 1);
    thread->poller()->Add(pipe_[0], EPOLLIN, &speaker_);
  }
  ~ShardThreadTest() override {
    threads_.thread(0)->poller()->Remove(pipe_[0], &speaker_);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  // A SET whose reply waits at the gate.
  void Write() {
    Shard* const shard = threads_.thread(0)->shard(0);
    shard->BeginCommand();
    ASSERT_EQ(shard->Reserve(1, 8), OpResult::kOk);
    ASSERT_EQ(shard->Set(KeyOf("key"), "value", 0), OpResult::kOk);
    gated_.push_back(std::make_unique<Gated>());
    gated_.back()->dependency = shard->applied();
    shard->Gate(gated_.back().get());
  }
  // The log rounds of one tick, 1 ms after the last.
  std::vector<bool> Tick(std::function<void()> command) {
    speaker_.command = std::move(command);
    rounds_.clear();
    clock_.now_us += 1000;
    threads_.thread(0)->Tick(0);
    return rounds_;
  }

  TickClock clock_;
  RecordClock record_clock_;
  ThreadSet threads_;
  Speaker speaker_;
  int pipe_[2] = {-1, -1};
  std::vector<bool> rounds_;
  std::vector<std::unique_ptr<Gated>> gated_;
};

TEST_F(ShardThreadTest, NoRoundWithoutABatch) {
  EXPECT_EQ(Tick([] {}), std::vector<bool>());
}

TEST_F(ShardThreadTest, IdleOnceEverySpeakerHasWaitedForAWhile) {
  const auto write = [this] {
    Write();
  };
  EXPECT_EQ(Tick(write), std::vector<bool>({true})) << "nobody was served yet";
  Tick([] {});  // was served without waiting
  EXPECT_EQ(Tick(write), std::vector<bool>({false}));
  for (int i = 0; i < 9; ++i) {
    Tick(write);
  }
  EXPECT_EQ(Tick(write), std::vector<bool>({true}));
}

}  // namespace
}  // namespace kvstored::shard
