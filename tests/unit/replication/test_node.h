// A small stand-in for a node's log, shards and meta.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "record/cursor.h"
#include "record/record.h"
#include "replication/replication.h"

namespace kvstored::replication {

// One node's log, memory and meta, as far as replication sees them. Records are kept for ever
// unless TrimLog says otherwise.
class TestNode : public NodeState, public ApplySink, public RecordSource {
 public:
  TestNode(uint8_t id, uint32_t shard_count) : shards_(shard_count) {
    facts_.store_id.bytes.fill(id);
    facts_.incarnation.bytes.fill(id);
    facts_.shard_count = shard_count;
  }

  // --- As a primary. ---

  // A new data set, or one more epoch over the one it has.
  void OpenEpoch(uint64_t epoch_id) {
    if (facts_.data_set_id.empty()) {
      facts_.data_set_id.bytes.fill(0xd5);
      facts_.data_seed.bytes.fill(0x5e);
    }
    EpochEntry entry;
    entry.epoch = {facts_.epochs.empty() ? 1 : facts_.epochs.back().epoch.number + 1, epoch_id};
    for (const Shard& shard : shards_) {
      entry.first_seq.push_back(shard.end() + 1);
    }
    facts_.epochs.push_back(entry);
    facts_.role = Role::kPrimary;
    facts_.serving = true;
    facts_.replication_port = port;
  }
  // One batch of `count` records with values of that size.
  void Write(ShardId shard, uint32_t count, size_t value_bytes = 20) {
    auto batch = std::make_shared<record::Batch>();
    batch->shard = shard;
    batch->first_seq = shards_[shard].end() + 1;
    for (uint32_t i = 0; i < count; ++i) {
      const Seq seq = shards_[shard].end() + 1;
      const std::string key = "key" + std::to_string(seq % 97);
      const std::string value(value_bytes, static_cast<char>('a' + seq % 26));
      record::Record record;
      record.seq = seq;
      record.epoch = facts_.epochs.back().epoch.number;
      record.timestamp_us = seq;
      record.key = key;
      record.value = value;
      std::vector<uint8_t> bytes;
      record::Encode(record, &bytes);
      batch->bytes.insert(batch->bytes.end(), bytes.begin(), bytes.end());
      shards_[shard].Apply(key, seq);
      shards_[shard].log.push_back(std::move(bytes));
    }
    batch->last_seq = shards_[shard].end();
    batch->clock_us = batch->last_seq;
    engine->SubmitBatch(batch);
  }
  // P6 without transactions: local and what the members have acknowledged.
  void AdvanceCommitted() {
    for (ShardId shard = 0; shard < shards_.size(); ++shard) {
      Shard& s = shards_[shard];
      const Seq safe = std::min(s.end(), engine->progress().MemberFloor(shard));
      s.committed = std::max(s.committed, safe);
      engine->SetCommitted(shard, s.committed);
    }
  }
  void TrimLog(ShardId shard, Seq keep_from) {
    shards_[shard].trimmed_below = keep_from;
  }

  // --- NodeState ---

  NodeFacts Facts() override {
    NodeFacts facts = facts_;
    facts.ends.clear();
    facts.committed.clear();
    facts.log_start.clear();
    for (Shard& shard : shards_) {
      ShardEnd end{shard.end(), 0};
      if (!shard.log.empty() && checksum_known) {
        end.last_checksum = record::Cursor(shard.log.back()).checksum();
      }
      facts.ends.push_back(end);
      facts.committed.push_back(facts.role == Role::kPrimary ? shard.committed : shard.told);
      facts.log_start.push_back(std::max<Seq>(shard.trimmed_below, shard.base + 1));
    }
    return facts;
  }
  void PersistMembers(const MemberSet& members, Done done) override {
    facts_.members = members;
    events.push_back("members " + std::to_string(members.members.size()));
    done(absl::OkStatus());
  }
  void PersistPromotable(bool promotable, Done done) override {
    facts_.promotable = promotable;
    done(absl::OkStatus());
  }
  void PersistPromise(uint32_t epoch_number, Done done) override {
    if (epoch_number < facts_.promised) {
      done(absl::FailedPreconditionError("a higher epoch was promised"));
      return;
    }
    facts_.promised = epoch_number;
    done(absl::OkStatus());
  }
  void OnNewerPrimary(const NodeFacts& facts, const std::string& address) override {
    newer_primary = facts;
    newer_primary_address = address;
  }
  void OnAlarm(Refusal refusal, const std::string& text) override {
    alarms.push_back(refusal);
    alarm_text = text;
  }

