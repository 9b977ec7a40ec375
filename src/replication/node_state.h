// NodeState: the node's identity and persisted decisions, as replication needs them. Implemented by
// the server (meta). Calls on the replication thread; each `done` once, on any thread, also inline.
// An upcall must not change the role or the members at once, their owners may be on the stack:
// Replication::Post() does it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "kvstored/types.h"
#include "replication/join_plan.h"
#include "replication/node_facts.h"

namespace kvstored::replication {

class NodeState {
 public:
  virtual ~NodeState() = default;

  // Now; asked at every handshake and question. A primary's `ends`, `committed` and `members` are
  // filled in by the engine.
  virtual NodeFacts Facts() = 0;

  using Done = std::function<void(absl::Status)>;
  // Makes the set (at the primary, and at a node that becomes or is a member) part of meta,
  // persisted, before done(OK) (P7).
  virtual void PersistMembers(const MemberSet& members, Done done) = 0;
  // A member's right to be promoted without --accept-loss (P19).
  virtual void PersistPromotable(bool promotable, Done done) = 0;
  // Promise not to follow an epoch number below (P17). An error: a higher one was promised, or this
  // node is a serving primary.
  virtual void PersistPromise(uint32_t epoch_number, Done done) = 0;

  // Another node says that it is the primary of a history that continues ours (announcement, or
  // seen in a handshake). The server decides: step down, follow it (P17, P19). `address`: its
  // replication port.
  virtual void OnNewerPrimary(const NodeFacts& facts, const std::string& address) = 0;
  // Data is at stake (forked history, lost committed records, divergence): for logs and alarms.
  virtual void OnAlarm(Refusal refusal, const std::string& text) = 0;
};

}  // namespace kvstored::replication
