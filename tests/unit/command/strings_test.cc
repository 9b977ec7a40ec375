#include "command/strings.h"

#include "command/keys.h"
#include "tests/unit/command/handler_fixture.h"

namespace kvstored::command {
namespace {

constexpr char kOk[] = "+OK\r\n";
constexpr char kNull[] = "$-1\r\n";
constexpr char kSyntax[] = "-ERR syntax error\r\n";
constexpr char kNotInteger[] = "-ERR value is not an integer or out of range\r\n";
constexpr char kTooLong[] = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";

std::string Bulk(const std::string& value) {
  return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

using Strings = HandlerFixture;

TEST_F(Strings, SetAndGetAnyBytes) {
  const std::string key("\0\r\n", 3);
  EXPECT_EQ(Run(&HandleGet, {"GET", key}), kNull);
  EXPECT_EQ(Run(&HandleSet, {"SET", key, ""}), kOk);
  EXPECT_EQ(Run(&HandleGet, {"GET", key}), "$0\r\n\r\n");
  EXPECT_EQ(Run(&HandleSet, {"SET", "", "empty key"}), kOk);
  EXPECT_EQ(Run(&HandleGet, {"GET", ""}), Bulk("empty key"));
  EXPECT_EQ(Run(&HandleGet, {"GET", "none"}, 1, 1, 3), "_\r\n");
}

TEST_F(Strings, SetConditions) {
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "1", "XX"}), kNull);
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "1", "nx"}), kOk);
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "2", "NX"}), kNull);
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "2", "NX", "GET"}), Bulk("1"));
  EXPECT_EQ(ValueOf("k"), "1");
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "2", "XX", "GET"}), Bulk("1"));
  EXPECT_EQ(Run(&HandleSet, {"SET", "new", "2", "GET"}), kNull);
  EXPECT_EQ(ValueOf("new"), "2");
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "2", "NX", "XX"}), kSyntax);
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "2", "EX"}), kSyntax);
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "2", "EX", "1", "PX", "1"}), kSyntax);
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "2", "KEEPTTL", "EX", "1"}), kSyntax);
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "2", "PERSIST"}), kSyntax);
}

TEST_F(Strings, SetExpiries) {
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "v", "EX", "10"}), kOk);
  EXPECT_EQ(Run(&HandleTtl, {"PTTL", "k"}), ":10000\r\n");
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "w", "KEEPTTL"}), kOk);
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":10\r\n");
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "w"}), kOk);
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":-1\r\n");
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "w", "PXAT", std::to_string(now_ms() + 5)}), kOk);
  Tick(5000);
  EXPECT_EQ(Run(&HandleGet, {"GET", "k"}), kNull);
  // The hidden item counts as absent.
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "x", "NX"}), kOk);
  for (const char* bad : {"0", "-1", "9223372036854775807", "9223372036854775"}) {
    EXPECT_EQ(Run(&HandleSet, {"SET", "k", "v", "EX", bad}),
              "-ERR invalid expire time in 'set' command\r\n")
        << bad;
  }
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "v", "EX", "x"}), kNotInteger);
  EXPECT_EQ(Run(&HandleSetEx, {"SetEx", "k", "0", "v"}),
            "-ERR invalid expire time in 'setex' command\r\n");
  EXPECT_EQ(Run(&HandleSetEx, {"psetex", "k", "1500", "v"}), kOk);
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":2\r\n");
}

