// What the log's tests share: a log on a simulated device, and reading it back.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/random.h"
#include "log/log.h"
#include "log/recovery.h"
#include "record/batch.h"
#include "record/cursor.h"
#include "record/record.h"
#include "tests/sim/sim_nvm.h"

namespace kvstored::log {

inline constexpr char kLogDirectory[] = "set/log";
inline const Id128 kDataSet = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

class StillClock : public Clock {
 public:
  int64_t WallUs() override {
    return now_us;
  }
  int64_t MonotonicUs() override {
    return now_us;
  }
  int64_t now_us = 1700000000000000;
};

class Watermarks : public LogListener {
 public:
  explicit Watermarks(uint32_t shard_count) : written(shard_count), persisted(shard_count) {
  }
  void OnWritten(ShardId shard, Seq last_seq) override {
    written[shard] = last_seq;
  }
  void OnPersisted(ShardId shard, Seq last_seq) override {
    EXPECT_LE(last_seq, written[shard]);
    persisted[shard] = last_seq;
  }
  void OnFailed(const absl::Status& status) override {
    ++failures;
    failure = status;
  }
  std::vector<Seq> written;
  std::vector<Seq> persisted;
  int failures = 0;
  absl::Status failure;
};

// Remembers what it is handed: per shard (seq, value), in order.
class MemorySink : public RecoverySink {
 public:
  explicit MemorySink(uint32_t shard_count) : records(shard_count) {
  }
  absl::Status OnRecords(ShardId shard, std::span<const record::Record> batch) override {
    for (const record::Record& record : batch) {
      records[shard].emplace_back(record.seq, std::string(record.value));
    }
    return absl::OkStatus();
  }
  std::vector<std::vector<std::pair<Seq, std::string>>> records;
};

// One log, its device, and what was submitted to it.
class Harness {
 public:
  explicit Harness(uint32_t shards, uint64_t segment_bytes = 64 << 10, uint64_t seed = 1)
      : shard_count(shards), random(seed), device(seed), marks(shards) {
    options.device = &device;
    options.directory = kLogDirectory;
    options.shard_count = shards;
    options.data_set = kDataSet;
    options.segment_bytes = segment_bytes;
    options.clock = &clock;
    options.random = [this] {
      return random.Next();
    };
    options.listener = &marks;
    submitted.resize(shards);
    EXPECT_TRUE(device.MakeDirectory("set").ok());
    EXPECT_TRUE(device.MakeDirectory(kLogDirectory).ok());
  }

  void Create() {
    auto created = Log::Create(options, std::vector<Seq>(shard_count));
    ASSERT_TRUE(created.ok()) << created.status();
    log = *std::move(created);
  }

  RecoveryOptions ScanOptions() {
    RecoveryOptions scan;
    scan.device = &device;
    scan.directory = kLogDirectory;
    scan.shard_count = shard_count;
    scan.data_set = kDataSet;
    return scan;
  }
  absl::StatusOr<std::unique_ptr<Recovery>> Scan() {
    return Recovery::Scan(ScanOptions());
  }
  // Everything that exists, in order per shard.
  absl::StatusOr<MemorySink> ReadAll(Recovery* recovery) {
    MemorySink sink(shard_count);
    std::vector<Seq> from;
    std::vector<Seq> to;
    for (const RecoveredShard& shard : recovery->result().shards) {
      from.push_back(shard.start_seq);
      to.push_back(shard.last_seq);
    }
    KVS_RETURN_IF_ERROR(recovery->Replay(from, to, &sink));
    return sink;
  }
  // Scans, checks that what is there is an exact prefix of what was submitted, and goes on with it.
  void Reopen() {
    log.reset();
    auto recovery = Scan();
    ASSERT_TRUE(recovery.ok()) << recovery.status();
    ExpectPrefix(recovery->get());
    for (uint32_t s = 0; s < shard_count; ++s) {
      submitted[s].resize(static_cast<size_t>((*recovery)->result().shards[s].last_seq));
    }
    auto opened = Log::Open(options, (*recovery)->TakeTail());
    ASSERT_TRUE(opened.ok()) << opened.status();
    log = *std::move(opened);
  }
  void ExpectPrefix(Recovery* recovery) {
    auto sink = ReadAll(recovery);
    ASSERT_TRUE(sink.ok()) << sink.status();
    for (uint32_t s = 0; s < shard_count; ++s) {
      const auto& got = sink->records[s];
      const Seq start = recovery->result().shards[s].start_seq;
      ASSERT_EQ(got.size(), recovery->result().shards[s].last_seq - start);
      ASSERT_LE(start + got.size(), submitted[s].size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].first, start + i + 1);
        ASSERT_EQ(got[i].second, submitted[s][static_cast<size_t>(start) + i]);
      }
    }
  }

  static record::Record Plain(Seq seq, std::string_view value) {
    record::Record record;
    record.seq = seq;
    record.timestamp_us = 1000 + seq;
    record.key = "key";
    record.value = value;
    return record;
  }
  // Encodes the records as the shard's next batch (seqs are given here) and submits it.
  void Submit(ShardId shard, std::vector<record::Record> records, Seq committed = 0) {
    auto batch = std::make_shared<record::Batch>();
    batch->shard = shard;
    batch->first_seq = submitted[shard].size() + 1;
    batch->committed = committed;
    for (record::Record& record : records) {
      record.seq = submitted[shard].size() + 1;
      submitted[shard].push_back(std::string(record.value));
      record::Encode(record, &batch->bytes);
    }
    batch->last_seq = submitted[shard].size();
    log->Submit(std::move(batch));
  }
  void SubmitValues(ShardId shard, const std::vector<std::string>& values, Seq committed = 0) {
    std::vector<record::Record> records;
    records.reserve(values.size());
    for (const std::string& value : values) {
      records.push_back(Plain(0, value));
    }
    Submit(shard, std::move(records), committed);
  }
  // A batch of 1 to 4 records of random length for a random shard.
  void SubmitRandom(size_t value_bytes_max = 200) {
    const auto shard = static_cast<ShardId>(random.Below(shard_count));
    std::vector<std::string> values;
    for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
      values.push_back(
          absl::StrFormat("%d/%d/", shard, submitted[shard].size() + values.size()) +
          std::string(random.Below(value_bytes_max), static_cast<char>('a' + random.Below(26))));
    }
    SubmitValues(shard, values);
  }

  uint32_t shard_count;
  base::Random random;
  sim::SimNvmDevice device;
  StillClock clock;
  Watermarks marks;
  LogOptions options;
  std::unique_ptr<Log> log;
  std::vector<std::vector<std::string>> submitted;  // per shard: value of seq i + 1
};

}  // namespace kvstored::log
