#include "kvbench/workload.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kvbench/key_text.h"

namespace kvstored::bench {
namespace {

Options OptionsOf(const std::string& workload, uint64_t keys) {
  Options options;
  EXPECT_EQ(ChooseWorkload(workload, 30, &options), "");
  options.key_count = keys;
  return options;
}

// How far a count may be from what is expected: six standard deviations of the binomial.
double Tolerance(double draws, double probability) {
  return 6 * std::sqrt(draws * probability * (1 - probability)) + 1;
}

TEST(Zipf, RanksComeAsOftenAsTheLawSays) {
  constexpr uint64_t kDraws = 1'000'000;
  for (const uint64_t n : {1ULL, 2ULL, 10ULL, 1000ULL}) {
    double zeta = 0;
    for (uint64_t k = 1; k <= n; ++k) {
      zeta += std::pow(static_cast<double>(k), -0.99);
    }
    const Zipf zipf(n, 0.99);
    base::Random random(3);
    std::vector<uint64_t> seen(n);
    for (uint64_t i = 0; i < kDraws; ++i) {
      const uint64_t rank = zipf.Next(&random);
      ASSERT_LT(rank, n);
      ++seen[rank];
    }
    for (uint64_t k = 1; k <= n; ++k) {
      const double probability = std::pow(static_cast<double>(k), -0.99) / zeta;
      EXPECT_NEAR(static_cast<double>(seen[k - 1]), kDraws * probability,
                  Tolerance(kDraws, probability))
          << k << " of " << n;
    }
  }
}

TEST(Zipf, ScatterHashIsYcsbs) {
  // FNV-1a of eight zero bytes, 0xa8c7f832281a39c5, and its absolute value as a signed number.
  EXPECT_EQ(ScatterHash(0), 0x573807cdd7e5c63bULL);
  EXPECT_LE(ScatterHash(12345), uint64_t{1} << 63);
}

TEST(Workload, ScrambledZipfianKeepsYcsbsPopularityWhateverTheNumberOfKeys) {
  // zeta(10^10, 0.99), the constant of YCSB's ScrambledZipfianGenerator.
  constexpr double kZeta = 26.46902820178302;
  constexpr uint64_t kDraws = 500'000;
  for (const uint64_t keys : {10'000ULL, 1'000'000ULL}) {
    KeySpace space(keys);
    Workload workload(OptionsOf("c", keys), 1, &space);
    std::map<uint64_t, uint64_t> seen;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const Operation operation = workload.Next();
      ASSERT_EQ(operation.kind, OperationKind::kRead);
      ASSERT_LT(operation.key, keys);
      ++seen[operation.key];
    }
    for (uint64_t rank = 0; rank < 10; ++rank) {
      // Other ranks fall on the same key: about one in `keys` of all draws.
      const double probability = std::pow(static_cast<double>(rank + 1), -0.99) / kZeta;
      const double others = kDraws / static_cast<double>(keys);
      EXPECT_NEAR(static_cast<double>(seen[ScatterHash(rank) % keys]), kDraws * probability,
                  Tolerance(kDraws, probability) + 20 * others)
          << rank;
    }
  }
}

TEST(Workload, MixesAreThoseOfYcsb) {
  const std::map<std::string, std::vector<double>> shares = {
      {"a", {0.5, 0.5, 0, 0}},   {"b", {0.95, 0.05, 0, 0}}, {"c", {1, 0, 0, 0}},
      {"d", {0.95, 0, 0.05, 0}}, {"f", {0.5, 0, 0, 0.5}},   {"get", {1, 0, 0, 0}},
      {"set", {0, 1, 0, 0}},     {"mix", {0.3, 0.7, 0, 0}},
  };
  constexpr uint64_t kDraws = 100'000;
  for (const auto& [name, expected] : shares) {
    KeySpace space(1000);
    Workload workload(OptionsOf(name, 1000), 5, &space);
    std::vector<uint64_t> seen(kOperationKinds);
    for (uint64_t i = 0; i < kDraws; ++i) {
      const Operation operation = workload.Next();
      ++seen[static_cast<size_t>(operation.kind)];
      if (operation.kind == OperationKind::kInsert) {
        space.Answer(operation.key);
      }
    }
    for (size_t kind = 0; kind < kOperationKinds; ++kind) {
      EXPECT_NEAR(static_cast<double>(seen[kind]), kDraws * expected[kind],
                  expected[kind] == 0 ? 0 : Tolerance(kDraws, expected[kind]))
          << name << " " << kind;
    }
  }
}

TEST(Workload, LatestReadsTheNewestMostAndNothingThatIsStillUnderWay) {
  KeySpace space(1000);
  Workload workload(OptionsOf("d", 1000), 2, &space);
  uint64_t newest = 0;
  uint64_t reads = 0;
  std::vector<uint64_t> open;
  for (int i = 0; i < 200'000; ++i) {
    const Operation operation = workload.Next();
    if (operation.kind == OperationKind::kInsert) {
      open.push_back(operation.key);
      if (open.size() == 10) {  // answered from the last to the first
        for (; !open.empty(); open.pop_back()) {
          space.Answer(open.back());
        }
      }
      continue;
    }
    ASSERT_LT(operation.key, open.empty() ? space.frontier() : open.front());
    newest += operation.key == space.frontier() - 1 ? 1 : 0;
    ++reads;
  }
  EXPECT_GT(space.frontier(), 10'000);
  // 1 / zeta(n, 0.99) falls from 0.131 at n = 1,000 to 0.098 at n = 11,000.
  EXPECT_GT(static_cast<double>(newest) / static_cast<double>(reads), 0.095);
  EXPECT_LT(static_cast<double>(newest) / static_cast<double>(reads), 0.135);
}

TEST(Workload, UniformMeetsEveryKeyAndValuesFillTheirRange) {
  Options options = OptionsOf("set", 100);
  options.value_bytes = {.min = 3, .max = 6};
  KeySpace space(100);
  Workload workload(options, 1, &space);
  std::vector<uint64_t> keys(100);
  std::map<uint32_t, uint64_t> sizes;
  std::set<std::string> values;
  for (int i = 0; i < 100'000; ++i) {
    const Operation operation = workload.Next();
    ++keys[operation.key];
    ++sizes[operation.value_bytes];
    values.insert(std::string(operation.value, operation.value_bytes));
  }
  for (const uint64_t count : keys) {
    EXPECT_NEAR(static_cast<double>(count), 1000, Tolerance(100'000, 0.01));
  }
  EXPECT_EQ(sizes.size(), 4);
  EXPECT_EQ(sizes.begin()->first, 3);
  EXPECT_EQ(sizes.rbegin()->first, 6);
  EXPECT_GT(values.size(), 1000);
}

TEST(Workload, LoadIsEveryKeyOnceWhoeverTakesIt) {
  Options options;
  options.load = true;
  options.key_count = 100;
  KeySpace space(0);
  Workload one(options, 1, &space);
  Workload two(options, 2, &space);
  for (uint64_t i = 0; i < 100; ++i) {
    const Operation operation = (i % 3 == 0 ? one : two).Next();
    EXPECT_EQ(operation.kind, OperationKind::kInsert);
    EXPECT_EQ(operation.key, i);
  }
}

TEST(KeySpace, ThreadsThatAnswerInAnyOrderLeaveNoGapBehind) {
  constexpr uint64_t kEach = 100'000;
  KeySpace space(50);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&space] {
      for (uint64_t i = 0; i < kEach; i += 2) {
        const uint64_t first = space.Take();
        const uint64_t second = space.Take();
        space.Answer(second);
        space.Answer(first);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(space.frontier(), 50 + 4 * kEach);
}

TEST(KeySpace, SaysWhenTooManyAreBehindOneThatIsNotAnswered) {
  KeySpace space(0);
  const uint64_t first = space.Take();
  uint64_t taken = 1;
  while (!space.crowded()) {
    space.Answer(space.Take());
    ASSERT_LT(++taken, 2'000'000);
  }
  EXPECT_EQ(space.frontier(), 0);
  space.Answer(first);
  EXPECT_EQ(space.frontier(), taken);
  EXPECT_FALSE(space.crowded());
}

TEST(KeyText, IsThePrefixAndPaddedDigits) {
  std::string text(16, '?');
  KeyText(16).Write(0, text.data());
  EXPECT_EQ(text, "key:000000000000");
  KeyText(16).Write(2999, text.data());
  EXPECT_EQ(text, "key:000000002999");
  KeyText(16).Write(999'999'999'999, text.data());
  EXPECT_EQ(text, "key:999999999999");
  EXPECT_EQ(KeyText::LimitOf(5), 10);
  EXPECT_EQ(KeyText::LimitOf(16), 1'000'000'000'000);
  EXPECT_EQ(KeyText::LimitOf(250), 1'000'000'000'000'000'000);
}

TEST(Options, JudgesWhatGoesTogether) {
  Options options = OptionsOf("a", 1000);
  EXPECT_EQ(Judge(options), "");
  options.key_bytes = 6;
  EXPECT_EQ(Judge(options), "--key-bytes 6 is too short for 1000 different keys");
  options = OptionsOf("a", 1000);
  options.threads = 51;
  EXPECT_EQ(Judge(options), "--threads 51 is more than --connections 50");
  options.threads = 1;
  options.load = true;
  EXPECT_EQ(Judge(options), "either --load or --workload says what to do");
  EXPECT_EQ(ChooseWorkload("e", 0, &options).substr(0, 30), "workload e needs ordered scans");
  EXPECT_EQ(ChooseWorkload("z", 0, &options),
            "unknown workload 'z'; there are: a, b, c, d, f, get, set, mix");
  ByteRange range;
  EXPECT_TRUE(ParseByteRange("100", &range));
  EXPECT_TRUE(range.min == 100 && range.max == 100);
  EXPECT_TRUE(ParseByteRange("0-2000", &range));
  EXPECT_TRUE(range.min == 0 && range.max == 2000);
  for (const char* bad : {"", "-", "5-", "-5", "7-6", "1k", "99999999999"}) {
    EXPECT_FALSE(ParseByteRange(bad, &range)) << bad;
  }
}

}  // namespace
}  // namespace kvstored::bench
