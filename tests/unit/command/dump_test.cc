// DUMP and RESTORE: the bytes are those of redis-server 7.0.15, and nothing damaged gets in.
#include "base/crc64.h"
#include "command/dump_payload.h"
#include "command/keys.h"
#include "command/strings.h"
#include "tests/unit/command/handler_fixture.h"

namespace kvstored::command {
namespace {

constexpr std::string_view kBadPayload = "-ERR DUMP payload version or checksum are wrong\r\n";
constexpr std::string_view kBadFormat = "-ERR Bad data format\r\n";

std::string Sealed(const std::string& body, uint8_t version = 10) {
  std::string payload = body;
  payload.push_back(static_cast<char>(version));
  payload.push_back('\0');
  const uint64_t crc = base::Crc64(0, payload);
  for (int i = 0; i < 8; ++i) {
    payload.push_back(static_cast<char>(crc >> (8 * i)));
  }
  return payload;
}

class Dump : public HandlerFixture {
 protected:
  std::string DumpOf(const std::string& value) {
    EXPECT_EQ(RunToEnd(&HandleSet, {"SET", "k", value}), "+OK\r\n");
    const std::string reply = RunToEnd(&HandleDump, {"DUMP", "k"});
    const size_t head = reply.find("\r\n") + 2;
    return reply.substr(head, reply.size() - head - 2);
  }
  std::string Restored(const std::string& payload) {
    const std::string reply = RunToEnd(&HandleRestore, {"RESTORE", "r", "0", payload, "REPLACE"});
    return reply == "+OK\r\n" ? RunToEnd(&HandleGet, {"GET", "r"}) : reply;
  }
  static std::string Bulk(const std::string& value) {
    return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }
};

TEST_F(Dump, ChecksumIsTheOneOfTheCatalogue) {
  EXPECT_EQ(base::Crc64(0, "123456789"), 0xe9c6d914c4b8d9ca);
  const std::string text(1000, 'q');
  EXPECT_EQ(base::Crc64(base::Crc64(0, text.substr(0, 333)), text.substr(333)),
            base::Crc64(0, text));
}

// Copied from redis-server 7.0.15.
TEST_F(Dump, HasTheBytesOfRedis) {
  using namespace std::string_literals;
  EXPECT_EQ(DumpOf("abc"),
            "\x00\x03"s
            "abc\n\x00\xd9\xac\x30=Ar\xa2\xe2"s);
  EXPECT_EQ(DumpOf(""), "\x00\x00\n\x00]\x9b\\@\x0f\x7f\xa2\xda"s);
  EXPECT_EQ(DumpOf("-1"), "\x00\xc0\xff\n\x00\x0c\x93~$\x85\b\x9d\xc5"s);
  EXPECT_EQ(DumpOf("-129"), "\x00\xc1\x7f\xff\n\x00\x17`\x82(T\x80\x84\x80"s);
  EXPECT_EQ(DumpOf("2147483647"), "\x00\xc2\xff\xff\xff\x7f\n\x00,t\xe5\x9e\xe0.\xad\xa1"s);
  EXPECT_EQ(DumpOf("2147483648"), "\x00\n2147483648\n\x00\xe7\xb1)\xa3L\x1dv\xee"s);
  EXPECT_EQ(DumpOf("01"),
            "\x00\x02"s
            "01\n\x00l\xdd\xc4"
            "A\x14L}\xa4"s);
}

TEST_F(Dump, ComesBackWhateverTheLength) {
  for (const size_t size_bytes :
       std::initializer_list<size_t>{1, 63, 64, 16'383, 16'384, 70'000, 3'000'000}) {
    std::string value(size_bytes, '\0');
    for (size_t i = 0; i < size_bytes; ++i) {
      value[i] = static_cast<char>(i * 31 + i / 256);
    }
    EXPECT_EQ(Restored(DumpOf(value)), Bulk(value)) << size_bytes;
  }
}

TEST_F(Dump, OfALargeValueIsOfTheMomentItBegan) {
  const std::string value(3'000'000, 'a');
  EXPECT_EQ(RunToEnd(&HandleSet, {"SET", "k", value}), "+OK\r\n");
  EXPECT_EQ(Run(&HandleDump, {"DUMP", "k"}), "");
  EXPECT_EQ(result_, OpResult::kWait);
  shard::Run under_way = std::move(run_);
  run_ = shard::Run{};
  EXPECT_EQ(RunToEnd(&HandleSetRange, {"SETRANGE", "k", "0", "b"}), ":3000000\r\n");
  run_ = std::move(under_way);
  const std::string reply = RunToEnd(&HandleDump, {"DUMP", "k"});
  EXPECT_EQ(reply.substr(0, 11), "$3000016\r\n" + std::string(1, '\0'));
  EXPECT_EQ(reply.find('b'), std::string::npos);
}

TEST_F(Dump, RestoresWhatRedisCompresses) {
  using namespace std::string_literals;
  EXPECT_EQ(Restored("\x00\xc3\t \x01"
                     "aa\xe0\x13\x00\x01"
                     "aa\n\x00\n\xaa\x0e\xcb\xf5\xef\x30\xf3"s),
            Bulk(std::string(32, 'a')));
  EXPECT_EQ(Restored(Sealed("\x00\xc3\x00\x00"s)), "$0\r\n\r\n");
  // A length that its bytes cannot have, a copy from before the beginning, an end that is missing.
  EXPECT_EQ(Restored(Sealed("\x00\xc3\x03\x81\x00\x00\x00\x00\x80\x00\x00\x00"
                            "abc"s)),
            kBadFormat);
  EXPECT_EQ(Restored(Sealed("\x00\xc3\x02\x03\x20\x00"s)), kBadFormat);
  EXPECT_EQ(Restored(Sealed("\x00\xc3\x02\x03\x05"
                            "a"s)),
            kBadFormat);
}

TEST_F(Dump, AcceptsEveryLengthAndVersionItKnows) {
  using namespace std::string_literals;
  EXPECT_EQ(Restored(Sealed("\x00\x40\x03"
                            "abc"s)),
            Bulk("abc"));
  EXPECT_EQ(Restored(Sealed("\x00\x80\x00\x00\x00\x03"
                            "abc"s)),
            Bulk("abc"));
  EXPECT_EQ(Restored(Sealed("\x00\x81\x00\x00\x00\x00\x00\x00\x00\x03"
                            "abc"s)),
            Bulk("abc"));
  EXPECT_EQ(Restored(Sealed("\x00\x82\x00\x00\x00\x03"
                            "abc"s)),
            kBadFormat);
  EXPECT_EQ(Restored(Sealed("\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff"
                            "abc"s)),
            kBadFormat);
  EXPECT_EQ(Restored(Sealed("\x01\x01\x01"
                            "a"s)),
            kBadFormat);
  EXPECT_EQ(Restored(Sealed("")), kBadFormat);
  EXPECT_EQ(Restored(Sealed("\x00\x03"
                            "abc"s,
                            12)),
            Bulk("abc"));
  EXPECT_EQ(Restored(Sealed("\x00\x03"
                            "abc"s,
                            13)),
            kBadPayload);
  std::string damaged = Sealed(
      "\x00\x03"
      "abc"s);
  damaged[3] ^= 1;
  EXPECT_EQ(Restored(damaged), kBadPayload);
  EXPECT_EQ(Restored("short"), kBadPayload);
}

TEST_F(Dump, RestoreJudgesInTheOrderOfRedis) {
  const std::string payload = DumpOf("abc");
  const auto restore = [this](const std::string& ttl, const std::string& bytes, Words options) {
    Words words = {"RESTORE", "k", ttl, bytes};
    words.insert(words.end(), options.begin(), options.end());
    return RunToEnd(&HandleRestore, words);
  };
  EXPECT_EQ(restore("x", "bad", {"foo"}), "-ERR syntax error\r\n");
  EXPECT_EQ(restore("x", "bad", {}), "-BUSYKEY Target key name already exists.\r\n");
  EXPECT_EQ(restore("x", "bad", {"REPLACE"}), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(restore("-1", "bad", {"REPLACE"}), "-ERR Invalid TTL value, must be >= 0\r\n");
  EXPECT_EQ(restore("0", "bad", {"REPLACE"}), kBadPayload);
  EXPECT_EQ(restore("0", payload, {"replace", "idletime", "-1"}),
            "-ERR Invalid IDLETIME value, must be >= 0\r\n");
  EXPECT_EQ(restore("0", payload, {"replace", "freq", "256"}),
            "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n");
  EXPECT_EQ(restore("0", payload, {"replace", "freq", "1", "idletime", "1"}),
            "-ERR syntax error\r\n");
  EXPECT_EQ(restore("1000", payload, {"replace", "freq", "5"}), "+OK\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"PTTL", "k"}), ":1000\r\n");
  EXPECT_EQ(restore("9223372036854775807", payload, {"replace"}), "+OK\r\n");
  EXPECT_EQ(Run(&HandleGet, {"GET", "k"}), "$-1\r\n");
  EXPECT_EQ(restore("9223372036854775807", payload, {"absttl"}), "+OK\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"PEXPIRETIME", "k"}), ":9223372036854775807\r\n");
  EXPECT_EQ(restore("1", payload, {"absttl", "replace"}), "+OK\r\n");
  EXPECT_EQ(Run(&HandleGet, {"GET", "k"}), "$-1\r\n");
}

}  // namespace
}  // namespace kvstored::command
