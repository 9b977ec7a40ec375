#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "command/command.h"
#include "command/command_docs.h"
#include "command/dispatch.h"
#include "command/subcommand.h"
#include "kvstored/limits.h"

namespace kvstored::command {
namespace {

TEST(CommandTable, IsSortedAndFindableInAnyCase) {
  std::string_view before;
  for (const CommandSpec& spec : CommandTable()) {
    const std::string_view name = spec.name;
    EXPECT_LT(before, name);
    before = name;
    EXPECT_EQ(FindCommand(name), &spec);
    std::string upper(name);
    for (char& c : upper) {
      c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    EXPECT_EQ(FindCommand(upper), &spec);
  }
  for (const char* unknown : {"", "ge", "gett", "lpush", "a-name-longer-than-any-command"}) {
    EXPECT_EQ(FindCommand(unknown), nullptr) << unknown;
  }
  EXPECT_EQ(FindCommand(std::string_view("get\0", 4)), nullptr);
}

TEST(CommandTable, EveryEntryIsWhole) {
  for (const CommandSpec& spec : CommandTable()) {
    SCOPED_TRACE(spec.name);
    EXPECT_NE(spec.arity, 0);
    EXPECT_NE(FindCommandDoc(spec.name), nullptr);
    EXPECT_EQ(spec.first_key == 0, spec.key_step == 0);
    EXPECT_FALSE((spec.flags & kFlagWrite) != 0 && (spec.flags & kFlagReadonly) != 0);
    switch (spec.reach) {
      case Reach::kSession:
        // EXEC and WATCH are run by the session itself.
        EXPECT_TRUE(spec.session_handler != nullptr || spec.name == std::string_view("exec") ||
                    spec.name == std::string_view("watch"));
        break;
      case Reach::kKey:
      case Reach::kFanSum:
        EXPECT_NE(spec.shard_handler, nullptr);
        EXPECT_GT(spec.first_key, 0);
        break;
      case Reach::kShards:
        EXPECT_NE(spec.part_handler, nullptr);
        EXPECT_NE(spec.merge_handler, nullptr);
        break;
      case Reach::kAtomic:
        EXPECT_GT(spec.first_key, 0);
        break;
    }
  }
}

TEST(CommandTable, EverySubcommandIsWhole) {
  std::string before;
  for (const Subcommand& subcommand : Subcommands()) {
    const std::string name = FullName(subcommand);
    EXPECT_LT(before, name);
    before = name;
    EXPECT_NE(FindSubcommandDoc(name), nullptr) << name;
    const CommandSpec* spec = FindCommand(subcommand.command);
    ASSERT_NE(spec, nullptr) << name;
    EXPECT_NE(spec->flags & kFlagSubcommands, 0u) << name;
  }
  EXPECT_EQ(FindSubcommand("config", "GeT")->name, "get");
  EXPECT_EQ(FindSubcommand("config", "nosuch"), nullptr);
}

std::string RefusalOfWords(const std::vector<std::string_view>& words) {
  return RefusalOf(FindCommand(words[0]), words);
}

TEST(Refusal, NamesWhatIsWrong) {
  EXPECT_EQ(RefusalOfWords({"foo", "a", "b"}),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' ");
  EXPECT_EQ(RefusalOfWords({"GET"}), "ERR wrong number of arguments for 'get' command");
  EXPECT_EQ(RefusalOfWords({"object", "x\r\ny"}),
            "ERR unknown subcommand 'x\r\ny'. Try OBJECT HELP.");
  EXPECT_EQ(RefusalOfWords({"Config", "GET"}),
            "ERR wrong number of arguments for 'config|get' command");
  EXPECT_EQ(RefusalOfWords({"CLIENT", "setname", "a"}), "");
  EXPECT_EQ(RefusalOfWords({"COMMAND"}), "");
}

TEST(Refusal, KeysThatDoNotFitARecord) {
  const std::string fits(kKeyBytesMax, 'k');
  const std::string large(kKeyBytesMax + 1, 'k');
  EXPECT_EQ(RefusalOfWords({"GET", fits}), "");
  EXPECT_NE(RefusalOfWords({"GET", large}), "");
  EXPECT_EQ(RefusalOfWords({"SET", "a", large}), "");
  EXPECT_NE(RefusalOfWords({"MSET", "a", "1", large, "2"}), "");
  EXPECT_EQ(RefusalOfWords({"MSET", "a", large, "b", large}), "");
  EXPECT_NE(RefusalOfWords({"DEL", "a", "b", large}), "");
  EXPECT_EQ(RefusalOfWords({"OBJECT", "HELP"}), "");
}

}  // namespace
}  // namespace kvstored::command
