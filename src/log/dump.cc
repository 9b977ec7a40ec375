#include "log/dump.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/hex.h"
#include "log/block_scan.h"
#include "log/checkpoint.h"
#include "log/checkpoint_format.h"
#include "log/frame_scan.h"
#include "log/meta.h"
#include "record/record.h"

namespace kvstored::log {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kKeyBytesShown = 64;

const char* NameOf(RecordOp op) {
  switch (op) {
    case RecordOp::kSet:
      return "set";
    case RecordOp::kDelete:
      return "delete";
    case RecordOp::kAppend:
      return "append";
    case RecordOp::kSetRange:
      return "set_range";
    case RecordOp::kSetExpiry:
      return "set_expiry";
    case RecordOp::kFlush:
      return "flush";
    case RecordOp::kPart:
      return "part";
    case RecordOp::kLink:
      return "link";
    case RecordOp::kTxnEnd:
      return "txn_end";
    case RecordOp::kEpochBegin:
      return "epoch_begin";
  }
  return "unknown";
}

// Prints lines in the wanted format and counts what it saw.
class Printer {
 public:
  Printer(DumpFormat format, bool details, const std::function<void(std::string_view)>& print)
      : format_(format), details_(details), print_(print) {
  }
  void Line(const char* kind, const OrderedJson& fields) {
    if (format_ == DumpFormat::kJsonLines) {
      OrderedJson line = {{"kind", kind}};
      line.update(fields);
      print_(line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
      return;
    }
    std::string text = kind;
    for (const auto& [name, value] : fields.items()) {
      text += " " + name + "=" + value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
    }
    print_(text);
  }
  void Detail(const char* kind, const OrderedJson& fields) {
    if (details_) {
      Line(kind, fields);
    }
  }
  // The records of a frame or block whose own checksum was right.
  bool Records(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      record::Record record;
      size_t size_bytes = 0;
      if (record::Decode(bytes, &record, &size_bytes) != record::DecodeResult::kOk) {
        return false;
      }
      ++records_;
      if (details_) {
        PrintRecord(record);
      }
      bytes = bytes.subspan(size_bytes);
    }
    return true;
  }
  uint64_t records() const {
    return records_;
  }

 private:
  void PrintRecord(const record::Record& record) {
    OrderedJson fields = {{"seq", record.seq},
                          {"op", NameOf(record.op)},
                          {"epoch", record.epoch},
                          {"timestamp_us", record.timestamp_us},
                          {"key", std::string(record.key.substr(0, kKeyBytesShown))},
                          {"value_bytes", record.value.size()}};
    if (record.key.size() > kKeyBytesShown) {
      fields["key_bytes"] = record.key.size();
    }
    if (record.flags != 0) {
      fields["flags"] = record.flags;
    }
    if (record.expiry_ms != 0) {
      fields["expiry_ms"] = record.expiry_ms;
    }
    if (record.aux != 0) {
      fields["aux"] = record.aux;
    }
    Line("record", fields);
  }