  // --- ApplySink ---

  void PrepareJoin(const JoinPlan& plan, std::function<void(absl::Status)> done) override {
    ++prepared;
    plan_ = plan;
    syncing = plan.mode == JoinMode::kFullSync;
    verified_ = 0;
    for (ShardId shard = 0; shard < shards_.size(); ++shard) {
      Shard& s = shards_[shard];
      if (syncing || plan.adopt) {
        s = Shard();
        s.unset = syncing;
        continue;
      }
      ASSERT_GE(plan.common[shard], s.told) << "would cut committed records";
      ASSERT_LE(plan.common[shard], s.end());
      s.log.resize(plan.common[shard] - s.base);
      // The memory is rebuilt from what is left: items of a full sync, then the log.
      std::erase_if(s.items, [&s](const auto& item) { return item.second > s.base; });
      for (const auto& bytes : s.log) {
        s.ApplyRecord(bytes);
      }
      engine->SetLocalPersisted(shard, persist_at_once ? s.end() : 0);
    }
    facts_.data_set_id = plan.primary.data_set_id;
    facts_.data_seed = plan.primary.data_seed;
    facts_.epochs = plan.primary.epochs;
    facts_.role = Role::kReplica;
    facts_.serving = false;
    done(absl::OkStatus());
  }
  OpResult OnBatch(record::BatchRef batch) override {
    if (refuse != OpResult::kOk) {
      return refuse;
    }
    Shard& s = shards_[batch->shard];
    if (s.unset) {
      s.base = batch->first_seq - 1;
      s.unset = false;
    }
    EXPECT_EQ(batch->first_seq, s.end() + 1) << "every seq arrives exactly once";
    for (record::Cursor cursor(batch->bytes); cursor.at_record(); cursor.Next()) {
      EXPECT_EQ(cursor.seq(), s.end() + 1);
      s.log.emplace_back(cursor.bytes().begin(), cursor.bytes().end());
      s.ApplyRecord(s.log.back());
    }
    EXPECT_EQ(batch->last_seq, s.end());
    if (persist_at_once) {
      engine->SetLocalPersisted(batch->shard, s.end());
    }
    return OpResult::kOk;
  }
  OpResult OnSnapshotBatch(record::BatchRef batch) override {
    if (refuse != OpResult::kOk) {
      return refuse;
    }
    EXPECT_TRUE(syncing);
    Shard& s = shards_[batch->shard];
    if (s.unset) {
      s.base = batch->last_seq;
      s.unset = false;
    }
    EXPECT_EQ(batch->last_seq, s.end())
        << "items lie between the live records they were read between";
    for (record::Cursor cursor(batch->bytes); cursor.at_record(); cursor.Next()) {
      s.ApplyRecord({cursor.bytes().begin(), cursor.bytes().end()});
    }
    sync_item_bytes += batch->bytes.size();
    return OpResult::kOk;
  }
  void OnSnapshotEnd(ShardId shard, Seq end_seq, uint64_t state_hash) override {
    Shard& s = shards_[shard];
    EXPECT_EQ(s.end(), end_seq);
    EXPECT_EQ(s.Hash(), state_hash);
    if (++verified_ == shards_.size()) {
      syncing = false;
      ++published;
      for (ShardId i = 0; i < shards_.size(); ++i) {
        engine->SetLocalPersisted(i, shards_[i].end());
      }
      engine->FinishFullSync(sync_result);
    }
  }
  void OnFullSyncAborted(const absl::Status& /*why*/) override {
    ++aborted;
    facts_.data_set_id = Id128();
    facts_.epochs.clear();
    for (Shard& s : shards_) {
      s = Shard();
    }
  }
  void OnCommitted(ShardId shard, Seq committed, uint64_t /*clock*/) override {
    EXPECT_GT(committed, shards_[shard].told_in_link);
    EXPECT_LE(committed, shards_[shard].end()) << "committed is never above what was received";
    shards_[shard].told_in_link = committed;
    shards_[shard].told = std::max(shards_[shard].told, committed);
  }
  void OnPrimaryClock(uint64_t clock_us) override {
    primary_clock_us = clock_us;
  }
  void OnStreamState(StreamState state, Refusal refusal, std::string_view text) override {
    events.push_back(std::string(StreamStateName(state)));
    last_refusal = refusal == Refusal::kNone ? last_refusal : refusal;
    state_text = std::string(text);
    if (state == StreamState::kConnecting) {
      for (Shard& s : shards_) {
        s.told_in_link = 0;
      }
    }
  }

