// The greatest vector of seqs that holds no transaction in part (docs/protocol.md "Transactions"):
// where recovery and promotion cut. Pure.
#pragma once

#include <vector>

#include "kvstored/types.h"
#include "record/record.h"

namespace kvstored::record {

class TxnCut {
 public:
  // start[s]: a part at or below it counts as present (data set's or checkpoint's start, or what is
  // committed). end[s]: the newest record.
  TxnCut(std::vector<Seq> start, std::vector<Seq> end);
  // Every record above start[s] that carries kRecordInTxn, in seq order per shard (others are ignored).
  void Add(ShardId shard, const Record& record);
  std::vector<Seq> Greatest() const;

 private:
  struct Part {
    Seq first = 0;
    Seq last = 0;  // 0: its closing record is missing
    std::vector<TxnPart> participants;
  };
  bool IsWhole(const Part& part, const std::vector<Seq>& cut) const;

  const std::vector<Seq> start_;
  const std::vector<Seq> end_;
  std::vector<std::vector<Part>> parts_;  // per shard
};

}  // namespace kvstored::record
