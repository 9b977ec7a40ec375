// Whose role or right a wrong address would cost asks first who answers there.
#include <gmock/gmock.h>

#include <optional>

#include "tests/unit/server/node_fixture.h"

namespace kvstored::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kNobody[] = "127.0.0.1:9999";

class JoinTargetTest : public NodesTest {
 protected:
  // The error's text; empty: it was done.
  std::string Control(size_t i, std::vector<std::string> words) {
    std::optional<absl::StatusOr<std::string>> answer;
    machine(i).node->Control(std::move(words), [&answer](absl::StatusOr<std::string> said) {
      answer = std::move(said);
    });
    EXPECT_TRUE(StepUntil([&answer] { return answer.has_value(); }));
    return answer->ok() ? "" : std::string(answer->status().message());
  }
};

TEST_F(JoinTargetTest, APrimaryKeepsItsRoleWhenNobodyAnswers) {
  StandUp(2);
  for (const char* verb : {"join", "demote"}) {
    EXPECT_THAT(Control(0, {verb, kNobody}),
                AllOf(HasSubstr("nothing has changed"), HasSubstr(kNobody),
                      HasSubstr("replication_address")));
    EXPECT_THAT(Control(0, {verb, machine(0).address()}), HasSubstr("is this node itself"));
  }
  EXPECT_EQ(machine(0).life, 1u);
  EXPECT_EQ(machine(0).meta().role, Role::kPrimary);
  EXPECT_TRUE(machine(0).node->core()->gate.writable.load());
  EXPECT_TRUE(machine(1).meta().promotable);
  // A node that answers is followed.
  EXPECT_EQ(Control(0, {"demote", machine(1).address()}), "");
  EXPECT_TRUE(StepUntil([this] {
    return machine(0).node != nullptr && machine(0).life == 2 &&
           machine(0).meta().primary_address == machine(1).address();
  }));
}

TEST_F(JoinTargetTest, AReplicaKeepsItsRightAndHasNothingElseToLose) {
  StandUp(2);
  EXPECT_THAT(Control(1, {"join", kNobody}), HasSubstr("nothing has changed"));
  EXPECT_TRUE(machine(1).meta().promotable);
  EXPECT_EQ(machine(1).meta().primary_address, machine(0).address());
  ASSERT_TRUE(machine(1)
                  .node->core()
                  ->identity->Update([](log::Meta* meta) { meta->promotable = false; })
                  .ok());
  EXPECT_EQ(Control(1, {"join", kNobody}), "");
  EXPECT_EQ(machine(1).meta().primary_address, kNobody);
  EXPECT_EQ(Control(1, {"join", machine(0).address()}), "");
  EXPECT_TRUE(StepUntil([this] { return machine(1).meta().promotable; }));
}

}  // namespace
}  // namespace kvstored::server