  // --- RecordSource ---

  void ReadLog(ShardId shard, Seq from_seq, size_t max_bytes, ReadDone done) override {
    ++log_reads;
    const Shard& s = shards_[shard];
    if (from_seq < std::max<Seq>(s.trimmed_below, s.base + 1) || from_seq > s.end()) {
      done(absl::OutOfRangeError("not in the log"));
      return;
    }
    auto batch = std::make_shared<record::Batch>();
    batch->shard = shard;
    batch->first_seq = from_seq;
    Seq seq = from_seq;
    do {
      const std::vector<uint8_t>& bytes = s.log[seq - s.base - 1];
      batch->bytes.insert(batch->bytes.end(), bytes.begin(), bytes.end());
    } while (++seq <= s.end() && batch->bytes.size() < max_bytes);
    batch->last_seq = seq - 1;
    done(record::BatchRef(std::move(batch)));
  }
  void RequestSlice(ShardId shard, uint64_t cursor, size_t budget_bytes, SliceDone done) override {
    ++slices_open;
    EXPECT_LE(slices_open, shards_.size());
    Shard& s = shards_[shard];
    auto batch = std::make_shared<record::Batch>();
    batch->shard = shard;
    batch->is_snapshot = true;
    batch->first_seq = batch->last_seq = s.end();
    uint64_t index = 0;
    for (const auto& [key, seq] : s.items) {
      if (index++ < cursor) {
        continue;
      }
      record::Record record;
      size_t size_bytes = 0;
      EXPECT_EQ(record::Decode(s.log[seq - s.base - 1], &record, &size_bytes),
                record::DecodeResult::kOk);
      record.flags |= kRecordSnapshot;
      record::Encode(record, &batch->bytes);
      if (batch->bytes.size() >= std::min(budget_bytes, slice_bytes)) {
        break;
      }
    }
    Slice slice;
    slice.next_cursor = index;
    slice.is_last = index == s.items.size();
    slice.live_from = s.end() + 1;
    slice.state_hash = s.Hash();
    slice.batch = std::move(batch);
    --slices_open;
    done(std::move(slice));
  }
  void EndSlices() override {
    ++slices_ended;
  }

  struct Shard {
    Seq base = 0;  // the log holds base + 1 ... end()
    std::vector<std::vector<uint8_t>> log;
    std::map<std::string, Seq> items;  // key -> newest seq
    Seq committed = 0;                 // as primary
    Seq told = 0;                      // as replica, ever
    Seq told_in_link = 0;
    Seq trimmed_below = 0;
    bool unset = false;  // full sync: the first batch sets the position
    Seq end() const {
      return base + log.size();
    }
    void Apply(const std::string& key, Seq seq) {
      Seq& newest = items[key];
      newest = std::max(newest, seq);
    }
    void ApplyRecord(const std::vector<uint8_t>& bytes) {
      record::Record record;
      size_t size_bytes = 0;
      ASSERT_EQ(record::Decode(bytes, &record, &size_bytes), record::DecodeResult::kOk);
      Apply(std::string(record.key), record.seq);
    }
    uint64_t Hash() const {
      uint64_t hash = 0;
      for (const auto& [key, seq] : items) {
        hash += std::hash<std::string>()(key) * 31 + seq * 0x9e3779b97f4a7c15;
      }
      return hash;
    }
  };
  Shard& shard(ShardId id) {
    return shards_[id];
  }
  NodeFacts* facts() {
    return &facts_;
  }

  Replication* engine = nullptr;
  uint16_t port = 0;
  bool persist_at_once = true;
  bool checksum_known = true;  // of the newest record: not after a restart from a checkpoint
  OpResult refuse = OpResult::kOk;
  absl::Status sync_result;
  size_t slice_bytes = 4096;
  bool syncing = false;
  int prepared = 0;
  int published = 0;
  int aborted = 0;
  int log_reads = 0;
  size_t slices_open = 0;
  int slices_ended = 0;
  uint64_t sync_item_bytes = 0;
  uint64_t primary_clock_us = 0;
  std::vector<std::string> events;
  std::vector<Refusal> alarms;
  std::string alarm_text;
  std::string state_text;
  Refusal last_refusal = Refusal::kNone;
  NodeFacts newer_primary;
  std::string newer_primary_address;

 private:
  std::vector<Shard> shards_;
  NodeFacts facts_;
  JoinPlan plan_;
  size_t verified_ = 0;
};

}  // namespace kvstored::replication
