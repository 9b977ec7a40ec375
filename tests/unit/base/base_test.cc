#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "base/digest.h"
#include "base/distinct_estimate.h"
#include "base/endian.h"
#include "base/event.h"
#include "base/poller.h"
#include "base/random.h"
#include "base/spsc_ring.h"

namespace kvstored::base {
namespace {

// Bit by bit, straight from the polynomial.
uint32_t SlowCrc32c(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    }
  }
  return ~crc;
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(Crc32c(0, "123456789", 9), 0xe3069283U);
  EXPECT_EQ(Crc32c(0, "", 0), 0U);
  const std::string zeros(32, '\0');  // RFC 3720 B.4
  EXPECT_EQ(Crc32c(0, zeros.data(), zeros.size()), 0x8a9136aaU);
}

TEST(Crc32c, EveryLengthAgreesWithTheBitwiseOne) {
  Random random(1);
  std::string bytes;
  for (size_t size = 0; size < 2500; size += size < 40 ? 1 : 61) {
    while (bytes.size() < size) {
      bytes += static_cast<char>(random.Next());
    }
    EXPECT_EQ(Crc32c(0, bytes.data(), size), SlowCrc32c(bytes.substr(0, size))) << size;
  }
}

TEST(Crc32c, ExtendsOverPieces) {
  Random random(2);
  std::string bytes(4000, '\0');
  for (char& c : bytes) {
    c = static_cast<char>(random.Next());
  }
  const uint32_t whole = Crc32c(0, bytes.data(), bytes.size());
  for (const size_t cut : std::initializer_list<size_t>{0, 1, 7, 768, 1000, 3999, 4000}) {
    const uint32_t first = Crc32c(0, bytes.data(), cut);
    EXPECT_EQ(Crc32c(first, bytes.data() + cut, bytes.size() - cut), whole) << cut;
  }
}

TEST(Crc32c, AroundCountsTheFieldAsZero) {
  std::string bytes = "the checksum of a header that holds it";
  for (const size_t offset : std::initializer_list<size_t>{0, 12, bytes.size() - 4}) {
    std::string zeroed = bytes;
    zeroed.replace(offset, 4, std::string(4, '\0'));
    EXPECT_EQ(Crc32cAround(bytes.data(), bytes.size(), offset), SlowCrc32c(zeroed)) << offset;
  }
}

TEST(Endian, RoundTripAndOrder) {
  uint8_t bytes[8];
  StoreBe64(bytes, 0x0102030405060708);
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[7], 8);
  EXPECT_EQ(LoadBe64(bytes), 0x0102030405060708U);
  EXPECT_EQ(LoadBe32(bytes), 0x01020304U);
  EXPECT_EQ(LoadBe16(bytes + 6), 0x0708);
}

TEST(DigesterTest, SeedDecidesAndShardsAreEven) {
  const Digester one(Id128{{1}});
  const Digester two(Id128{{2}});
  EXPECT_EQ(one.Of("key"), Digester(Id128{{1}}).Of("key"));
  EXPECT_FALSE(one.Of("key") == two.Of("key"));
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 7000; ++i) {
    ++counts[ShardOf(one.Of("key" + std::to_string(i)), 7)];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 1000, 200);
  }
}