TEST_F(Strings, GetVariants) {
  EXPECT_EQ(Run(&HandleGetSet, {"GETSET", "k", "1"}), kNull);
  EXPECT_EQ(Run(&HandleGetSet, {"GETSET", "k", "2"}), Bulk("1"));
  EXPECT_EQ(Run(&HandleGetEx, {"GETEX", "k", "EX", "7"}), Bulk("2"));
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":7\r\n");
  EXPECT_EQ(Run(&HandleGetEx, {"GETEX", "k", "PERSIST"}), Bulk("2"));
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":-1\r\n");
  EXPECT_EQ(Run(&HandleGetEx, {"GETEX", "k", "PXAT", "1"}), Bulk("2"));
  EXPECT_EQ(Run(&HandleGet, {"GET", "k"}), kNull);
  // A missing key comes before a bad time.
  EXPECT_EQ(Run(&HandleGetEx, {"GETEX", "k", "EX", "0"}), kNull);
  EXPECT_EQ(Run(&HandleGetEx, {"GETEX", "k", "NX"}), kSyntax);
  EXPECT_EQ(Run(&HandleSetNx, {"SETNX", "k", "3"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleSetNx, {"SETNX", "k", "4"}), ":0\r\n");
  EXPECT_EQ(Run(&HandleGetDel, {"GETDEL", "k"}), Bulk("3"));
  EXPECT_EQ(Run(&HandleGetDel, {"GETDEL", "k"}), kNull);
}

TEST_F(Strings, Ranges) {
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "Hello World"}), kOk);
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "k", "0", "4"}), Bulk("Hello"));
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "k", "-5", "-1"}), Bulk("World"));
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "k", "-100", "100"}), Bulk("Hello World"));
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "k", "5", "3"}), Bulk(""));
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "k", "-1", "-5"}), Bulk(""));
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "none", "0", "-1"}), Bulk(""));
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "k", "-9223372036854775808", "9223372036854775807"}),
            Bulk("Hello World"));
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "k", "a", "1"}), kNotInteger);
  EXPECT_EQ(Run(&HandleSetRange, {"SETRANGE", "k", "6", "Redis"}), ":11\r\n");
  EXPECT_EQ(ValueOf("k"), "Hello Redis");
  EXPECT_EQ(Run(&HandleSetRange, {"SETRANGE", "k", "13", "!"}), ":14\r\n");
  EXPECT_EQ(ValueOf("k"), std::string("Hello Redis\0\0!", 14));
  EXPECT_EQ(Run(&HandleSetRange, {"SETRANGE", "new", "2", "x"}), ":3\r\n");
  EXPECT_EQ(ValueOf("new"), std::string("\0\0x", 3));
  EXPECT_EQ(Run(&HandleSetRange, {"SETRANGE", "none", "5", ""}), ":0\r\n");
  EXPECT_EQ(ValueOf("none"), std::nullopt);
  EXPECT_EQ(Run(&HandleSetRange, {"SETRANGE", "k", "-1", "x"}), "-ERR offset is out of range\r\n");
  EXPECT_EQ(Run(&HandleSetRange, {"SETRANGE", "k", "536870912", "x"}), kTooLong);
  EXPECT_EQ(Run(&HandleSetRange, {"SETRANGE", "k", "9223372036854775807", "x"}), kTooLong);
}

TEST_F(Strings, AppendKeepsTheExpiryAndMakesAbsentKeys) {
  EXPECT_EQ(Run(&HandleAppend, {"APPEND", "k", "ab"}), ":2\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "50"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleAppend, {"APPEND", "k", "cd"}), ":4\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":50\r\n");
  EXPECT_EQ(ValueOf("k"), "abcd");
  EXPECT_EQ(Run(&HandleAppend, {"APPEND", "empty", ""}), ":0\r\n");
  EXPECT_EQ(ValueOf("empty"), "");
  const shard::KeyWatch before = shard_->Watch(KeyOf("k"));
  EXPECT_EQ(Run(&HandleAppend, {"APPEND", "k", ""}), ":4\r\n");
  EXPECT_TRUE(shard_->IsTouched(KeyOf("k"), before));  // WATCH sees it, as in Redis
}

