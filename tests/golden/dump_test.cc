// v10/dump: the payload of the worked example in docs/formats/dump.md.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/crc64.h"
#include "command/dump_payload.h"

namespace kvstored::command {
namespace {

TEST(DumpGolden, IsReadAndWrittenAsEver) {
  std::ifstream in(KVS_GOLDEN_DIR "/v10/dump", std::ios::binary);
  const std::string frozen{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(frozen.empty());
  EXPECT_TRUE(HasDumpVersion(frozen));
  EXPECT_TRUE(ChecksumHolds(frozen, base::Crc64(0, ChecksummedBytes(frozen))));
  const auto string = ParseDump(frozen);
  ASSERT_TRUE(string.has_value());
  EXPECT_EQ(string->plain(), "hello");
  const std::string body = DumpSmall("hello");
  EXPECT_EQ(body + DumpFooter(base::Crc64(0, body)), frozen);
}

}  // namespace
}  // namespace kvstored::command
