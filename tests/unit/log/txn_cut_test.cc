// Whole transactions only, and open runs.
#include "log/txn_cut.h"

#include "tests/unit/log/log_fixture.h"

namespace kvstored::log {
namespace {

record::Record InTxn() {
  record::Record record = Harness::Plain(0, "t");
  record.flags = kRecordInTxn;
  return record;
}
record::Record TxnEnd(const std::string& parts) {
  record::Record record;
  record.op = RecordOp::kTxnEnd;
  record.flags = kRecordInTxn;
  record.value = parts;
  return record;
}
record::Record Part(Seq run) {
  record::Record record = Harness::Plain(0, "part");
  record.op = RecordOp::kPart;
  record.aux = run;
  return record;
}
record::Record Link(Seq run) {
  record::Record record = Harness::Plain(0, "link");
  record.op = RecordOp::kLink;
  record.aux = run;
  return record;
}
record::Record EpochBegin() {
  record::Record record;
  record.op = RecordOp::kEpochBegin;
  return record;
}

std::vector<Seq> WholeOf(Harness* h) {
  auto recovery = h->Scan();
  EXPECT_TRUE(recovery.ok()) << recovery.status();
  std::vector<Seq> whole;
  for (const RecoveredShard& shard : (*recovery)->result().shards) {
    whole.push_back(shard.whole_txn_seq);
  }
  return whole;
}

TEST(TxnCutTest, MissingPartCutsAllItsParts) {
  Harness h(3);
  h.Create();
  h.SubmitValues(0, {"a"});
  h.SubmitValues(1, {"b"});
  // A transaction over shards 0 and 1: records 2, end 3 in shard 0; record 2, end 3 in shard 1.
  const std::string parts = record::EncodeTxnParts(std::vector<record::TxnPart>{{0, 3}, {1, 3}});
  h.Submit(0, {InTxn(), TxnEnd(parts)});
  h.SubmitValues(0, {"after"});
  h.SubmitValues(2, {"elsewhere"});
  h.log->Step();
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{1, 1, 1}));
  h.Submit(1, {InTxn()});
  h.log->Step();
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{1, 1, 1}));
  h.Submit(1, {TxnEnd(parts)});
  h.log->Step();
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{4, 3, 1}));
}

TEST(TxnCutTest, CutsSpreadThroughChainsOfTransactions) {
  Harness h(3);
  h.Create();
  // t1 over 0 and 1, t2 over 1 and 2, t3 over 2 and 0 (whose part in 0 is missing).
  const auto parts = [](ShardId a, Seq p, ShardId b, Seq q) {
    return record::EncodeTxnParts(std::vector<record::TxnPart>{{a, p}, {b, q}});
  };
  h.Submit(2, {InTxn(), TxnEnd(parts(2, 2, 0, 2))});
  h.Submit(2, {InTxn(), TxnEnd(parts(1, 2, 2, 4))});
  h.Submit(1, {InTxn(), TxnEnd(parts(1, 2, 2, 4))});
  h.Submit(1, {InTxn(), TxnEnd(parts(0, 4, 1, 4))});
  h.SubmitValues(1, {"x"});
  h.log->Step();
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{0, 0, 0}));
  h.Submit(0, {InTxn(), TxnEnd(parts(2, 2, 0, 2))});
  h.log->Step();
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{2, 2, 4}));
  h.Submit(0, {InTxn(), TxnEnd(parts(0, 4, 1, 4))});
  h.log->Step();
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{4, 5, 4}));
}

TEST(TxnCutTest, UnclosedTransactionOfOneShardIsCut) {
  Harness h(1);
  h.Create();
  h.SubmitValues(0, {"a", "b"});
  h.Submit(0, {InTxn(), InTxn()});
  h.log->Step();
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{2}));
  h.Submit(0, {TxnEnd(record::EncodeTxnParts(std::vector<record::TxnPart>{{0, 5}}))});
  h.log->Step();
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{5}));
  // The cut is made real by the log and stays.
  h.Submit(0, {InTxn()});
  h.log->Step();
  ASSERT_TRUE(h.log->CutAbove(WholeOf(&h)).ok());
  EXPECT_EQ(WholeOf(&h), (std::vector<Seq>{5}));
  auto recovery = h.Scan();
  ASSERT_TRUE(recovery.ok());
  EXPECT_EQ((*recovery)->result().shards[0].last_seq, 5u);
}

TEST(TxnCutTest, PartsBelowTheStartArePresent) {
  TxnTracker tracker(2);
  std::vector<uint8_t> bytes;
  const std::string parts = record::EncodeTxnParts(std::vector<record::TxnPart>{{0, 50}, {1, 10}});
  record::Record end = TxnEnd(parts);
  end.seq = 50;
  record::Encode(end, &bytes);
  ASSERT_TRUE(tracker.Add(0, record::Cursor(bytes)).ok());
  // Shard 1's log begins above 10: last_seq is at least its start.
  EXPECT_EQ(tracker.WholeCut({50, 10}), (std::vector<Seq>{50, 10}));
  EXPECT_EQ(tracker.WholeCut({50, 9}), (std::vector<Seq>{49, 9}));
  tracker.Prune({50, 10});
  EXPECT_EQ(tracker.WholeCut({50, 9}), (std::vector<Seq>{50, 9}));  // known committed: forgotten
}

TEST(TxnCutTest, BadListIsDamage) {
  Harness h(2);
  h.Create();
  h.Submit(0, {TxnEnd(record::EncodeTxnParts(std::vector<record::TxnPart>{{7, 1}}))});
  h.log->Step();
  EXPECT_EQ(h.Scan().status().code(), absl::StatusCode::kDataLoss);
}

Seq OpenRun(Harness* h) {
  auto recovery = h->Scan();
  EXPECT_TRUE(recovery.ok()) << recovery.status();
  return (*recovery)->result().shards[0].open_run_first;
}

TEST(TxnCutTest, OpenRuns) {
  Harness h(1);
  h.Create();
  h.SubmitValues(0, {"a"});
  h.Submit(0, {Part(0), Part(2)});
  h.Submit(0, {Part(0)});
  h.log->Step();
  EXPECT_EQ(OpenRun(&h), 2u);
  h.Submit(0, {Link(2)});
  h.log->Step();
  EXPECT_EQ(OpenRun(&h), 4u);
  ASSERT_TRUE(h.log->CutAbove({4}).ok());  // the link is gone: open again
  EXPECT_EQ(OpenRun(&h), 2u);
  h.submitted[0].resize(4);
  h.Submit(0, {EpochBegin()});
  h.log->Step();
  EXPECT_EQ(OpenRun(&h), 0u);
}

}  // namespace
}  // namespace kvstored::log