TEST_F(Strings, Counters) {
  EXPECT_EQ(Run(&HandleIncr, {"INCR", "n"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleIncr, {"decr", "n"}), ":0\r\n");
  EXPECT_EQ(Run(&HandleIncrBy, {"INCRBY", "n", "9223372036854775807"}), ":9223372036854775807\r\n");
  EXPECT_EQ(Run(&HandleIncr, {"INCR", "n"}), "-ERR increment or decrement would overflow\r\n");
  EXPECT_EQ(Run(&HandleDecrBy, {"DECRBY", "n", "-9223372036854775808"}),
            "-ERR decrement would overflow\r\n");
  EXPECT_EQ(Run(&HandleIncrBy, {"INCRBY", "n", "1.0"}), kNotInteger);
  EXPECT_EQ(ValueOf("n"), "9223372036854775807");
  EXPECT_EQ(Run(&HandleSet, {"SET", "n", "abc", "EX", "9"}), kOk);
  EXPECT_EQ(Run(&HandleIncr, {"INCR", "n"}), kNotInteger);
  EXPECT_EQ(Run(&HandleSet, {"SET", "n", "5", "KEEPTTL"}), kOk);
  EXPECT_EQ(Run(&HandleDecrBy, {"DECRBY", "n", "7"}), ":-2\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "n"}), ":9\r\n");
}

TEST_F(Strings, FloatCounters) {
  EXPECT_EQ(Run(&HandleIncrByFloat, {"INCRBYFLOAT", "f", "10.50"}), Bulk("10.5"));
  EXPECT_EQ(Run(&HandleIncrByFloat, {"INCRBYFLOAT", "f", "0.1"}), Bulk("10.6"));
  EXPECT_EQ(Run(&HandleIncrByFloat, {"INCRBYFLOAT", "f", "-10.6"}), Bulk("0"));
  EXPECT_EQ(Run(&HandleIncrByFloat, {"INCRBYFLOAT", "f", "2.0e2"}), Bulk("200"));
  EXPECT_EQ(Run(&HandleIncrByFloat, {"INCRBYFLOAT", "f", "x"}),
            "-ERR value is not a valid float\r\n");
  EXPECT_EQ(Run(&HandleIncrByFloat, {"INCRBYFLOAT", "f", "inf"}),
            "-ERR increment would produce NaN or Infinity\r\n");
  EXPECT_EQ(ValueOf("f"), "200");
}

TEST_F(Strings, RefusedWritesChangeNothingAndWriteNothing) {
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "old"}), kOk);
  const Seq applied = shard_->applied();
  const auto all_refuse = [&](OpResult expected) {
    for (const auto& [handler, words] :
         std::vector<std::pair<ShardHandler, Words>>{{&HandleSet, {"SET", "k", "new", "GET"}},
                                                     {&HandleGetSet, {"GETSET", "k", "new"}},
                                                     {&HandleGetDel, {"GETDEL", "k"}},
                                                     {&HandleGetEx, {"GETEX", "k", "EX", "5"}},
                                                     {&HandleAppend, {"APPEND", "k", "x"}},
                                                     {&HandleSetRange, {"SETRANGE", "k", "1", "x"}},
                                                     {&HandleIncr, {"INCR", "absent"}},
                                                     {&HandleExpire, {"EXPIRE", "k", "5"}},
                                                     {&HandleDel, {"DEL", "k"}}}) {
      EXPECT_EQ(Run(handler, words), "");
      EXPECT_EQ(result_, expected) << words[0];
    }
    EXPECT_EQ(Run(&HandleGet, {"GET", "k"}), Bulk("old"));
    EXPECT_EQ(shard_->applied(), applied);
  };
  Tick();
  disk_full_ = true;
  // Log space that was granted before may still be used up; a large write asks for more.
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", std::string(900'000, 'x')}), "");
  EXPECT_EQ(result_, OpResult::kDiskFull);
  disk_full_ = false;
  gate_.no_replicas.store(true);
  all_refuse(OpResult::kNoReplicas);
  gate_.no_replicas.store(false);
  gate_.writable.store(false);
  gate_.role.store(static_cast<uint8_t>(Role::kReplica));
  all_refuse(OpResult::kReadOnly);
}

}  // namespace
}  // namespace kvstored::command
