#include "command/keys.h"

#include <set>

#include "command/keyspace.h"
#include "command/part_codec.h"
#include "command/strings.h"
#include "tests/unit/command/handler_fixture.h"

namespace kvstored::command {
namespace {

using Keys = HandlerFixture;

TEST_F(Keys, ExpireFlags) {
  Run(&HandleSet, {"SET", "k", "v"});
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "10", "XX"}), ":0\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "10", "GT"}), ":0\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "10", "LT"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "20", "NX"}), ":0\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "20", "lt"}), ":0\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "20", "xx", "gt"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":20\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "20", "zz"}), "-ERR Unsupported option zz\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "20", "nx", "gt"}),
            "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "20", "lt", "gt"}),
            "-ERR GT and LT options at the same time are not compatible\r\n");
}

TEST_F(Keys, ExpireArithmetic) {
  Run(&HandleSet, {"SET", "k", "v"});
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "9223372036854775807"}),
            "-ERR invalid expire time in 'expire' command\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "-9223372036854775808"}),
            "-ERR invalid expire time in 'expire' command\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"PEXPIRE", "k", "9223372036854775807"}),
            "-ERR invalid expire time in 'pexpire' command\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"PEXPIREAT", "k", "9223372036854775807"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"PEXPIRETIME", "k"}), ":9223372036854775807\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"EXPIRETIME", "k"}), ":9223372036854776\r\n");
  EXPECT_EQ(Run(&HandlePersist, {"PERSIST", "k"}), ":1\r\n");
  EXPECT_EQ(Run(&HandlePersist, {"PERSIST", "k"}), ":0\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":-1\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "none"}), ":-2\r\n");
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "-1"}), ":1\r\n");
  EXPECT_EQ(ValueOf("k"), std::nullopt);
  EXPECT_EQ(shard_->store()->size(), 0u);
  EXPECT_EQ(Run(&HandleExpire, {"EXPIRE", "k", "10"}), ":0\r\n");
}

TEST_F(Keys, TtlIsRounded) {
  Run(&HandleSet, {"SET", "k", "v", "PX", "1499"});
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":1\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"PTTL", "k"}), ":1499\r\n");
  Run(&HandleSet, {"SET", "k", "v", "PX", "1500"});
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":2\r\n");
  Tick(1499 * 1000);
  EXPECT_EQ(Run(&HandleTtl, {"PTTL", "k"}), ":1\r\n");
  Tick(1000);
  EXPECT_EQ(Run(&HandleTtl, {"PTTL", "k"}), ":-2\r\n");
}

TEST_F(Keys, DelCountsEachKeyOnceAndExistsEachMention) {
  Run(&HandleSet, {"SET", "a", "1"});
  Run(&HandleSet, {"SET", "b", "1"});
  EXPECT_EQ(Run(&HandleExists, {"EXISTS", "a", "a", "b", "c"}, -1), ":3\r\n");
  EXPECT_EQ(Run(&HandleDel, {"DEL", "a", "a", "b", "c"}, -1), ":2\r\n");
  EXPECT_EQ(Run(&HandleDel, {"DEL", "a"}, -1), ":0\r\n");
}

TEST_F(Keys, TypeObjectMemory) {
  Run(&HandleSet, {"SET", "n", "12"});
  Run(&HandleSet, {"SET", "e", std::string(44, 'x')});
  Run(&HandleSet, {"SET", "r", std::string(45, 'x')});
  EXPECT_EQ(Run(&HandleType, {"TYPE", "n"}), "+string\r\n");
  EXPECT_EQ(Run(&HandleType, {"TYPE", "none"}), "+none\r\n");
  EXPECT_EQ(Run(&HandleObject, {"OBJECT", "ENCODING", "n"}, 1, 2), "$3\r\nint\r\n");
  EXPECT_EQ(Run(&HandleObject, {"OBJECT", "encoding", "e"}, 1, 2), "$6\r\nembstr\r\n");
  EXPECT_EQ(Run(&HandleObject, {"OBJECT", "encoding", "r"}, 1, 2), "$3\r\nraw\r\n");
  EXPECT_EQ(Run(&HandleObject, {"OBJECT", "encoding", "none"}, 1, 2), "$-1\r\n");
  EXPECT_EQ(Run(&HandleMemory, {"MEMORY", "USAGE", "n"}, 1, 2), ":30\r\n");
  EXPECT_EQ(Run(&HandleMemory, {"MEMORY", "USAGE", "n", "SAMPLES"}, 1, 2), "-ERR syntax error\r\n");
}

TEST_F(Keys, ScanVisitsEveryKeyOnceAndEnds) {
  std::set<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = "key:" + std::to_string(i);
    Run(&HandleSet, {"SET", key, "v"});
    expected.insert(key);
    if (i % 500 == 0) {
      Tick();
    }
  }
  Run(&HandleSet, {"SET", "gone", "v", "PX", "1"});
  Tick(1000);
  std::set<std::string> seen;
  std::string cursor = "0";
  int calls = 0;
  do {
    const std::string part = RunPart(&PartScan, {"SCAN", cursor, "COUNT", "50"});
    PartReader reader(part);
    cursor = std::to_string(reader.Number());
    while (!reader.empty()) {
      seen.emplace(reader.String());
    }
    ASSERT_LT(++calls, 4000);
  } while (cursor != "0");
  EXPECT_EQ(seen, expected);
  EXPECT_GT(calls, 10);
}

TEST_F(Keys, KeysMatchesPatternsAndHidesTheExpired) {
  Run(&HandleSet, {"SET", "", "empty key"});
  Run(&HandleSet, {"SET", "abc", "v"});
  Run(&HandleSet, {"SET", "gone", "v", "PX", "1"});
  Tick(1000);
  std::string expected;
  PutString(&expected, "abc");
  EXPECT_EQ(RunPart(&PartKeys, {"KEYS", "a*"}), expected);
  EXPECT_EQ(RunPart(&PartKeys, {"KEYS", "g*"}), "");
  const std::string all = RunPart(&PartKeys, {"KEYS", "*"});
  EXPECT_EQ(all.size(), 2 * sizeof(uint64_t) + 3);
}

TEST_F(Keys, CursorsKeepShardAndPlace) {
  uint32_t shard = 0;
  uint64_t place = 0;
  const uint64_t cursor = PackScanCursor(200, uint64_t{0xabcdef} << 40);
  EXPECT_LT(cursor, uint64_t{1} << 63);
  UnpackScanCursor(cursor, &shard, &place);
  EXPECT_EQ(shard, 200u);
  EXPECT_EQ(place, uint64_t{0xabcdef} << 40);
  EXPECT_EQ(PackScanCursor(0, 0), 0u);
}

TEST_F(Keys, FlushRemovesAllAndRefusesAsWritesDo) {
  Run(&HandleSet, {"SET", "a", "1"});
  gate_.no_replicas.store(true);
  RunPart(&PartFlush, {"FLUSHALL"});
  EXPECT_EQ(result_, OpResult::kNoReplicas);
  EXPECT_EQ(ValueOf("a"), "1");
  gate_.no_replicas.store(false);
  RunPart(&PartFlush, {"FLUSHALL"});
  EXPECT_EQ(result_, OpResult::kOk);
  EXPECT_EQ(ValueOf("a"), std::nullopt);
  const std::string part = RunPart(&PartDbSize, {"DBSIZE"});
  PartReader size(part);
  EXPECT_EQ(size.Number(), 0u);
  EXPECT_EQ(RunPart(&PartRandomKey, {"RANDOMKEY"}), "");
}

}  // namespace
}  // namespace kvstored::command
