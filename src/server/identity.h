// Identity: who this node is and what it has decided, in memory and on the device (docs/protocol.md
// "History"). The only writer of meta and of the manifest. A change counts when its call has
// returned.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "kvstored/nvm_device.h"
#include "log/meta.h"
#include "replication/node_facts.h"
#include "server/config.h"

namespace kvstored::server {

// Thread-safe (one mutex; a change holds it while it persists).
class Identity {
 public:
  // Reads meta and manifest, or makes them for a new data directory: a primary's data set is made
  // here, a replica (replication.primary is set) has none until it adopts one. IsDamage names file
  // and remedy; where a replica may rejoin, a damaged manifest only costs it its data set.
  static absl::StatusOr<std::unique_ptr<Identity>> Load(NvmDevice* device, const Config& config,
                                                        base::Random* random,
                                                        std::string_view boot_id);

  log::Meta meta() const;
  log::Manifest manifest() const;
  bool has_data_set() const;
  const Id128& incarnation() const {
    return incarnation_;
  }
  // Same kernel boot as when this node last served: what was written has not been lost by a power
  // cut.
  bool same_boot() const {
    return same_boot_;
  }
  // "set-3/log" below the device; checkpoints lie in "set-3".
  static std::string LogDirectory(const std::string& set_directory) {
    return set_directory + "/log";
  }
  // The number that a new epoch gets: 1 + the highest ever seen or promised.
  uint32_t NextEpochNumber() const;

  // Changes meta: `change` edits a copy, which becomes the truth once it is persistent.
  absl::Status Update(const std::function<void(log::Meta*)>& change);
  // Appends an epoch to the history. The log must hold nothing at or above its first seqs.
  absl::Status AddEpoch(const Epoch& epoch, const std::vector<Seq>& first_seqs);
  // Takes over the primary's history after the log was cut below (P16).
  absl::Status SetEpochs(const std::vector<replication::EpochEntry>& epochs);
  // An empty data set of the primary's, for a node that holds none or discards its own.
  absl::Status AdoptDataSet(const replication::NodeFacts& primary);
  // A new data set directory for a full sync: made, not yet ours. Returns its name.
  absl::StatusOr<std::string> MakeSetDirectory(const replication::NodeFacts& primary,
                                               const std::vector<Seq>& start_seqs);
  // One rename of meta makes the directory ours; the old one is removed.
  absl::Status PublishSetDirectory(const std::string& directory);
  // P24: is `why` damage, and this a replica that was configured to take everything from its
  // primary again?
  bool MayRejoin(const Config& config, const absl::Status& why) const;
  // The node loses its right to be promoted, then its data set, whose directory is renamed to
  // "set-3.damaged-1" and stays there. Who read any of it starts again.
  absl::Status SetAsideDataSet(const absl::Status& damage);

 private:
  Identity(NvmDevice* device, const Id128& incarnation)
      : device_(device), incarnation_(incarnation) {
  }
  absl::Status MakeDataSet(const Config& config, base::Random* random);
  absl::StatusOr<std::string> NewDirectoryLocked();
  absl::Status RemoveStrayDirectories();
  absl::Status ReadManifest(const Config& config);
  absl::Status FinishSetAside();
  absl::Status ForgetDataSet();

  NvmDevice* const device_;
  const Id128 incarnation_;
  bool same_boot_ = false;
  mutable std::mutex mutex_;
  log::Meta meta_;
  log::Manifest manifest_;
};

// replication's and log's shapes of the same thing.
std::vector<replication::EpochEntry> ToReplication(const std::vector<log::EpochEntry>& epochs);
std::vector<log::EpochEntry> ToLog(const std::vector<replication::EpochEntry>& epochs);

}  // namespace kvstored::server
