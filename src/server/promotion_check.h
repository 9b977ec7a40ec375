// What the other nodes' answers mean for a promotion (docs/protocol.md P15, P19). Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "replication/node_facts.h"
#include "replication/replication.h"

namespace kvstored::server {

// May the node that says `own` of itself be promoted, as far as those say that have answered?
// `accept_loss` goes on although a peer has more; never beside another promotion.
absl::Status JudgePromotion(const replication::NodeFacts& own,
                            const std::vector<replication::PeerAnswer>& answers, bool accept_loss);

// The highest epoch number that these nodes of the data set have seen or promised; 0: none.
uint32_t HighestEpochOf(const Id128& data_set, const std::vector<replication::PeerAnswer>& answers);

}  // namespace kvstored::server
