// What recovery must know of transactions and runs: where a transaction or a run begins and ends,
// and the greatest cut that holds no transaction in part (P6, P27).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "kvstored/types.h"
#include "record/cursor.h"
#include "record/record.h"

namespace kvstored::log {

// Fed with every record of every shard in log order. Memory: transactions that are not known to be
// committed as a whole, bounded by what a node may hold uncommitted.
class TxnTracker {
 public:
  explicit TxnTracker(uint32_t shard_count) : shards_(shard_count) {
  }
  // IsDamage: a closing record that no writer of ours makes.
  absl::Status Add(ShardId shard, const record::Cursor& record);
  // Records of the shard above seq never existed.
  void CutAbove(ShardId shard, Seq seq);
  // Forgets transactions and runs that ended at or below `committed` everywhere.
  void Prune(const std::vector<Seq>& committed);

  // The greatest vector <= last_seqs that holds no transaction in part.
  std::vector<Seq> WholeCut(const std::vector<Seq>& last_seqs) const;
  // Seq of the first part of the oldest run that is still open; 0: none.
  Seq OpenRunFirst(ShardId shard) const;

 private:
  struct Txn {
    Seq first_seq = 0;
    Seq end_seq = 0;  // of its kTxnEnd
    std::vector<record::TxnPart> parts;
  };
  struct Run {
    Seq first_seq = 0;
    Seq end_seq = 0;  // of the record that linked or dropped it; 0: open
  };
  struct ShardState {
    std::deque<Txn> txns;
    std::deque<Run> runs;
    Seq open_txn_first = 0;
  };
  bool IsPresent(const Txn& txn, const std::vector<Seq>& cut) const;
  bool CutOnce(ShardId shard, std::vector<Seq>* cut) const;

  std::vector<ShardState> shards_;
};

}  // namespace kvstored::log
