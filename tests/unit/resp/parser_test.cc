#include "resp/parser.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace kvstored::resp {
namespace {

using Command = std::vector<std::string>;

struct Outcome {
  std::vector<Command> commands;
  std::string error;
  size_t left_bytes = 0;
};

// Feeds `input` in pieces that end at `cuts`, moving the bytes at every step as a connection would.
Outcome Feed(const std::string& input, const std::vector<size_t>& cuts,
             const ParserLimits& limits = {}) {
  Outcome outcome;
  Parser parser;
  std::string held;
  size_t fed = 0;
  std::vector<std::string_view> args;
  for (size_t step = 0; step <= cuts.size(); ++step) {
    const size_t end = step < cuts.size() ? cuts[step] : input.size();
    held = std::string(held).append(input, fed, end - fed);
    fed = end;
    while (true) {
      args.clear();
      const ParseResult result = parser.Next(held, limits, &args);
      if (result == ParseResult::kNeedMore) {
        break;
      }
      if (result == ParseResult::kError) {
        outcome.error = parser.error();
        return outcome;
      }
      if (result == ParseResult::kCommand) {
        outcome.commands.emplace_back(args.begin(), args.end());
      }
      held.erase(0, parser.command_bytes());
    }
  }
  outcome.left_bytes = held.size();
  return outcome;
}

std::string Encode(const Command& command) {
  std::string bytes = "*" + std::to_string(command.size()) + "\r\n";
  for (const std::string& word : command) {
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return bytes;
}

TEST(ParserTest, SplitAtEveryByte) {
  const std::string input = Encode({"SET", "key", std::string("\r\n$5\0*", 6)}) + "PING\r\n" +
                            "*0\r\n" + "\r\n" + Encode({"GET", ""}) +
                            "  ECHO \"a\\x41b\"  'c d' \n" + "*-1\r\n" +
                            Encode({std::string(300, 'x')});
  const std::vector<Command> expected = {{"SET", "key", std::string("\r\n$5\0*", 6)},
                                         {"PING"},
                                         {"GET", ""},
                                         {"ECHO", "aAb", "c d"},
                                         {std::string(300, 'x')}};
  for (size_t cut = 0; cut <= input.size(); ++cut) {
    const Outcome outcome = Feed(input, {cut});
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.commands, expected) << "cut at " << cut;
    EXPECT_EQ(outcome.left_bytes, 0u);
  }
  std::vector<size_t> every;
  for (size_t i = 1; i < input.size(); ++i) {
    every.push_back(i);
  }
  EXPECT_EQ(Feed(input, every).commands, expected);
}

TEST(ParserTest, ErrorsWordedAsRedis) {
  const std::string long_line(kLineBytesMax + 1, 'a');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"*abc\r\n", "invalid multibulk length"},
      {"*1048577\r\n", "invalid multibulk length"},
      {"*99999999999999999999\r\n", "invalid multibulk length"},
      {"*01\r\n", "invalid multibulk length"},
      {"*1\r\n$-1\r\n", "invalid bulk length"},
      {"*1\r\n$536870913\r\n", "invalid bulk length"},
      {"*1\r\n$9223372036854775807\r\n", "invalid bulk length"},
      {"*1\r\n$ 1\r\n", "invalid bulk length"},
      {"*1\r\n:1\r\n", "expected '$', got ':'"},
      {"*1\r\n" + long_line, "too big bulk count string"},
      {"*" + long_line, "too big mbulk count string"},
      {long_line, "too big inline request"},
      {"set \"a b\r\n", "unbalanced quotes in request"},
      {"set \"a\"b\r\n", "unbalanced quotes in request"},
      {"set 'a\r\n", "unbalanced quotes in request"},
  };
  for (const auto& [input, error] : cases) {
    EXPECT_EQ(Feed(input, {}).error, "Protocol error: " + error) << input.substr(0, 40);
  }
}

TEST(ParserTest, UnauthenticatedLimits) {
  EXPECT_EQ(Feed("*11\r\n", {}, kUnauthenticatedLimits).error,
            "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(Feed("*1\r\n$16385\r\n", {}, kUnauthenticatedLimits).error,
            "Protocol error: unauthenticated bulk length");
  EXPECT_EQ(
      Feed(Encode({"AUTH", std::string(16384, 'p')}), {}, kUnauthenticatedLimits).commands.size(),
      1u);
}

TEST(ParserTest, DeclaredLengthsAllocateNothing) {
  Parser parser;
  std::vector<std::string_view> args;
  const std::string input = "*1048576\r\n$536870912\r\n";
  EXPECT_EQ(parser.Next(input, {}, &args), ParseResult::kNeedMore);
  EXPECT_EQ(args.capacity(), 0u);
  EXPECT_EQ(parser.bytes_wanted(), input.size() + (size_t{512} << 20) + 2);
}

TEST(ParserTest, ResetStartsTheCommandAgain) {
  Parser parser;
  std::vector<std::string_view> args;
  const std::string input = Encode({"SET", "k", "v"});
  EXPECT_EQ(parser.Next(std::string_view(input).substr(0, input.size() - 3), {}, &args),
            ParseResult::kNeedMore);
  parser.Reset();
  EXPECT_EQ(parser.Next(input, {}, &args), ParseResult::kCommand);
  EXPECT_EQ(args.size(), 3u);
  EXPECT_EQ(parser.command_bytes(), input.size());
}

TEST(ParserTest, GarbageNeverReadsBeyondItsEnd) {
  std::mt19937 random(7);
  const std::string alphabet = "*$0123456789-\r\n\"'\\x a";
  for (int round = 0; round < 20000; ++round) {
    std::string input;
    const size_t bytes = random() % 60;
    for (size_t i = 0; i < bytes; ++i) {
      input.push_back(random() % 20 == 0 ? static_cast<char>(random())
                                         : alphabet[random() % alphabet.size()]);
    }
    const std::vector<size_t> cuts =
        bytes == 0 ? std::vector<size_t>{} : std::vector{random() % bytes};
    const Outcome whole = Feed(input, {});
    const Outcome cut = Feed(input, cuts);
    EXPECT_EQ(whole.commands, cut.commands) << input;
    EXPECT_EQ(whole.error, cut.error) << input;
  }
}

}  // namespace
}  // namespace kvstored::resp
