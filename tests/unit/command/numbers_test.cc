#include "command/numbers.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvstored::command {
namespace {

TEST(Numbers, IntegersAreStrict) {
  int64_t value = 0;
  EXPECT_TRUE(ParseInt64("0", &value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(ParseInt64("-1", &value));
  EXPECT_EQ(value, -1);
  EXPECT_TRUE(ParseInt64("9223372036854775807", &value));
  EXPECT_EQ(value, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(ParseInt64("-9223372036854775808", &value));
  EXPECT_EQ(value, std::numeric_limits<int64_t>::min());
  for (const char* bad :
       {"", " 1", "1 ", "+1", "01", "-0", "00", "-", "--1", "1.0", "1e3", "0x1",
        "9223372036854775808", "-9223372036854775809", "99999999999999999999999"}) {
    EXPECT_FALSE(ParseInt64(bad, &value)) << bad;
  }
  EXPECT_FALSE(ParseInt64(std::string_view("1\0", 2), &value));
}

TEST(Numbers, FloatsAreWhatStrtoldReadsWhole) {
  long double value = 0;
  for (const char* good : {"1", "-1.5", ".5", "5.", "1e3", "0x1p3", "inf", "00.5", "+2"}) {
    EXPECT_TRUE(ParseLongDouble(good, &value)) << good;
  }
  for (const char* bad : {"", " 1", "1 ", "nan", "abc", "1..2", "1e5000", "1e-5000", "1e"}) {
    EXPECT_FALSE(ParseLongDouble(bad, &value)) << bad;
  }
  EXPECT_FALSE(ParseLongDouble(std::string_view("1.5\0", 4), &value));
}

TEST(Numbers, FloatsPrintAsRedisPrintsThem) {
  EXPECT_EQ(FormatLongDouble(0.1L), "0.1");
  EXPECT_EQ(FormatLongDouble(3.0L), "3");
  EXPECT_EQ(FormatLongDouble(-0.0L), "0");
  EXPECT_EQ(FormatLongDouble(-1e-19L), "0");
  EXPECT_EQ(FormatLongDouble(1e-17L), "0.00000000000000001");
  EXPECT_EQ(FormatLongDouble(100.0L), "100");
  EXPECT_EQ(FormatLongDouble(5.0e20L), "500000000000000000000");
}

TEST(Numbers, CursorsReadAsStrtoulDoes) {
  uint64_t cursor = 7;
  EXPECT_TRUE(ParseCursor("0", &cursor));
  EXPECT_EQ(cursor, 0u);
  EXPECT_TRUE(ParseCursor("18446744073709551615", &cursor));
  EXPECT_EQ(cursor, std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(ParseCursor("-1", &cursor));
  EXPECT_TRUE(ParseCursor("", &cursor));
  EXPECT_FALSE(ParseCursor("18446744073709551616", &cursor));
  EXPECT_FALSE(ParseCursor("a", &cursor));
  EXPECT_FALSE(ParseCursor("1x", &cursor));
  EXPECT_FALSE(ParseCursor(" 1", &cursor));
}

TEST(Numbers, SumsAreChecked) {
  int64_t sum = 0;
  EXPECT_TRUE(AddInt64(1, -2, &sum));
  EXPECT_EQ(sum, -1);
  EXPECT_FALSE(AddInt64(std::numeric_limits<int64_t>::max(), 1, &sum));
  EXPECT_FALSE(AddInt64(std::numeric_limits<int64_t>::min(), -1, &sum));
}

}  // namespace
}  // namespace kvstored::command
