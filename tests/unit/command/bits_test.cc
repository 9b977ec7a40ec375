// Bits of small and of large values, against a plain string; what BITFIELD and BITOP write.
#include "command/bits.h"

#include "base/random.h"
#include "command/bit_commands.h"
#include "command/strings.h"
#include "tests/unit/command/handler_fixture.h"
#include "tests/unit/command/session_fixture.h"

namespace kvstored::command {
namespace {

bool BitOf(const std::string& value, uint64_t at) {
  return ((value[at / 8] >> (7 - at % 8)) & 1) != 0;
}

class Bits : public HandlerFixture {
 protected:
  // Mostly long stretches of equal bits, as in real bitmaps.
  std::string RandomValue(size_t size_bytes) {
    std::string value(size_bytes, '\0');
    for (size_t at = 0; at < size_bytes;) {
      const char byte = std::array<char, 3>{'\0', '\xff', 'x'}[random_.Below(3)];
      for (uint64_t n = 1 + random_.Below(40); n > 0 && at < size_bytes; --n) {
        value[at++] = byte;
      }
    }
    return value;
  }
  const store::Item& Put(const std::string& value) {
    EXPECT_EQ(RunToEnd(&HandleSet, {"SET", "k", value}), "+OK\r\n");
    return *shard_->Find(KeyOf("k"));
  }

