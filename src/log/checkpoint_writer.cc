#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "log/block_scan.h"
#include "log/checkpoint.h"
#include "log/checkpoint_format.h"
#include "record/cursor.h"

namespace kvstored::log {
namespace {

constexpr std::array<uint8_t, kBlockAlign> kBlockPadding{};
constexpr char kTempSuffix[] = ".tmp";
// Bytes that all shards together may hold back for their blocks.
constexpr size_t kPendingBytesMax = size_t{8} << 20;
// The device works while the next blocks are made, and never has gigabytes to persist at once,
// which would stall the log beside it.
constexpr uint64_t kWriteBackBytes = uint64_t{8} << 20;

}  // namespace

std::vector<Seq> CheckpointFacts::StartSeqs() const {
  std::vector<Seq> seqs;
  for (const CheckpointShard& shard : shards) {
    seqs.push_back(shard.start_seq);
  }
  return seqs;
}

std::vector<Seq> CheckpointFacts::EndSeqs() const {
  std::vector<Seq> seqs;
  for (const CheckpointShard& shard : shards) {
    seqs.push_back(shard.end_seq);
  }
  return seqs;
}

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Begin(
    NvmDevice* device, const std::string& directory, const Id128& data_set, uint64_t incarnation,
    const std::vector<Seq>& start_seqs) {
  auto writer = std::unique_ptr<CheckpointWriter>(new CheckpointWriter(device, directory));
  writer->incarnation_ = incarnation;
  writer->facts_.data_set = data_set;
  writer->facts_.shards.resize(start_seqs.size());
  for (size_t s = 0; s < start_seqs.size(); ++s) {
    writer->facts_.shards[s].start_seq = start_seqs[s];
  }
  writer->pending_.resize(start_seqs.size());
  writer->pending_count_.resize(start_seqs.size());
  writer->block_bytes_ =
      std::min(kBlockPayloadTarget, kPendingBytesMax / std::max<size_t>(1, start_seqs.size()));
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device->List(directory));
  for (const std::string& name : names) {
    writer->facts_.number = std::max(writer->facts_.number, ParseCheckpointName(name));
  }
  ++writer->facts_.number;
  const std::string temp_name = CheckpointName(directory, writer->facts_.number) + kTempSuffix;
  KVS_RETURN_IF_ERROR(device->Remove(temp_name));
  KVS_ASSIGN_OR_RETURN(writer->file_, device->Create(temp_name, 0));
  writer->temp_name_ = temp_name;
  std::array<uint8_t, kCheckpointHeaderBytes> header;
  EncodeCheckpointHeader(writer->facts_, incarnation, header);
  const iovec piece = {header.data(), header.size()};
  KVS_RETURN_IF_ERROR(writer->file_->Write(0, {&piece, 1}));
  writer->end_ = kCheckpointHeaderBytes;
  return writer;
}

CheckpointWriter::~CheckpointWriter() {
  if (published_ || temp_name_.empty()) {
    return;
  }
  file_.reset();
  const absl::Status status = device_->Remove(temp_name_);
  if (!status.ok()) {
    base::LogWarning(absl::StrFormat("an abandoned checkpoint stays until the next start: %s",
                                     std::string(status.message())));
  }
}

uint64_t CheckpointWriter::written_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return end_;
}