  const DumpFormat format_;
  const bool details_;
  const std::function<void(std::string_view)>& print_;
  uint64_t records_ = 0;
};

std::string SiblingName(const std::string& name, uint64_t number) {
  const size_t slash = name.rfind('/');
  const std::string sibling = SegmentName("", number).substr(1);
  return slash == std::string::npos ? sibling : name.substr(0, slash + 1) + sibling;
}

// Where the successor says that this segment ends; 0: it has none.
uint64_t EndBySuccessor(NvmDevice* device, const std::string& name, const SegmentHeader& header) {
  auto file = device->Open(SiblingName(name, header.number + 1));
  std::array<uint8_t, kSegmentHeaderBytes> bytes;
  SegmentHeader successor;
  if (!file.ok() || !(*file)->Read(0, bytes).ok() ||
      DecodeSegmentHeader(bytes, &successor) != SegmentHeaderResult::kOk ||
      successor.number != header.number + 1 ||
      successor.predecessor_incarnation != header.incarnation) {
    return 0;
  }
  return successor.predecessor_end;
}

struct SegmentTotals {
  uint64_t frames = 0;
  uint64_t bad_frames = 0;
  uint64_t end = kSegmentHeaderBytes;  // of the frames before the first bad one
  bool damaged = false;
  bool torn = false;
};

void PrintFrame(const ScannedFrame& frame, bool is_whole, Printer* printer) {
  printer->Detail("frame", {{"offset", frame.offset},
                            {"shard", frame.header.shard},
                            {"first_seq", frame.header.first_seq},
                            {"records", frame.header.record_count},
                            {"bytes", frame.header.payload_bytes},
                            {"committed", frame.header.committed},
                            {"persisted_segment", frame.header.persisted.segment},
                            {"persisted_offset", frame.header.persisted.offset},
                            {"checksum", is_whole ? "ok" : "BAD"}});
}

absl::StatusOr<SegmentTotals> WalkSegment(NvmFile* file, const SegmentHeader& header,
                                          uint64_t known_end, Printer* printer) {
  SegmentTotals totals;
  bool all_good = true;
  LogPosition proven = {header.number, known_end};
  const uint64_t limit =
      known_end == 0 ? file->size_bytes() : std::min(known_end, file->size_bytes());
  Chunk chunk;
  uint64_t offset = kSegmentHeaderBytes;
  while (offset < limit) {
    KVS_ASSIGN_OR_RETURN(chunk,
                         ReadChunk(file, header.incarnation, offset, limit, std::move(chunk)));
    for (const ScannedFrame& frame : chunk.frames) {
      const bool is_whole = PayloadIsWhole(frame);
      PrintFrame(frame, is_whole, printer);
      ++totals.frames;
      proven = std::max(proven, frame.header.persisted);
      const bool is_good = is_whole && printer->Records(frame.payload);
      totals.bad_frames += is_good ? 0 : 1;
      all_good = all_good && is_good;
      if (all_good) {
        totals.end = frame.offset + FrameBytes(frame.header.payload_bytes);
      }
    }
    offset = chunk.next_offset;
    if (!chunk.ended || offset >= limit) {
      continue;
    }
    KVS_ASSIGN_OR_RETURN(const TailClaim claim,
                         SearchTail(file, header.incarnation, offset, limit));
    if (!claim.has_frames || claim.first_frame <= offset) {
      break;
    }
    printer->Detail("bad", {{"offset", offset}, {"next_frame", claim.first_frame}});
    all_good = false;
    offset = claim.first_frame;
  }
  totals.damaged = proven > LogPosition{header.number, totals.end};
  totals.torn = !totals.damaged && !all_good;
  return totals;
}

absl::Status WalkLog(NvmDevice* device, const std::string& name, NvmFile* file,
                     const SegmentHeader& header, Printer* printer) {
  const uint64_t known_end = EndBySuccessor(device, name, header);
  printer->Detail("segment", {{"number", header.number},
                              {"version", header.version},
                              {"incarnation", absl::StrFormat("%016x", header.incarnation)},
                              {"data_set", base::ToHex(header.data_set)},
                              {"predecessor_end", header.predecessor_end},
                              {"segment_bytes", header.segment_bytes},
                              {"start_seqs", header.start_seqs}});
  KVS_ASSIGN_OR_RETURN(const SegmentTotals totals, WalkSegment(file, header, known_end, printer));
  const char* state = totals.damaged ? "damaged" : totals.torn ? "torn" : "whole";
  printer->Line("summary", {{"file", name},
                            {"type", "segment"},
                            {"number", header.number},
                            {"frames", totals.frames},
                            {"bad_frames", totals.bad_frames},
                            {"records", printer->records()},
                            {"valid_end", totals.end},
                            {"state", state}});
  return totals.damaged ? absl::DataLossError(absl::StrFormat("%s/%s: damaged at offset %d",
                                                              device->Describe(), name, totals.end))
                        : absl::OkStatus();
}

absl::Status WalkCheckpoint(NvmDevice* device, const std::string& name, NvmFile* file,
                            Printer* printer) {
  KVS_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                       CheckpointReader::OpenFile(device, name));
  const CheckpointFacts& facts = reader->facts();
  printer->Detail("checkpoint", {{"number", facts.number},
                                 {"data_set", base::ToHex(facts.data_set)},
                                 {"start_seqs", facts.StartSeqs()},
                                 {"end_seqs", facts.EndSeqs()},
                                 {"newest_timestamp_us", facts.newest_timestamp_us}});
  Blocks blocks;
  uint64_t count = 0;
  uint64_t bad = 0;
  absl::Status status;
  std::vector<uint8_t> buffer;
  const uint64_t blocks_end = facts.file_bytes - kCheckpointFooterBytes;
  for (uint64_t offset = kCheckpointHeaderBytes; offset < blocks_end; offset = blocks.next_offset) {
    absl::StatusOr<Blocks> read = ReadBlocks(file, reader->incarnation(), facts.shards.size(),
                                             offset, blocks_end, std::move(blocks));
    if (!read.ok()) {
      status = read.status();
      ++bad;
      break;
    }
    blocks = *std::move(read);
    for (const Block& block : blocks.blocks) {
      const absl::StatusOr<std::span<const uint8_t>> records = RecordsOf(block, &buffer);
      printer->Detail("block", {{"offset", block.header.offset},
                                {"shard", block.header.shard},
                                {"records", block.header.record_count},
                                {"bytes", block.header.payload_bytes},
                                {"expanded_bytes", block.header.expanded_bytes},
                                {"checksum", records.ok() ? "ok" : "BAD"}});
      ++count;
      if (!records.ok() || !printer->Records(*records)) {
        ++bad;
        status = absl::DataLossError(
            absl::StrFormat("wrong checksum in the block at offset %d", block.header.offset));
      }
    }
  }
  printer->Line("summary", {{"file", name},
                            {"type", "checkpoint"},
                            {"number", facts.number},
                            {"blocks", count},
                            {"bad_blocks", bad},
                            {"records", printer->records()},
                            {"state", status.ok() ? "whole" : "damaged"}});
  return status.ok() ? status
                     : absl::DataLossError(absl::StrFormat("%s/%s: %s", device->Describe(), name,
                                                           std::string(status.message())));
}

