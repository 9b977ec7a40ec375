#include "log/txn_cut.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "log/damage.h"

namespace kvstored::log {

absl::Status TxnTracker::Add(ShardId shard, const record::Cursor& record) {
  ShardState& state = shards_[shard];
  const Seq seq = record.seq();
  const RecordOp op = record.op();
  if (op == RecordOp::kPart && record.aux() == 0) {
    state.runs.push_back({seq, 0});
  } else if (op == RecordOp::kLink) {
    for (Run& run : state.runs) {
      if (run.first_seq == record.aux() && run.end_seq == 0) {
        run.end_seq = seq;
      }
    }
  } else if (op == RecordOp::kEpochBegin) {
    for (Run& run : state.runs) {
      if (run.end_seq == 0) {
        run.end_seq = seq;  // a new epoch drops open runs
      }
    }
  }
  if (op != RecordOp::kTxnEnd) {
    if ((record.flags() & kRecordInTxn) != 0 && state.open_txn_first == 0) {
      state.open_txn_first = seq;
    }
    return absl::OkStatus();
  }
  Txn txn;
  txn.first_seq = state.open_txn_first == 0 ? seq : state.open_txn_first;
  txn.end_seq = seq;
  state.open_txn_first = 0;
  if (!record::DecodeTxnParts(record.value(), &txn.parts)) {
    return DamageError(
        absl::StrFormat("shard %d: closing record %d of a transaction has a bad list", shard, seq));
  }
  for (const record::TxnPart& part : txn.parts) {
    if (part.shard >= shards_.size()) {
      return DamageError(absl::StrFormat("shard %d: closing record %d names shard %d of %d", shard,
                                         seq, part.shard, shards_.size()));
    }
  }
  state.txns.push_back(std::move(txn));
  return absl::OkStatus();
}

void TxnTracker::CutAbove(ShardId shard, Seq seq) {
  ShardState& state = shards_[shard];
  if (state.open_txn_first > seq) {
    state.open_txn_first = 0;
  }
  while (!state.txns.empty() && state.txns.back().end_seq > seq) {
    if (state.txns.back().first_seq <= seq) {
      state.open_txn_first = state.txns.back().first_seq;
    }
    state.txns.pop_back();
  }
  while (!state.runs.empty() && state.runs.back().first_seq > seq) {
    state.runs.pop_back();
  }
  for (Run& run : state.runs) {
    if (run.end_seq > seq) {
      run.end_seq = 0;
    }
  }
}

void TxnTracker::Prune(const std::vector<Seq>& committed) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    ShardState& state = shards_[s];
    while (!state.txns.empty() && state.txns.front().end_seq <= committed[s] &&
           IsPresent(state.txns.front(), committed)) {
      state.txns.pop_front();
    }
    std::erase_if(state.runs,
                  [&](const Run& run) { return run.end_seq != 0 && run.end_seq <= committed[s]; });
  }
}

bool TxnTracker::IsPresent(const Txn& txn, const std::vector<Seq>& cut) const {
  return std::all_of(txn.parts.begin(), txn.parts.end(),
                     [&](const record::TxnPart& part) { return part.last_seq <= cut[part.shard]; });
}

// Lowers the shard's cut below its first transaction that is not whole.
bool TxnTracker::CutOnce(ShardId shard, std::vector<Seq>* cut) const {
  Seq& own = (*cut)[shard];
  for (const Txn& txn : shards_[shard].txns) {
    if (txn.first_seq > own) {
      break;
    }
    if (txn.end_seq > own || !IsPresent(txn, *cut)) {
      own = txn.first_seq - 1;
      return true;
    }
  }
  const Seq open_first = shards_[shard].open_txn_first;
  if (open_first != 0 && open_first <= own) {
    own = open_first - 1;
    return true;
  }
  return false;
}

std::vector<Seq> TxnTracker::WholeCut(const std::vector<Seq>& last_seqs) const {
  std::vector<Seq> cut = last_seqs;
  // Each pass only lowers the cut, so the end is the greatest fixed point.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t s = 0; s < shards_.size(); ++s) {
      changed = CutOnce(static_cast<ShardId>(s), &cut) || changed;
    }
  }
  return cut;
}

Seq TxnTracker::OpenRunFirst(ShardId shard) const {
  for (const Run& run : shards_[shard].runs) {
    if (run.end_seq == 0) {
      return run.first_seq;
    }
  }
  return 0;
}

}  // namespace kvstored::log
