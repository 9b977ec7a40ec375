#include "resp/writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace kvstored::resp {
namespace {

template <typename Write>
std::string Written(int protocol, Write write) {
  std::string out;
  Writer writer(&out, protocol);
  write(writer);
  return out;
}

TEST(WriterTest, BothProtocols) {
  const auto both = [](auto write, const std::string& two, const std::string& three) {
    EXPECT_EQ(Written(2, write), two);
    EXPECT_EQ(Written(3, write), three);
  };
  both([](Writer& w) { w.Simple("OK"); }, "+OK\r\n", "+OK\r\n");
  both([](Writer& w) { w.Error("ERR a\r\nb"); }, "-ERR a  b\r\n", "-ERR a  b\r\n");
  both([](Writer& w) { w.Error("ERR a \r\n"); }, "-ERR a \r\n", "-ERR a \r\n");
  both([](Writer& w) { w.Integer(INT64_MIN); }, ":-9223372036854775808\r\n",
       ":-9223372036854775808\r\n");
  both([](Writer& w) { w.Bulk(""); }, "$0\r\n\r\n", "$0\r\n\r\n");
  both([](Writer& w) { w.Bulk(std::string_view("a\0b", 3)); }, std::string("$3\r\na\0b\r\n", 9),
       std::string("$3\r\na\0b\r\n", 9));
  both([](Writer& w) { w.Null(); }, "$-1\r\n", "_\r\n");
  both([](Writer& w) { w.NullArray(); }, "*-1\r\n", "_\r\n");
  both([](Writer& w) { w.Array(2); }, "*2\r\n", "*2\r\n");
  both([](Writer& w) { w.Map(7); }, "*14\r\n", "%7\r\n");
  both([](Writer& w) { w.Set(1); }, "*1\r\n", "~1\r\n");
  both([](Writer& w) { w.Push(3); }, "*3\r\n", ">3\r\n");
  both([](Writer& w) { w.Boolean(true); }, ":1\r\n", "#t\r\n");
  both([](Writer& w) { w.Verbatim("abc"); }, "$3\r\nabc\r\n", "=7\r\ntxt:abc\r\n");
}

TEST(WriterTest, DoublesAsRedis) {
  EXPECT_EQ(Written(3, [](Writer& w) { w.Double(3.25); }), ",3.25\r\n");
  EXPECT_EQ(Written(2, [](Writer& w) { w.Double(0.1); }), "$19\r\n0.10000000000000001\r\n");
  EXPECT_EQ(Written(3, [](Writer& w) { w.Double(std::numeric_limits<double>::infinity()); }),
            ",inf\r\n");
}

}  // namespace
}  // namespace kvstored::resp