TEST(SpscRingTest, FullAndEmpty) {
  SpscRing<int> ring(4);
  int value = 0;
  EXPECT_FALSE(ring.TryPop(&value));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(ring.TryPush(i));
  }
  EXPECT_FALSE(ring.TryPush(4));
  EXPECT_TRUE(ring.TryPop(&value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(ring.TryPush(4));
}

TEST(SpscRingTest, KeepsOrderBetweenThreads) {
  SpscRing<uint64_t> ring(64);
  constexpr uint64_t kCount = 100'000;
  std::thread producer([&ring] {
    for (uint64_t i = 0; i < kCount;) {
      if (ring.TryPush(i)) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  uint64_t expected = 0;
  while (expected < kCount) {
    uint64_t value = 0;
    if (ring.TryPop(&value)) {
      ASSERT_EQ(value, expected);
      ++expected;
    } else {
      std::this_thread::yield();
    }
  }
  producer.join();
}

class Reader : public PollTarget {
 public:
  void OnReady(uint32_t events) override {
    ++calls;
    last = events;
    if (then) {
      then();
    }
  }
  int calls = 0;
  uint32_t last = 0;
  std::function<void()> then;
};

TEST(EventTest, IsTakenOnceAndTimesOut) {
  Event event;
  EXPECT_FALSE(event.Wait(0));
  event.Set();
  event.Set();
  EXPECT_TRUE(event.Wait(-1));
  EXPECT_FALSE(event.Wait(1000));
}

// Each side sleeps for ever unless the other's Set reaches it.
TEST(EventTest, NoWakeUpIsLost) {
  constexpr int kRounds = 20'000;
  Event ping;
  Event pong;
  int ball = 0;  // written before Set, read after Wait
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      ping.Wait(-1);
      ++ball;
      pong.Set();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ball = 2 * i;
    ping.Set();
    pong.Wait(-1);
    ASSERT_EQ(ball, 2 * i + 1);
  }
  other.join();
}

// The waiter of an endless Wait owns the event again as soon as it returns.
TEST(EventTest, MayEndWithItsWaiter) {
  for (int i = 0; i < 500; ++i) {
    auto event = std::make_unique<Event>();
    std::thread setter([e = event.get()] { e->Set(); });
    event->Wait(-1);
    event.reset();
    setter.join();
  }
}

TEST(PollerTest, TellsReadinessAndForgetsRemovedTargets) {
  int first[2];
  int second[2];
  ASSERT_EQ(::pipe(first), 0);
  ASSERT_EQ(::pipe(second), 0);
  Poller poller;
  Reader a;
  Reader b;
  poller.Add(first[0], EPOLLIN, &a);
  poller.Add(second[0], EPOLLIN, &b);
  EXPECT_EQ(poller.Poll(0), 0U);
  ASSERT_EQ(::write(first[1], "x", 1), 1);
  ASSERT_EQ(::write(second[1], "x", 1), 1);
  // Whichever is told first removes the other, whose readiness was fetched already.
  a.then = [&] {
    poller.Remove(second[0], &b);
  };
  b.then = [&] {
    poller.Remove(first[0], &a);
  };
  EXPECT_EQ(poller.Poll(1'000'000), 1U);
  EXPECT_EQ(a.calls + b.calls, 1);
  for (const int fd : {first[0], first[1], second[0], second[1]}) {
    ::close(fd);
  }
}

TEST(PollerTest, WakeEndsASleep) {
  Poller poller;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> rounds{0};
  std::thread sleeper([&] {
    while (!stop.load()) {
      poller.Poll(-1);  // for ever: only Wake ends it
      rounds.fetch_add(1);
    }
  });
  for (uint64_t i = 1; i <= 200; ++i) {
    const uint64_t before = rounds.load();
    poller.Wake();
    while (rounds.load() == before) {
      std::this_thread::yield();
      poller.Wake();
    }
  }
  stop.store(true);
  poller.Wake();
  sleeper.join();
  EXPECT_GE(rounds.load(), 200U);
}

TEST(DistinctEstimateTest, CountsKeysNotTheirRepetitions) {
  for (const uint64_t count : {0u, 1u, 1000u, 5000u, 200000u}) {
    DistinctEstimate estimate;
    Random random(7);
    std::vector<uint64_t> hashes(count);
    for (uint64_t& hash : hashes) {
      hash = random.Next();
    }
    for (int round = 0; round < 3; ++round) {
      for (const uint64_t hash : hashes) {
        estimate.Add(hash);
      }
    }
    if (count <= 1000) {
      EXPECT_EQ(estimate.Count(), count);
    } else {
      EXPECT_NEAR(static_cast<double>(estimate.Count()), static_cast<double>(count),
                  0.15 * static_cast<double>(count));
    }
  }
}

}  // namespace
}  // namespace kvstored::base
