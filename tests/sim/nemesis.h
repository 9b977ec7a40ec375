// What goes wrong, and the operator who deals with it: faults while the workload runs, repair
// afterwards. The operator does only what docs/operations allow without loss: he never accepts
// loss, never promotes a node that he dropped by force or whose disk was damaged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace kvstored::sim {

class Nemesis {
 public:
  Nemesis(Cluster* cluster, uint64_t seed);

  // While the workload runs: a fault now and then, repair of what has lasted long enough.
  void Step();
  // No fault any more, everything that was broken on purpose works again.
  void Calm();
  // After Calm: what an operator does until all is well.
  void Repair();
  uint64_t fault_count() const {
    return fault_count_;
  }
  void SetPeriodUs(int64_t period_us) {
    period_us_ = period_us;
  }

 private:
  struct Undo {
    int64_t at_us;
    std::function<void()> work;
  };
  void Strike();
  SimNode* Any();
  SimNode* Primary();
  SimNode* RandomReplica();
  // A node whose data the serving primary has as well.
  SimNode* Expendable();
  void Later(int64_t after_us, std::function<void()> work);
  bool Fault(const char* name);
  bool StrikeProcess(uint64_t kind);
  bool StrikeNetwork(uint64_t kind);
  bool StrikeDevice(uint64_t kind);
  bool StrikeRoles(uint64_t kind);
  void Promote();
  static bool IsForked(const SimNode& node, const SimNode& primary);
  static uint32_t NewestEpoch(const SimNode& node);
  static std::vector<replication::EpochEntry> Epochs(const SimNode& node);
  bool MayBeDropped(const Id128& store);
  static bool IsCandidate(const SimNode& node);
  // Returns those that were not left out before.
  std::vector<SimNode*> LeaveOthersOut(SimNode* promoted, uint64_t ack_replicas);
  void DropForkedMembers();
  void PromoteLongest();
  void WatchPrimary();
  void DropLostMembers();
  void NoteForcedDrop(const std::string& store);

  Cluster* const cluster_;
  SimRandom random_;
  std::vector<Undo> undo_;
  int64_t period_us_ = 60'000;
  int64_t next_us_ = 0;
  int64_t no_primary_since_us_ = 0;
  int64_t patience_us_ = 0;
  int64_t next_repair_us_ = 0;
  bool calm_ = false;
  uint64_t fault_count_ = 0;
};

}  // namespace kvstored::sim
