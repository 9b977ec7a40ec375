#include "command/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace kvstored::command {
namespace {

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(GlobMatch("*", "anything"));
  EXPECT_TRUE(GlobMatch("a*c", "abc"));
  EXPECT_TRUE(GlobMatch("a*c", "ac"));
  EXPECT_TRUE(GlobMatch("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(GlobMatch("a*c", "abd"));
  EXPECT_TRUE(GlobMatch("a?c", "abc"));
  EXPECT_FALSE(GlobMatch("a?c", "ac"));
  EXPECT_TRUE(GlobMatch("***a", "bba"));
  EXPECT_TRUE(GlobMatch("a**", "a"));
  EXPECT_FALSE(GlobMatch("", "a"));
  EXPECT_TRUE(GlobMatch("", ""));
  // As in Redis: only the callers' "*" shortcut lets an empty key through.
  EXPECT_FALSE(GlobMatch("*", ""));
}

TEST(Glob, Classes) {
  EXPECT_TRUE(GlobMatch("h[ae]llo", "hello"));
  EXPECT_FALSE(GlobMatch("h[ae]llo", "hillo"));
  EXPECT_TRUE(GlobMatch("h[^e]llo", "hallo"));
  EXPECT_FALSE(GlobMatch("h[^e]llo", "hello"));
  EXPECT_TRUE(GlobMatch("[a-c]", "b"));
  EXPECT_TRUE(GlobMatch("[c-a]", "b"));
  EXPECT_FALSE(GlobMatch("[a-c]", "d"));
  EXPECT_TRUE(GlobMatch("[\\]]", "]"));
  EXPECT_TRUE(GlobMatch("[\\a]", "a"));
  EXPECT_FALSE(GlobMatch("[]", "a"));
  EXPECT_TRUE(GlobMatch("[^]", "a"));
  EXPECT_TRUE(GlobMatch("[ab", "b"));
  EXPECT_FALSE(GlobMatch("[", "["));
  EXPECT_TRUE(GlobMatch("[^", "x"));
  EXPECT_TRUE(GlobMatch("[a-", "-"));
}

TEST(Glob, Escapes) {
  EXPECT_TRUE(GlobMatch("\\*", "*"));
  EXPECT_FALSE(GlobMatch("\\*", "a"));
  EXPECT_TRUE(GlobMatch("h\\[ae\\]llo", "h[ae]llo"));
  EXPECT_TRUE(GlobMatch("\\", "\\"));
}

TEST(Glob, CaseCanBeIgnored) {
  EXPECT_FALSE(GlobMatch("ABC", "abc"));
  EXPECT_TRUE(GlobMatch("ABC", "abc", true));
  EXPECT_TRUE(GlobMatch("[A-C]*", "bx", true));
}

// Without the bound on retries this would take longer than the universe is old.
TEST(Glob, HostilePatternsStayCheap) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) {
    pattern += "a*";
  }
  pattern += "b";
  EXPECT_FALSE(GlobMatch(pattern, std::string(4000, 'a')));
}

}  // namespace
}  // namespace kvstored::command
