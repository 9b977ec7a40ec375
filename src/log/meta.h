// The node's own facts (P16): data_dir/meta, and of a data set directory its manifest and which log
// files it has. Text (JSON) with a checksum line, so that an operator can read them.
//
// What a crash leaves: the old file or the new one, whole (temporary file, persist, rename, persist
// of the directory). A leftover "*.tmp" is overwritten by the next save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstored/nvm_device.h"
#include "kvstored/types.h"

namespace kvstored::log {

struct Member {
  Id128 store;
  std::string address;  // "host:port" of its replication port
  friend bool operator==(const Member&, const Member&) = default;
};

struct Meta {
  Role role = Role::kPrimary;
  Id128 store;                     // of this data directory, made once
  Id128 data_set;                  // empty: none yet (a replica that never synced)
  std::string data_set_directory;  // name below data_dir
  std::vector<Member> members;     // the persisted member set (of one's primary, on a member)
  std::vector<Member> known_nodes;
  uint32_t promise = 0;        // will not follow an epoch with a lower number
  uint32_t highest_epoch = 0;  // highest number ever seen
  bool promotable = false;
  AckLevel ack = AckLevel::kNone;
  uint32_t ack_replicas = 0;
  std::string primary_address;  // replica: whom it follows
  std::string boot_id;          // kernel's, when it last served (P17)
  friend bool operator==(const Meta&, const Meta&) = default;
};

inline constexpr char kMetaName[] = "meta";

// kNotFound: a new data directory. IsDamage: damaged; names the file and what to do.
absl::StatusOr<Meta> LoadMeta(NvmDevice* device);
// Persistent and published on OK.
absl::Status SaveMeta(NvmDevice* device, const Meta& meta);

struct EpochEntry {
  Epoch epoch;
  std::vector<Seq> first_seqs;  // per shard: seq of its epoch_begin
  friend bool operator==(const EpochEntry&, const EpochEntry&) = default;
};

// Of one data set directory: directory/manifest.
struct Manifest {
  Id128 data_set;
  Id128 seed;  // of the key digest (P22)
  uint32_t shard_count = 0;
  std::vector<EpochEntry> epochs;  // oldest first
  std::vector<Seq> start_seqs;     // the data set begins above them (a full sync's start)
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// IsDamage: absent or damaged; names the file and what to do.
absl::StatusOr<Manifest> LoadManifest(NvmDevice* device, const std::string& directory);
absl::Status SaveManifest(NvmDevice* device, const std::string& directory,
                          const Manifest& manifest);

// What a log must hold, noted outside of it: LOG_DIRECTORY + "_files". A segment is noted before it
// is used, so one that is absent, though the newest that is left ends before it, may have held
// records. Noted again with each new segment and at an orderly end.
struct LogFiles {
  uint64_t newest = 0;         // number; all up to it were made, the oldest may be gone
  uint64_t segment_bytes = 0;  // size of those that are not begun yet
  uint64_t begun = 0;          // number of the newest whose header was persistent
  std::vector<Seq> persisted;  // per shard: records up to it were persistent
  friend bool operator==(const LogFiles&, const LogFiles&) = default;
};

// kNotFound: no segment was ever begun.
absl::StatusOr<LogFiles> LoadLogFiles(NvmDevice* device, const std::string& log_directory);
absl::Status SaveLogFiles(NvmDevice* device, const std::string& log_directory,
                          const LogFiles& files);

}  // namespace kvstored::log