absl::Status Walk(NvmDevice* device, const std::string& name, Printer* printer) {
  KVS_ASSIGN_OR_RETURN(const std::unique_ptr<NvmFile> file, device->Open(name));
  std::array<uint8_t, kSegmentHeaderBytes> bytes;
  const std::string path = device->Describe() + "/" + name;
  if (!file->Read(0, bytes).ok()) {
    return absl::DataLossError(path + ": too short for a log segment or a checkpoint");
  }
  SegmentHeader header;
  switch (DecodeSegmentHeader(bytes, &header)) {
    case SegmentHeaderResult::kOk:
      return WalkLog(device, name, file.get(), header, printer);
    case SegmentHeaderResult::kNewer:
      return absl::FailedPreconditionError(
          absl::StrFormat("%s has format version %d, this kvctl reads up to %d", path,
                          header.version, kLogVersion));
    case SegmentHeaderResult::kAbsent:
      printer->Line("summary", {{"file", name}, {"type", "segment"}, {"state", "unused"}});
      return absl::OkStatus();
    case SegmentHeaderResult::kBad:
      break;
  }
  if (name.size() > 4 && name.substr(name.size() - 4) == ".seg") {
    return absl::DataLossError(path + ": the segment header at offset 0 is damaged");
  }
  return WalkCheckpoint(device, name, file.get(), printer);
}

}  // namespace

absl::Status DumpFile(NvmDevice* device, const std::string& name, DumpFormat format,
                      const std::function<void(std::string_view line)>& print) {
  Printer printer(format, /*details=*/true, print);
  return Walk(device, name, &printer);
}

absl::Status VerifyFile(NvmDevice* device, const std::string& name, DumpFormat format,
                        const std::function<void(std::string_view line)>& print) {
  Printer printer(format, /*details=*/false, print);
  return Walk(device, name, &printer);
}

}  // namespace kvstored::log