  base::Random random_{7};
};

TEST_F(Bits, AreCountedAndFoundInEveryRange) {
  for (const size_t size_bytes : {size_t{1}, size_t{9}, size_t{200}, size_t{300'000}}) {
    const std::string value = RandomValue(size_bytes);
    const store::Item& item = Put(value);
    EXPECT_EQ(item.is_chain(), size_bytes > 10'000);
    for (int i = 0; i < 200; ++i) {
      const uint64_t first = random_.Below(size_bytes * 8);
      const uint64_t last = std::min<uint64_t>(first + random_.Below(3000), size_bytes * 8 - 1);
      uint64_t count = 0;
      std::array<uint64_t, 2> found = {kNoBit, kNoBit};
      for (uint64_t at = first; at <= last; ++at) {
        const bool bit = BitOf(value, at);
        count += bit ? 1 : 0;
        found[bit ? 1 : 0] = std::min(found[bit ? 1 : 0], at);
      }
      ASSERT_EQ(CountBits(item, first, last), count) << first << " to " << last;
      ASSERT_EQ(FindBit(item, first, last, false), found[0]) << first << " to " << last;
      ASSERT_EQ(FindBit(item, first, last, true), found[1]) << first << " to " << last;
    }
  }
}

// A value of several pieces: what is looked for lies behind the first.
TEST_F(Bits, AreFoundBehindThePiecesOfALargeValue) {
  std::string value(1'000'000, '\0');
  value[900'001] = '\x10';
  Put(value);
  EXPECT_EQ(Run(&HandleBitPos, {"BITPOS", "k", "1"}), ":7200011\r\n");
  EXPECT_EQ(Run(&HandleBitCount, {"BITCOUNT", "k"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleGetBit, {"GETBIT", "k", "7200011"}), ":1\r\n");
  EXPECT_EQ(RunToEnd(&HandleSetBit, {"SETBIT", "k", "7200011", "0"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleBitPos, {"BITPOS", "k", "1"}), ":-1\r\n");
}

TEST_F(Bits, ThatStayAsTheyAreAreNoWrite) {
  EXPECT_EQ(Run(&HandleSetBit, {"SETBIT", "k", "9", "1"}), ":0\r\n");
  const Seq applied = shard_->applied();
  EXPECT_EQ(Run(&HandleSetBit, {"SETBIT", "k", "9", "1"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleBitField, {"BITFIELD", "k", "SET", "u4", "8", "4", "GET", "u8", "8"}),
            "*2\r\n:4\r\n:64\r\n");
  EXPECT_EQ(shard_->applied(), applied);
  EXPECT_EQ(Run(&HandleBitField, {"BITFIELD", "k", "SET", "u4", "8", "5"}), "*1\r\n:4\r\n");
  EXPECT_EQ(shard_->applied(), applied + 1);
}

// The first and the last write lie further apart than one record reaches.
TEST_F(Bits, FieldsFarApartAreOneWrite) {
  const Words words = {"BITFIELD", "k",    "SET",    "u8",  "0",        "255", "INCRBY", "i16",
                       "40000000", "-2",   "GET",    "i16", "40000000", "GET", "u8",     "8",
                       "OVERFLOW", "FAIL", "INCRBY", "u2",  "100",      "4"};
  EXPECT_EQ(RunToEnd(&HandleBitField, words), "*5\r\n:0\r\n:-2\r\n:-2\r\n:0\r\n$-1\r\n");
  std::string expected(5'000'002, '\0');
  expected[0] = '\xff';
  expected[5'000'000] = '\xff';
  expected[5'000'001] = '\xfe';
  EXPECT_EQ(ValueOf("k"), expected);
  EXPECT_EQ(RunToEnd(&HandleBitField, words), "*5\r\n:255\r\n:-4\r\n:-4\r\n:0\r\n$-1\r\n");
}

class BitsOfShards : public SessionFixture, public testing::WithParamInterface<uint32_t> {
 protected:
  BitsOfShards() : SessionFixture(GetParam(), 4) {
    client_ = Connect();
  }
  FakeConnection* client_;
};

TEST_P(BitsOfShards, BitOpReadsAndWritesAcrossShards) {
  const std::string long_value(3'000'000, '\x0f');
  Ask(client_, {"SET", KeyOn(0), long_value});
  Ask(client_, {"SET", KeyOn(1), std::string(1000, '\x3c')});
  const std::string both = std::string(1000, '\x0c') + std::string(2'999'000, '\0');
  for (const bool in_exec : {false, true}) {
    Ask(client_, {"SET", KeyOn(2), "old", "EX", "100"});
    const Words words = {"BITOP", "AND", KeyOn(2), KeyOn(0), KeyOn(1)};
    if (in_exec) {
      Ask(client_, {"MULTI"});
      Ask(client_, words);
      EXPECT_EQ(Ask(client_, {"EXEC"}), "*1\r\n:3000000\r\n");
    } else {
      EXPECT_EQ(Ask(client_, words), ":3000000\r\n");
    }
    EXPECT_EQ(Ask(client_, {"GET", KeyOn(2)}), "$3000000\r\n" + both + "\r\n");
    EXPECT_EQ(Ask(client_, {"TTL", KeyOn(2)}), ":-1\r\n");
  }
  EXPECT_EQ(Ask(client_, {"BITOP", "NOT", KeyOn(2), KeyOn(3)}), ":0\r\n");
  EXPECT_EQ(Ask(client_, {"EXISTS", KeyOn(2)}), ":0\r\n") << "of nothing: the destination goes";
}

// P27: what a far bit needs is known before EXEC writes anything.
TEST_P(BitsOfShards, FarBitsCountInExec) {
  pool_.SetMaxBytes(8 << 20);
  for (const Words& grows : {Words{"SETBIT", "b", "160000000", "1"},
                             Words{"BITFIELD", "b", "SET", "u8", "#20000000", "1"}}) {
    Ask(client_, {"MULTI"});
    Ask(client_, {"SET", "a", "1"});
    Ask(client_, grows);
    EXPECT_TRUE(Ask(client_, {"EXEC"}).starts_with("-EXECABORT "));
    EXPECT_EQ(Ask(client_, {"EXISTS", "a", "b"}), ":0\r\n");
    EXPECT_TRUE(Ask(client_, grows).starts_with("-OOM "));
  }
}
INSTANTIATE_TEST_SUITE_P(Threads, BitsOfShards, testing::Values(1, 2));

}  // namespace
}  // namespace kvstored::command