absl::Status CheckpointWriter::WriteBlock(ShardId shard) {
  std::vector<uint8_t>& records = pending_[shard];
  if (records.empty()) {
    return absl::OkStatus();
  }
  const std::span<const uint8_t> compressed = Compress(records, &compressed_);
  const std::span<const uint8_t> payload = compressed.empty() ? records : compressed;
  BlockHeader header;
  header.shard = shard;
  header.incarnation = incarnation_;
  header.offset = end_;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = base::Crc32c(0, payload.data(), payload.size());
  header.record_count = pending_count_[shard];
  header.expanded_bytes = compressed.empty() ? 0 : static_cast<uint32_t>(records.size());
  std::array<uint8_t, kBlockHeaderBytes> bytes;
  EncodeBlockHeader(header, bytes.data());
  const uint64_t total = BlockBytes(payload.size());
  const std::array<iovec, 3> pieces = {
      iovec{bytes.data(), bytes.size()},
      iovec{const_cast<uint8_t*>(payload.data()), payload.size()},
      iovec{const_cast<uint8_t*>(kBlockPadding.data()),
            static_cast<size_t>(total - kBlockHeaderBytes - payload.size())}};
  KVS_RETURN_IF_ERROR(file_->Write(end_, pieces));
  end_ += total;
  records.clear();
  pending_count_[shard] = 0;
  if (end_ - write_back_end_ >= kWriteBackBytes) {
    KVS_RETURN_IF_ERROR(file_->WriteBack());
    write_back_end_ = end_;
  }
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Add(const record::Batch& slice) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_CHECK(slice.is_snapshot && !finished_, "shard=%u snapshot=%d finished=%d", slice.shard,
            slice.is_snapshot, finished_);
  KVS_CHECK(slice.shard < pending_.size(), "shard=%u of %zu", slice.shard, pending_.size());
  CheckpointShard& shard = facts_.shards[slice.shard];
  std::vector<uint8_t>& pending = pending_[slice.shard];
  record::Cursor cursor(slice.bytes);
  for (; cursor.at_record(); cursor.Next()) {
    const auto bytes = cursor.bytes();
    pending.insert(pending.end(), bytes.begin(), bytes.end());
    ++pending_count_[slice.shard];
    ++shard.record_count;
    shard.item_bytes += bytes.size();
    if (pending.size() >= block_bytes_) {
      KVS_RETURN_IF_ERROR(WriteBlock(slice.shard));
    }
  }
  KVS_CHECK(!cursor.is_bad(), "shard=%u: a slice holds half a record", slice.shard);
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Finish(const std::vector<Seq>& end_seqs,
                                      uint64_t newest_timestamp_us) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_CHECK(end_seqs.size() == pending_.size() && !finished_, "seqs=%zu shards=%zu finished=%d",
            end_seqs.size(), pending_.size(), finished_);
  for (size_t s = 0; s < end_seqs.size(); ++s) {
    KVS_CHECK(end_seqs[s] >= facts_.shards[s].start_seq, "shard=%zu end=%llu", s,
              static_cast<unsigned long long>(end_seqs[s]));
    facts_.shards[s].end_seq = end_seqs[s];
    KVS_RETURN_IF_ERROR(WriteBlock(static_cast<ShardId>(s)));
  }
  facts_.newest_timestamp_us = newest_timestamp_us;
  facts_.file_bytes = end_ + kCheckpointFooterBytes;
  std::array<uint8_t, kCheckpointFooterBytes> footer;
  EncodeCheckpointFooter(facts_, incarnation_, footer);
  const iovec piece = {footer.data(), footer.size()};
  KVS_RETURN_IF_ERROR(file_->Write(end_, {&piece, 1}));
  KVS_RETURN_IF_ERROR(file_->Persist());
  end_ = facts_.file_bytes;
  finished_ = true;
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Publish(const std::vector<Seq>& committed,
                                       const std::vector<Seq>& persisted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  KVS_CHECK(finished_ && !published_, "finished=%d published=%d", finished_, published_);
  for (size_t s = 0; s < facts_.shards.size(); ++s) {
    const Seq end_seq = facts_.shards[s].end_seq;
    if (committed[s] < end_seq || persisted[s] < end_seq) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "shard %d: the checkpoint shows records up to %d, but committed is %d and persisted %d",
          s, end_seq, committed[s], persisted[s]));
    }
  }
  KVS_RETURN_IF_ERROR(device_->Rename(temp_name_, CheckpointName(directory_, facts_.number)));
  published_ = true;
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device_->List(directory_));
  for (const std::string& name : names) {
    const uint64_t number = ParseCheckpointName(name);
    if (number != 0 && number < facts_.number) {
      KVS_RETURN_IF_ERROR(device_->Remove(directory_ + "/" + name));
    }
  }
  return absl::OkStatus();
}

}  // namespace kvstored::log
