#include "tests/unit/shard/shard_fixture.h"

#include <set>
#include <string>
#include <vector>

#include "kvstored/limits.h"
#include "kvstored/record_format.h"
#include "record/cursor.h"

namespace kvstored::shard {
namespace {

struct Released : Gated {
  Released() {
    release = [](Gated* self) {
      static_cast<Released*>(self)->done = true;
    };
  }
  bool done = false;
};

TEST_F(ShardFixture, WritesBecomeRecordsInSeqOrder) {
  Set("a", "1");
  Set("b", "2");
  shard_->Delete(KeyOf("a"));
  shard_->Seal();
  ASSERT_EQ(batches_.size(), 1U);
  EXPECT_EQ(batches_[0]->first_seq, 1U);
  EXPECT_EQ(batches_[0]->last_seq, 3U);
  auto replica = MakeShard(&batches_);
  Replay({batches_[0]}, replica.get());
  EXPECT_EQ(Get(replica.get(), "a"), "(none)");
  EXPECT_EQ(Get(replica.get(), "b"), "2");
  EXPECT_EQ(replica->store()->StateHash(), shard_->store()->StateHash());
}

TEST_F(ShardFixture, GateWaitsForTheWatermark) {
  Set("a", "1");
  shard_->BeginCommand();
  ASSERT_NE(shard_->Find(KeyOf("a")), nullptr);
  Released reply;
  reply.dependency = shard_->dependency();
  EXPECT_EQ(reply.dependency, 1U);
  ASSERT_FALSE(shard_->IsCommitted(reply.dependency));
  shard_->Gate(&reply);
  shard_->Seal();
  shard_->AdvanceCommitted(0);
  EXPECT_FALSE(reply.done);
  shard_->AdvanceCommitted(1);
  EXPECT_TRUE(reply.done);
}

TEST_F(ShardFixture, AMissDependsOnTheRemovalThatMadeIt) {
  Set("a", "1");
  shard_->Delete(KeyOf("a"));
  shard_->BeginCommand();
  EXPECT_EQ(shard_->Find(KeyOf("a")), nullptr);
  EXPECT_EQ(shard_->dependency(), 2U);
  shard_->BeginCommand();
  EXPECT_EQ(shard_->Find(KeyOf("never")), nullptr);
  EXPECT_EQ(shard_->dependency(), 0U);
  shard_->Seal();
  shard_->AdvanceCommitted(2);
  shard_->BeginCommand();
  EXPECT_EQ(shard_->Find(KeyOf("a")), nullptr);
  EXPECT_TRUE(shard_->IsCommitted(shard_->dependency()));
}

TEST_F(ShardFixture, AMissAfterAFlushDependsOnIt) {
  Set("a", "1");
  shard_->Flush();
  shard_->BeginCommand();
  EXPECT_EQ(shard_->Find(KeyOf("a")), nullptr);
  EXPECT_EQ(shard_->dependency(), 2U);
}

TEST_F(ShardFixture, ExpiredItemsAreHiddenAndThenRemovedByRecords) {
  Set("a", "1", kStartUs / 1000 + 10);
  EXPECT_NE(shard_->Find(KeyOf("a")), nullptr);
  shard_->BeginTick(kStartUs + 20'000);
  shard_->BeginCommand();
  EXPECT_EQ(shard_->Find(KeyOf("a")), nullptr);
  EXPECT_EQ(shard_->dependency(), 1U) << "what is hidden was seen";
  for (int tick = 0; tick < 100 && shard_->store()->size() > 0; ++tick) {
    shard_->Housekeeping();
  }
  EXPECT_EQ(shard_->store()->size(), 0U);
  EXPECT_EQ(shard_->counters().expired_keys, 1U);
}

TEST_F(ShardFixture, AReplicaNeverExpiresByItself) {
  Set("a", "1", kStartUs / 1000 + 10);
  gate_.writable.store(false);
  gate_.role.store(static_cast<uint8_t>(Role::kReplica));
  shard_->BeginTick(kStartUs + 20'000);
  for (int tick = 0; tick < 100; ++tick) {
    shard_->Housekeeping();
  }
  EXPECT_EQ(shard_->store()->size(), 1U);
}

TEST_F(ShardFixture, ReserveSaysWhyNot) {
  log_answer_ = OpResult::kDiskFull;
  EXPECT_EQ(shard_->Reserve(1, 100), OpResult::kDiskFull);
  log_answer_ = OpResult::kWait;
  EXPECT_EQ(shard_->Reserve(1, 100), OpResult::kWait) << "more is on its way: no reason to refuse";
  log_answer_ = OpResult::kOk;
  gate_.no_replicas.store(true);
  EXPECT_EQ(shard_->Reserve(1, 100), OpResult::kNoReplicas);
  gate_.no_replicas.store(false);
  pool_.SetMaxBytes(0);
  EXPECT_EQ(shard_->Reserve(1, 100), OpResult::kOutOfMemory);
  pool_.SetMaxBytes(uint64_t{1} << 30);
  gate_.writable.store(false);
  gate_.role.store(static_cast<uint8_t>(Role::kReplica));
  EXPECT_EQ(shard_->Reserve(1, 100), OpResult::kReadOnly);
  gate_.loading.store(true);
  EXPECT_EQ(shard_->Reserve(1, 100), OpResult::kLoading);
}

// P25: space that a transaction reserved and did not need is there for other shards.
TEST_F(ShardFixture, UnusedLogSpaceIsGivenBackOnceNobodyHoldsTheShard) {
  constexpr uint64_t kKeptBytesMax = 256 << 10;
  ASSERT_TRUE(shard_->TryHold(7));
  ASSERT_EQ(shard_->ReserveLog(3, 10 << 20), OpResult::kOk);
  shard_->Housekeeping();
  EXPECT_GE(log_promised_bytes_, uint64_t{10} << 20) << "the holder has not written yet";
  shard_->ReleaseHold(7);
  shard_->Housekeeping();
  EXPECT_LE(log_promised_bytes_, kKeptBytesMax);
  // What lies in the open batch is not given back.
  const std::string value(300'000, 'v');
  Set("a", value);
  Set("b", value);
  shard_->Housekeeping();
  EXPECT_GE(log_promised_bytes_, 2 * value.size());
  shard_->Seal();
  const uint64_t written_bytes = batches_.back()->bytes.size();
  shard_->Housekeeping();
  EXPECT_GE(log_promised_bytes_, written_bytes);
  EXPECT_LE(log_promised_bytes_, written_bytes + kKeptBytesMax);
}

TEST_F(ShardFixture, TheUncommittedWindowIsBounded) {
  const std::string value(kPartBytesMax, 'v');
  int written = 0;
  while (shard_->Reserve(1, value.size() + 8) == OpResult::kOk) {
    ASSERT_EQ(shard_->Set(KeyOf("k" + std::to_string(written)), value, 0), OpResult::kOk);
    shard_->Seal();
    ASSERT_LT(++written, 1000);
  }
  EXPECT_EQ(shard_->Reserve(1, value.size() + 8), OpResult::kWait);
  EXPECT_EQ(shard_->Reserve(1, value.size() + 8, true), OpResult::kOk) << "force";
  EXPECT_GE(static_cast<size_t>(written) * value.size(), kUncommittedBytesMax * 9 / 10);
  shard_->AdvanceCommitted(shard_->applied());
  EXPECT_EQ(shard_->Reserve(1, value.size() + 8), OpResult::kOk);
}

TEST_F(ShardFixture, CommittedPassesATransactionOnlyWithAllItsParts) {
  auto commit = std::make_shared<TxnCommit>(2);
  Set("before", "1");
  shard_->BeginTxn(7);
  Set("a", "1");
  const std::vector<record::TxnPart> parts = {{.shard = 0, .last_seq = shard_->TxnEndSeq()},
                                              {.shard = 1, .last_seq = 50}};
  shard_->EndTxn(parts, commit);
  Set("after", "1");
  shard_->Seal();
  shard_->AdvanceCommitted(4);
  EXPECT_EQ(shard_->committed(), 1U) << "the other shard's part is missing";
  EXPECT_EQ(commit->parts_left.load(), 1U);
  shard_->AdvanceCommitted(4);
  EXPECT_EQ(commit->parts_left.load(), 1U) << "counted once";
  commit->parts_left.store(0);
  shard_->AdvanceCommitted(4);
  EXPECT_EQ(shard_->committed(), 4U);
}

// What an earlier primary left behind may hold parts of transactions whose other parts lie in other
// shards: no shard knows them any more, so all shards pass it together.
TEST_F(ShardFixture, WhatAnEpochTakesOverIsCommittedInAllShardsTogether) {
  Set("told", "1");
  Set("a", "1");
  shard_->Seal();
  std::vector<record::BatchRef> mine;
  auto heir = MakeShard(&mine);
  std::vector<record::BatchRef> others;
  auto sibling = MakeShard(&others);
  sibling->NoteApplied();
  EXPECT_EQ(sibling->dependency(), 0U) << "nothing is there";
  heir->Receive(batches_[0]);
  ASSERT_EQ(heir->ApplyCommitted(1), OpResult::kOk);
  ASSERT_EQ(heir->ApplyReceived(2), OpResult::kOk);
  auto commit = std::make_shared<TxnCommit>(2);
  heir->BeginEpoch({.number = 2, .id = 22}, commit);
  sibling->BeginEpoch({.number = 2, .id = 22}, commit);
  sibling->BeginCommand();
  sibling->NoteApplied();
  EXPECT_EQ(sibling->dependency(), 0U) << "the record of the epoch changes no reply";
  heir->BeginCommand();
  heir->NoteApplied();
  EXPECT_EQ(heir->dependency(), 2U) << "what was taken over does";
  heir->AdvanceCommitted(3);
  EXPECT_EQ(heir->committed(), 1U);
  sibling->AdvanceCommitted(1);
  EXPECT_EQ(sibling->committed(), 1U);
  heir->AdvanceCommitted(3);
  EXPECT_EQ(heir->committed(), 3U);
}

TEST_F(ShardFixture, AnOpenTransactionHoldsTheWatermark) {
  shard_->BeginTxn(7);
  Set("a", "1");
  shard_->Seal();
  shard_->AdvanceCommitted(1);
  EXPECT_EQ(shard_->committed(), 0U);
  shard_->EndTxn(std::vector<record::TxnPart>{{.shard = 0, .last_seq = 2}}, nullptr);
  shard_->Seal();
  shard_->AdvanceCommitted(2);
  EXPECT_EQ(shard_->committed(), 2U);
}

TEST_F(ShardFixture, DeltasApplyOnlyToTheVersionTheyName) {
  Set("a", "x");
  ASSERT_EQ(shard_->Append(KeyOf("a"), "y"), OpResult::kOk);
  ASSERT_EQ(shard_->SetRange(KeyOf("a"), 3, "z"), OpResult::kOk);
  ASSERT_EQ(shard_->SetExpiry(KeyOf("a"), kStartUs), OpResult::kOk);
  shard_->Seal();
  auto replica = MakeShard(&batches_);
  Replay({batches_[0]}, replica.get());
  EXPECT_EQ(Get(replica.get(), "a"), std::string("xy\0z", 4));
  // Replayed once more over the newer state: nothing changes.
  const uint64_t hash = replica->store()->StateHash();
  for (record::Cursor cursor(batches_[0]->bytes); cursor.at_record(); cursor.Next()) {
    record::Record record;
    size_t size_bytes = 0;
    ASSERT_EQ(record::Decode(std::span(batches_[0]->bytes).subspan(cursor.offset()), &record,
                             &size_bytes),
              record::DecodeResult::kOk);
    ASSERT_EQ(replica->Apply(record), OpResult::kOk);
  }
  EXPECT_EQ(replica->store()->StateHash(), hash);
}

TEST_F(ShardFixture, LargeValuesTravelAsARunOfParts) {
  const std::string value(3 * kPartBytesMax + 17, 'q');
  shard::Run run;
  const Key key = KeyOf("large");
  ASSERT_EQ(shard_->MakeRun(value, &run), OpResult::kOk);
  ASSERT_EQ(shard_->EmitRun(&run, key), OpResult::kOk);
  shard_->Seal();
  EXPECT_EQ(Get(shard_.get(), "large"), "(none)") << "parts are inert";
  EXPECT_EQ(shard_->OldestOpen(), run.id);
  auto replica = MakeShard(&batches_);
  ASSERT_EQ(shard_->SetRun(key, std::move(run), 0), OpResult::kOk);
  shard_->Seal();
  EXPECT_EQ(shard_->OldestOpen(), shard_->applied() + 1);
  const std::vector<record::BatchRef> sent = batches_;
  Replay(sent, replica.get());
  EXPECT_EQ(Get(replica.get(), "large"), value);
  EXPECT_EQ(replica->store()->StateHash(), shard_->store()->StateHash());
}

TEST_F(ShardFixture, AReplicaAppliesOnlyWhatIsCommitted) {
  for (int i = 0; i < 10; ++i) {
    Set("k" + std::to_string(i), "v");
  }
  shard_->Seal();
  std::vector<record::BatchRef> none;
  auto replica = MakeShard(&none);
  replica->Receive(batches_[0]);
  EXPECT_EQ(replica->appended(), 10U);
  EXPECT_EQ(replica->store()->size(), 0U);
  ASSERT_EQ(replica->ApplyCommitted(4), OpResult::kOk);
  EXPECT_EQ(replica->store()->size(), 4U);
  EXPECT_EQ(replica->committed(), 4U);
  EXPECT_FALSE(replica->CutReceived(3)) << "applied records cannot be cut";
  EXPECT_TRUE(replica->CutReceived(7));
  EXPECT_EQ(replica->appended(), 7U);
  ASSERT_EQ(replica->ApplyCommitted(10), OpResult::kOk);
  EXPECT_EQ(replica->applied(), 7U);
}

TEST_F(ShardFixture, ASnapshotBesideWritesGivesTheSameState) {
  for (int i = 0; i < 2000; ++i) {
    Set("k" + std::to_string(i), std::string(static_cast<size_t>(i % 100), 'a'));
  }
  Set("chain", std::string(200'000, 'c'));
  shard_->Seal();
  const Seq start = shard_->applied();
  batches_.clear();
  std::vector<record::BatchRef> none;
  auto copy = MakeShard(&none);
  copy->Reset(start);
  SnapshotCursor cursor;
  int round = 0;
  while (!cursor.done()) {
    const record::BatchRef slice = shard_->SnapshotSlice(&cursor, 4096);
    // Everything up to the slice's position comes before it.
    for (const record::BatchRef& batch : batches_) {
      copy->Receive(batch);
    }
    batches_.clear();
    ASSERT_EQ(copy->ApplyReceived(slice->last_seq), OpResult::kOk);
    ASSERT_EQ(copy->ApplySnapshot(*slice), OpResult::kOk);
    // And writes go on: overwrites, removals, new keys, the large value replaced.
    Set("k" + std::to_string(round * 7 % 2000), "new");
    Set("n" + std::to_string(round), "new");
    const std::string name = "k" + std::to_string(round * 13 % 2000);
    if (shard_->Find(KeyOf(name)) != nullptr) {
      shard_->Delete(KeyOf(name));
    }
    if (round == 3) {
      Set("chain", std::string(150'000, 'd'));
    }
    shard_->Seal();
    ++round;
  }
  for (const record::BatchRef& batch : batches_) {
    copy->Receive(batch);
  }
  bool verified = false;
  copy->VerifyAt(shard_->applied(), shard_->store()->StateHash(),
                 [&verified](bool equal) { verified = equal; });
  ASSERT_EQ(copy->ApplyReceived(shard_->applied()), OpResult::kOk);
  EXPECT_TRUE(verified);
  EXPECT_GT(round, 10);
}

TEST_F(ShardFixture, ASnapshotHoldsEachItemOnce) {
  for (const int count : {0, 1, 255, 256, 20'000}) {
    for (int i = 0; i < count; ++i) {
      Set("k" + std::to_string(i), "value");
      if (i % 1000 == 0) {
        shard_->Seal();
      }
    }
    SnapshotCursor cursor;
    std::set<std::string> keys;
    size_t records = 0;
    while (!cursor.done()) {
      const record::BatchRef slice = shard_->SnapshotSlice(&cursor, 2000);
      for (record::Cursor at(slice->bytes); at.at_record(); at.Next(), ++records) {
        record::Record record;
        size_t bytes = 0;
        ASSERT_EQ(record::Decode(at.bytes(), &record, &bytes), record::DecodeResult::kOk);
        keys.emplace(record.key);
      }
    }
    EXPECT_EQ(records, static_cast<size_t>(count));
    EXPECT_EQ(keys.size(), static_cast<size_t>(count));
  }
}

TEST_F(ShardFixture, AFlushReplayedOverANewerSnapshotTakesOnlyWhatIsOlder) {
  Set("old", "1");
  shard_->Flush();
  Set("new", "2");
  shard_->Seal();
  std::vector<record::BatchRef> none;
  auto copy = MakeShard(&none);
  SnapshotCursor cursor;
  const record::BatchRef slice = shard_->SnapshotSlice(&cursor, 1 << 20);
  ASSERT_EQ(copy->ApplySnapshot(*slice), OpResult::kOk);
  Replay({batches_[0]}, copy.get());
  EXPECT_EQ(Get(copy.get(), "old"), "(none)");
  EXPECT_EQ(Get(copy.get(), "new"), "2");
}

TEST_F(ShardFixture, HeldShardsRunParkedTasksWhenReleased) {
  struct Parked : base::Task {
    int runs = 0;
  } task;
  task.run = [](base::Task* self) {
    ++static_cast<Parked*>(self)->runs;
  };
  ASSERT_TRUE(shard_->TryHold(5));
  EXPECT_TRUE(shard_->IsHeldByOther(6));
  EXPECT_FALSE(shard_->IsHeldByOther(5));
  EXPECT_FALSE(shard_->TryHold(6));
  shard_->Park(&task);
  shard_->ReleaseHold(5);
  shard_->Housekeeping();
  EXPECT_EQ(task.runs, 1);
}

}  // namespace
}  // namespace kvstored::shard
