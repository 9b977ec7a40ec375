// Values above one record: runs of parts, waiting in between, conditions judged at the end.
#include "command/keys.h"
#include "command/strings.h"
#include "tests/unit/command/handler_fixture.h"

namespace kvstored::command {
namespace {

constexpr size_t kLargeBytes = 3 * kPartBytesMax + 17;

std::string LargeValue(char seed, size_t bytes = kLargeBytes) {
  std::string value(bytes, seed);
  for (size_t i = 0; i < bytes; i += 997) {
    value[i] = static_cast<char>('a' + i % 26);
  }
  return value;
}

// 64 shards share the uncommitted window: each has room for one part at a time.
class LargeValues : public HandlerFixture {
 protected:
  LargeValues() : HandlerFixture(64) {
  }

  // Everything that went to the log, applied to a shard that starts empty.
  void ExpectReplayEqual() {
    Tick();
    const std::unique_ptr<shard::Shard> copy = MakeShard(64);
    copy->BeginTick(now_us_);
    const std::vector<record::BatchRef> batches = batches_;
    for (const record::BatchRef& batch : batches) {
      std::span<const uint8_t> rest(batch->bytes);
      while (!rest.empty()) {
        record::Record record;
        size_t size_bytes = 0;
        ASSERT_EQ(record::Decode(rest, &record, &size_bytes), record::DecodeResult::kOk);
        ASSERT_EQ(copy->Apply(record), OpResult::kOk);
        rest = rest.subspan(size_bytes);
      }
    }
    EXPECT_EQ(copy->store()->StateHash(), shard_->store()->StateHash());
    EXPECT_EQ(copy->store()->size(), shard_->store()->size());
  }
};

TEST_F(LargeValues, SetWaitsBetweenPartsAndIsWholeAtTheEnd) {
  const std::string value = LargeValue('x');
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", value, "EX", "100"}), "");
  EXPECT_EQ(result_, OpResult::kWait);
  EXPECT_EQ(ValueOf("k"), std::nullopt);
  EXPECT_EQ(RunToEnd(&HandleSet, {"SET", "k", value, "EX", "100"}), "+OK\r\n");
  EXPECT_EQ(ValueOf("k"), value);
  EXPECT_EQ(Run(&HandleGet, {"GET", "k"}),
            "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n");
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":100\r\n");
  ExpectReplayEqual();
}

TEST_F(LargeValues, ConditionsAreJudgedWhenTheRunIsComplete) {
  const std::string value = LargeValue('x');
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", value, "NX"}), "");
  ASSERT_EQ(result_, OpResult::kWait);
  ASSERT_EQ(shard_->Reserve(1, 10, true), OpResult::kOk);
  ASSERT_EQ(shard_->Set(KeyOf("k"), "first", 0), OpResult::kOk);
  EXPECT_EQ(RunToEnd(&HandleSet, {"SET", "k", value, "NX"}), "$-1\r\n");
  EXPECT_EQ(ValueOf("k"), "first");
  EXPECT_EQ(RunToEnd(&HandleSetNx, {"SETNX", "other", value}), ":1\r\n");
  EXPECT_EQ(RunToEnd(&HandleGetSet, {"GETSET", "k", value}), "$5\r\nfirst\r\n");
  EXPECT_EQ(ValueOf("k"), value);
  ExpectReplayEqual();
}

TEST_F(LargeValues, AppendOfMoreThanOneRecord) {
  const std::string tail = LargeValue('y');
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "head", "EX", "100"}), "+OK\r\n");
  EXPECT_EQ(RunToEnd(&HandleAppend, {"APPEND", "k", tail}),
            ":" + std::to_string(tail.size() + 4) + "\r\n");
  EXPECT_EQ(ValueOf("k"), "head" + tail);
  EXPECT_EQ(Run(&HandleTtl, {"TTL", "k"}), ":100\r\n");
  Tick();
  EXPECT_EQ(RunToEnd(&HandleAppend, {"APPEND", "k", "!"}),
            ":" + std::to_string(tail.size() + 5) + "\r\n");
  EXPECT_EQ(RunToEnd(&HandleAppend, {"APPEND", "absent", tail}),
            ":" + std::to_string(tail.size()) + "\r\n");
  ExpectReplayEqual();
}

TEST_F(LargeValues, AppendStartsAgainWhenTheItemChangesMeanwhile) {
  const std::string tail = LargeValue('y');
  EXPECT_EQ(Run(&HandleSet, {"SET", "k", "head"}), "+OK\r\n");
  EXPECT_EQ(Run(&HandleAppend, {"APPEND", "k", tail}), "");
  ASSERT_EQ(result_, OpResult::kWait);
  ASSERT_EQ(shard_->Reserve(1, 10, true), OpResult::kOk);
  ASSERT_EQ(shard_->Append(KeyOf("k"), "+"), OpResult::kOk);
  EXPECT_EQ(RunToEnd(&HandleAppend, {"APPEND", "k", tail}),
            ":" + std::to_string(tail.size() + 5) + "\r\n");
  EXPECT_EQ(ValueOf("k"), "head+" + tail);
  ExpectReplayEqual();
}

TEST_F(LargeValues, SetRangeBeyondOneRecord) {
  EXPECT_EQ(RunToEnd(&HandleSetRange, {"SETRANGE", "k", "2000000", "end"}), ":2000003\r\n");
  EXPECT_EQ(ValueOf("k"), std::string(2'000'000, '\0') + "end");
  Tick();
  const std::string middle = LargeValue('z', kPartBytesMax + 5);
  EXPECT_EQ(RunToEnd(&HandleSetRange, {"SETRANGE", "k", "10", middle}), ":2000003\r\n");
  Tick();
  EXPECT_EQ(RunToEnd(&HandleSetRange, {"SETRANGE", "k", "5", "five"}), ":2000003\r\n");
  std::string expected = std::string(2'000'000, '\0') + "end";
  expected.replace(10, middle.size(), middle);
  expected.replace(5, 4, "five");
  EXPECT_EQ(ValueOf("k"), expected);
  EXPECT_EQ(Run(&HandleGetRange, {"GETRANGE", "k", "3", "12"}),
            "$10\r\n" + expected.substr(3, 10) + "\r\n");
  ExpectReplayEqual();
}

TEST_F(LargeValues, GetDelSharesTheChainThatItRemoves) {
  const std::string value = LargeValue('x', 200'000);
  EXPECT_EQ(RunToEnd(&HandleSet, {"SET", "k", value}), "+OK\r\n");
  EXPECT_EQ(RunToEnd(&HandleGetDel, {"GETDEL", "k"}), "$200000\r\n" + value + "\r\n");
  EXPECT_EQ(ValueOf("k"), std::nullopt);
  ExpectReplayEqual();
}

}  // namespace
}  // namespace kvstored::command
