#include "record/txn_cut.h"

#include <utility>

#include "kvstored/record_format.h"

namespace kvstored::record {

TxnCut::TxnCut(std::vector<Seq> start, std::vector<Seq> end)
    : start_(std::move(start)), end_(std::move(end)), parts_(end_.size()) {
}

void TxnCut::Add(ShardId shard, const Record& record) {
  if ((record.flags & kRecordInTxn) == 0) {
    return;
  }
  std::vector<Part>& parts = parts_[shard];
  if (parts.empty() || parts.back().last != 0) {
    parts.push_back({.first = record.seq, .last = 0, .participants = {}});
  }
  if (record.op == RecordOp::kTxnEnd) {
    parts.back().last = record.seq;
    if (!DecodeTxnParts(record.value, &parts.back().participants)) {
      parts.back().last = 0;  // unreadable: as if it were not there
    }
  }
}

bool TxnCut::IsWhole(const Part& part, const std::vector<Seq>& cut) const {
  for (const TxnPart& other : part.participants) {
    if (other.shard < cut.size() && other.last_seq > start_[other.shard] &&
        other.last_seq > cut[other.shard]) {
      return false;
    }
  }
  return true;
}

std::vector<Seq> TxnCut::Greatest() const {
  std::vector<Seq> cut = end_;
  // Each pass lowers at least one shard below one more part, so this ends.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t shard = 0; shard < parts_.size(); ++shard) {
      for (const Part& part : parts_[shard]) {
        if (part.first > cut[shard]) {
          break;
        }
        const bool closed = part.last != 0 && part.last <= cut[shard];
        if (!closed || !IsWhole(part, cut)) {
          cut[shard] = part.first - 1;
          changed = true;
          break;
        }
      }
    }
  }
  return cut;
}

}  // namespace kvstored::record
