// Snapshots of large values that change while they are read: what comes of it is the shard's state.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "tests/unit/shard/shard_fixture.h"

namespace kvstored::shard {
namespace {

class SnapshotTest : public ShardFixture, public testing::WithParamInterface<SnapshotFor> {
 protected:
  static constexpr int kKeys = 6;

  SnapshotTest() : copy_(MakeShard(&none_)) {
    cursor_.purpose = GetParam();
  }

  std::string RandomKey() {
    return "large" + std::to_string(random_.Below(kKeys));
  }
  std::string RandomBytes(size_t size_bytes) {
    return std::string(size_bytes, static_cast<char>('a' + random_.Below(26)));
  }
  void ChangeOne() {
    const std::string name = RandomKey();
    const Key key = KeyOf(name);
    const bool is_there = shard_->Find(key) != nullptr;
    const uint64_t kind = random_.Below(20);
    ASSERT_EQ(shard_->Reserve(1, 1 << 20), OpResult::kOk);
    if (kind == 0 || !is_there) {
      Set(name, RandomBytes(100'000 + random_.Below(300'000)));
    } else if (kind == 1) {
      shard_->Delete(key);
    } else if (kind == 2) {
      Set(name, "small now");
    } else if (kind == 3 && random_.Below(10) == 0) {
      shard_->Flush();
    } else if (kind < 10) {
      ASSERT_EQ(shard_->Append(key, RandomBytes(1 + random_.Below(1000))), OpResult::kOk);
    } else if (kind < 16) {
      ASSERT_EQ(shard_->SetRange(key, random_.Below(90'000), RandomBytes(1 + random_.Below(3000))),
                OpResult::kOk);
    } else {
      ASSERT_EQ(shard_->SetExpiry(key, shard_->now_ms() + 1'000'000 + random_.Below(1000)),
                OpResult::kOk);
    }
  }
  // One slice and some writes behind it.
  void Step(uint64_t budget_bytes, int changes) {
    const record::BatchRef slice = shard_->SnapshotSlice(&cursor_, budget_bytes);
    if (GetParam() == SnapshotFor::kStream) {
      PassLive();
      ASSERT_EQ(copy_->ApplyReceived(slice->last_seq), OpResult::kOk);
    }
    ASSERT_EQ(copy_->ApplySnapshot(*slice), OpResult::kOk);
    for (record::Cursor at(slice->bytes); at.at_record(); at.Next()) {
      links_ += at.op() == RecordOp::kLink ? 1 : 0;
      deltas_ += at.op() == RecordOp::kAppend || at.op() == RecordOp::kSetRange ? 1 : 0;
    }
    for (int i = 0; i < changes; ++i) {
      ChangeOne();
    }
    Commit();
  }
  void Commit() {
    shard_->Seal();
    shard_->AdvanceCommitted(shard_->applied());
  }
  void PassLive() {
    for (const record::BatchRef& batch : batches_) {
      copy_->Receive(batch);
    }
    batches_.clear();
  }
  void Begin() {
    Commit();
    batches_.clear();
    copy_->Reset(shard_->applied());
  }
  void ExpectEqual() {
    shard_->Seal();
    PassLive();
    bool verified = false;
    copy_->VerifyAt(shard_->applied(), shard_->store()->StateHash(),
                    [&verified](bool equal) { verified = equal; });
    ASSERT_EQ(copy_->ApplyReceived(shard_->applied()), OpResult::kOk);
    EXPECT_TRUE(verified);
    EXPECT_EQ(copy_->store()->size(), shard_->store()->size());
  }

  std::vector<record::BatchRef> none_;
  std::unique_ptr<Shard> copy_;
  SnapshotCursor cursor_;
  base::Random random_{1};
  int links_ = 0;
  int deltas_ = 0;
};

TEST_P(SnapshotTest, ChangedPartsOfLargeValuesAreInIt) {
  for (int seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    random_ = base::Random(static_cast<uint64_t>(seed));
    for (int i = 0; i < kKeys; ++i) {
      Set("large" + std::to_string(i), RandomBytes(100'000 + random_.Below(300'000)));
    }
    Begin();
    cursor_ = SnapshotCursor{.purpose = GetParam()};
    for (int round = 0; !cursor_.done() && !HasFatalFailure(); ++round) {
      ASSERT_LT(round, 10'000);
      Step(20'000 + random_.Below(50'000), static_cast<int>(random_.Below(6)));
    }
    ExpectEqual();
  }
  EXPECT_GT(links_, 100);
  EXPECT_EQ(deltas_ > 50, GetParam() == SnapshotFor::kStream) << deltas_;
}

// More changes than are kept: the value is read anew, as it is then.
TEST_P(SnapshotTest, AValueThatChangesALotIsReadAnew) {
  const std::string name = "large0";
  Set(name, std::string(500'000, 'v'));
  Begin();
  Step(100'000, 0);
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(shard_->Reserve(1, 1 << 20), OpResult::kOk);
    ASSERT_EQ(shard_->SetRange(KeyOf(name), 1000, std::string(900'000, static_cast<char>('a' + i))),
              OpResult::kOk);
    Commit();
  }
  while (!cursor_.done()) {
    Step(100'000, 0);
  }
  ExpectEqual();
}

// The link is out, the changes are not yet, and the key goes: it stays away.
TEST_P(SnapshotTest, WhatIsRemovedBehindItsLinkStaysAway) {
  const std::string name = "large0";
  for (int steps = 1; steps < 12; ++steps) {
    Set(name, std::string(200'000, 'v'));
    Begin();
    cursor_ = SnapshotCursor{.purpose = GetParam()};
    for (int i = 0; i < steps && !cursor_.done(); ++i) {
      Step(50'000, 0);
      if (shard_->Find(KeyOf(name)) != nullptr) {
        ASSERT_EQ(shard_->Append(KeyOf(name), std::string(30'000, 'a')), OpResult::kOk);
      }
    }
    shard_->Delete(KeyOf(name));
    while (!cursor_.done()) {
      Step(50'000, 0);
    }
    ExpectEqual();
    EXPECT_EQ(Get(copy_.get(), name), "(none)");
  }
}

INSTANTIATE_TEST_SUITE_P(Purpose, SnapshotTest,
                         testing::Values(SnapshotFor::kReplay, SnapshotFor::kStream));

}  // namespace
}  // namespace kvstored::shard
