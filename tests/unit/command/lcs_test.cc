// LCS against the table that its definition fills, cell by cell; LCS as clients see it.
#include "command/lcs.h"

#include <algorithm>

#include "base/random.h"
#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

struct Expected {
  std::string text;
  std::vector<Lcs::Match> matches;
};

// The textbook table and the way back that Redis takes through it.
Expected ByTable(const std::string& a, const std::string& b) {
  std::vector<std::vector<uint32_t>> table(a.size() + 1, std::vector<uint32_t>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1
                                         : std::max(table[i - 1][j], table[i][j - 1]);
    }
  }
  Expected expected;
  bool in_match = false;
  for (size_t i = a.size(), j = b.size(); i > 0 && j > 0;) {
    if (a[i - 1] == b[j - 1]) {
      --i;
      --j;
      expected.text.insert(expected.text.begin(), a[i]);
      if (!in_match) {
        expected.matches.emplace_back();
      }
      in_match = true;
      expected.matches.back() = {i, j, expected.matches.back().size_bytes + 1};
      continue;
    }
    in_match = false;
    if (table[i - 1][j] > table[i][j - 1]) {
      --i;
    } else {
      --j;
    }
  }
  return expected;
}

std::string RandomText(base::Random* random, size_t size_bytes, uint64_t letters) {
  std::string text(size_bytes, '\0');
  for (char& c : text) {
    c = static_cast<char>(0xf8 + random->Below(letters));
  }
  return text;
}

CapturedValue Captured(const std::string& bytes) {
  CapturedValue value;
  value.present = true;
  value.bytes = bytes;
  return value;
}

TEST(Lcs, IsWhatTheTableSays) {
  base::Random random(11);
  for (int round = 0; round < 400; ++round) {
    const std::string a = RandomText(&random, random.Below(200), 1 + random.Below(8));
    const std::string b = RandomText(&random, random.Below(200), 1 + random.Below(8));
    const Expected expected = ByTable(a, b);
    const CapturedValue first = Captured(a);
    const CapturedValue second = Captured(b);
    Lcs lcs(&first, &second, /*traces=*/true);
    while (!lcs.Step()) {
    }
    ASSERT_EQ(lcs.text(), expected.text);
    ASSERT_EQ(lcs.length(), expected.text.size());
    ASSERT_EQ(lcs.matches().size(), expected.matches.size());
    for (size_t i = 0; i < expected.matches.size(); ++i) {
      ASSERT_EQ(lcs.matches()[i].a_begin, expected.matches[i].a_begin);
      ASSERT_EQ(lcs.matches()[i].b_begin, expected.matches[i].b_begin);
      ASSERT_EQ(lcs.matches()[i].size_bytes, expected.matches[i].size_bytes);
    }
    Lcs only_length(&first, &second, /*traces=*/false);
    while (!only_length.Step()) {
    }
    ASSERT_EQ(only_length.length(), expected.text.size());
    EXPECT_EQ(only_length.text(), "");
  }
}

TEST(Lcs, EndsWhereRedisEnds) {
  EXPECT_FALSE(Lcs::IsTooLarge(11'584, 11'584));
  EXPECT_TRUE(Lcs::IsTooLarge(11'585, 11'585));
  EXPECT_FALSE(Lcs::IsTooLarge(0, (uint64_t{128} << 20) - 1));
  EXPECT_TRUE(Lcs::IsTooLarge(0, uint64_t{128} << 20));
}

class LcsCommand : public SessionFixture {
 protected:
  LcsCommand() : SessionFixture(2, 4) {
  }
};

TEST_F(LcsCommand, ReadsKeysOfTwoThreads) {
  FakeConnection* client = Connect();
  const std::string a = KeyOn(0);
  const std::string b = KeyOn(1);
  Ask(client, {"MSET", a, "ohmytext", b, "mynewtext"});
  EXPECT_EQ(Ask(client, {"LCS", a, b}), "$6\r\nmytext\r\n");
  EXPECT_EQ(Ask(client, {"LCS", a, b, "LEN"}), ":6\r\n");
  EXPECT_EQ(
      Ask(client, {"LCS", a, b, "IDX", "MINMATCHLEN", "4", "WITHMATCHLEN"}),
      "*4\r\n$7\r\nmatches\r\n*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n$3\r\nlen\r\n"
      ":6\r\n");
  EXPECT_EQ(Ask(client, {"LCS", a, KeyOn(2)}), "$0\r\n\r\n");
  EXPECT_EQ(Ask(client, {"LCS", a, a, "LEN"}), ":8\r\n");
  EXPECT_EQ(Ask(client, {"LCS", a, b, "LEN", "IDX"}),
            "-ERR If you want both the length and indexes, please just use IDX.\r\n");
}

// A tick does a slice: others are served meanwhile, also by the shards that were read.
TEST_F(LcsCommand, HoldsNobodyWhileItComputes) {
  FakeConnection* client = Connect();
  FakeConnection* other = Connect();
  const std::string a = KeyOn(0);
  const std::string b = KeyOn(2);
  base::Random random(3);
  Ask(client, {"SET", a, RandomText(&random, 2'000'000, 4)});
  Ask(client, {"SET", b, RandomText(&random, 60, 4)});
  client->Send(Encode({"LCS", a, b, "LEN"}) + Encode({"PING"}));
  std::string replies;
  int served = 0;
  for (int i = 0; i < 1000 && replies.empty(); ++i) {
    other->Send(Encode({"SET", a, std::to_string(i)}));
    Tick();
    served += other->Take() == "+OK\r\n" ? 1 : 0;
    replies = client->Take();
  }
  EXPECT_EQ(replies, ":60\r\n+PONG\r\n");
  EXPECT_GT(served, 2);
}

TEST_F(LcsCommand, RefusesWhatRedisRefuses) {
  FakeConnection* client = Connect();
  const std::string a = KeyOn(0);
  Ask(client, {"SET", a, std::string(12'000, 'x')});
  EXPECT_EQ(Ask(client, {"LCS", a, a, "LEN"}),
            "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n");
  Ask(client, {"MULTI"});
  Ask(client, {"LCS", a, a});
  Ask(client, {"GET", "none"});
  EXPECT_EQ(
      Ask(client, {"EXEC"}),
      "*2\r\n-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n"
      "$-1\r\n");
}

}  // namespace
}  // namespace kvstored::command
