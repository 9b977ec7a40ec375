// What a crash leaves behind: the old meta or the new one. A data set directory that no meta names
// (a full sync that was not published, an old set whose removal was cut short) is removed at start.
// A damaged set is renamed before meta forgets it: a meta that names a set which has its damaged
// name already is brought to that end at start.
#include "server/identity.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/hex.h"
#include "base/log.h"
#include "log/damage.h"

namespace kvstored::server {
namespace {

constexpr char kSetPrefix[] = "set-";
constexpr char kDamagedMark[] = ".damaged-";

// "set-3" and "set-3.damaged-1" have 3.
uint64_t SetNumber(const std::string& name) {
  if (name.rfind(kSetPrefix, 0) != 0) {
    return 0;
  }
  return std::strtoull(name.c_str() + sizeof(kSetPrefix) - 1, nullptr, 10);
}

// Named as this node names its own: what an operator called otherwise, such as "set-1.bak", is
// theirs.
bool IsOwnSet(const std::string& name) {
  const uint64_t number = SetNumber(name);
  return number != 0 && name == absl::StrFormat("%s%d", kSetPrefix, number);
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void WarnOfDifferences(const log::Meta& meta, const Config& config) {
  if (meta.ack != config.replication.ack || meta.ack_replicas != config.replication.ack_replicas) {
    base::LogWarning(absl::StrFormat(
        "replication.ack/ack_replicas of the configuration (%d/%d) differ from this data "
        "directory's (%d/%d), which count; change them with CONFIG SET",
        static_cast<int>(config.replication.ack), config.replication.ack_replicas,
        static_cast<int>(meta.ack), meta.ack_replicas));
  }
  if (meta.role == Role::kPrimary && !config.replication.primary.empty()) {
    base::LogWarning(absl::StrFormat(
        "replication.primary = \"%s\" is ignored: this data directory belongs to a primary; use "
        "REPLICAOF or kvctl join",
        config.replication.primary));
  }
}

// A first start that was cut short leaves at most a set directory that holds nothing yet. One that
// does hold something lost its meta otherwise, and is not ours to remove.
absl::Status RefuseOrphans(NvmDevice* device) {
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device->List(""));
  for (const std::string& name : names) {
    if (!IsOwnSet(name)) {
      continue;
    }
    KVS_ASSIGN_OR_RETURN(const std::vector<std::string> files, device->List(name));
    bool holds_data = std::any_of(files.begin(), files.end(), [](const std::string& file) {
      return file.find(".ckpt") != std::string::npos;
    });
    if (Has(files, "log")) {
      KVS_ASSIGN_OR_RETURN(const std::vector<std::string> segments,
                           device->List(Identity::LogDirectory(name)));
      holds_data = holds_data || !segments.empty();
    }
    if (holds_data) {
      return absl::FailedPreconditionError(
          absl::StrFormat("%s/%s is absent, but %s holds a data set: restore %s from a copy; to "
                          "begin anew, or as a "
                          "replica that takes everything from its primary, move %s away",
                          device->Describe(), log::kMetaName, name, log::kMetaName, name));
    }
  }
  return absl::OkStatus();
}

// A replica has its primary's shards, which is no difference to warn of.
void WarnOfShards(const log::Meta& meta, const log::Manifest& manifest, const Config& config) {
  if (meta.role == Role::kPrimary && manifest.shard_count != config.server.shards) {
    base::LogWarning(absl::StrFormat(
        "server.shards of the configuration (%d, or 0 that became %d) differs from this data "
        "directory's (%d), which counts: it is fixed when a data directory is made",
        config.server.shards, config.server.shards, manifest.shard_count));
  }
}

}  // namespace

std::vector<replication::EpochEntry> ToReplication(const std::vector<log::EpochEntry>& epochs) {
  std::vector<replication::EpochEntry> out;
  out.reserve(epochs.size());
  for (const log::EpochEntry& entry : epochs) {
    out.push_back({.epoch = entry.epoch, .first_seq = entry.first_seqs});
  }
  return out;
}

std::vector<log::EpochEntry> ToLog(const std::vector<replication::EpochEntry>& epochs) {
  std::vector<log::EpochEntry> out;
  out.reserve(epochs.size());
  for (const replication::EpochEntry& entry : epochs) {
    out.push_back({.epoch = entry.epoch, .first_seqs = entry.first_seq});
  }
  return out;
}

absl::StatusOr<std::unique_ptr<Identity>> Identity::Load(NvmDevice* device, const Config& config,
                                                         base::Random* random,
                                                         std::string_view boot_id) {
  auto identity = std::unique_ptr<Identity>(new Identity(device, random->NextId()));
  absl::StatusOr<log::Meta> meta = log::LoadMeta(device);
  if (meta.ok()) {
    identity->meta_ = *std::move(meta);
    identity->same_boot_ = identity->meta_.boot_id == boot_id;
    WarnOfDifferences(identity->meta_, config);
    KVS_RETURN_IF_ERROR(identity->FinishSetAside());
    KVS_RETURN_IF_ERROR(identity->ReadManifest(config));
  } else if (absl::IsNotFound(meta.status())) {
    KVS_RETURN_IF_ERROR(RefuseOrphans(device));
    log::Meta& fresh = identity->meta_;
    fresh.store = random->NextId();
    fresh.ack = config.replication.ack;
    fresh.ack_replicas = config.replication.ack_replicas;
    fresh.primary_address = config.replication.primary;
    fresh.role = config.replication.primary.empty() ? Role::kPrimary : Role::kReplica;
    fresh.boot_id = std::string(boot_id);
    if (fresh.role == Role::kPrimary) {
      KVS_RETURN_IF_ERROR(identity->MakeDataSet(config, random));
    }
    KVS_RETURN_IF_ERROR(log::SaveMeta(device, fresh));
  } else {
    return meta.status();
  }
  KVS_RETURN_IF_ERROR(identity->RemoveStrayDirectories());
  if (identity->meta_.boot_id != boot_id) {
    // Kept as `same_boot_` for this start; from now on this boot is the one that counts.
    KVS_RETURN_IF_ERROR(
        identity->Update([&](log::Meta* changed) { changed->boot_id = std::string(boot_id); }));
  }
  return identity;
}

absl::Status Identity::MakeDataSet(const Config& config, base::Random* random) {
  manifest_.data_set = random->NextId();
  manifest_.seed = random->NextId();
  manifest_.shard_count = config.server.shards;
  manifest_.start_seqs.assign(config.server.shards, 0);
  KVS_ASSIGN_OR_RETURN(meta_.data_set_directory, NewDirectoryLocked());
  meta_.data_set = manifest_.data_set;
  return log::SaveManifest(device_, meta_.data_set_directory, manifest_);
}

absl::StatusOr<std::string> Identity::NewDirectoryLocked() {
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device_->List(""));
  uint64_t newest = 0;
  for (const std::string& name : names) {
    newest = std::max(newest, SetNumber(name));
  }
  const std::string directory = absl::StrFormat("%s%d", kSetPrefix, newest + 1);
  KVS_RETURN_IF_ERROR(device_->MakeDirectory(directory));
  KVS_RETURN_IF_ERROR(device_->MakeDirectory(LogDirectory(directory)));
  return directory;
}

absl::Status Identity::RemoveStrayDirectories() {
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device_->List(""));
  for (const std::string& name : names) {
    if (IsOwnSet(name) && name != meta_.data_set_directory) {
      base::LogInfo(absl::StrFormat("removing %s/%s: no part of this node's data any more",
                                    device_->Describe(), name));
      KVS_RETURN_IF_ERROR(device_->Remove(name));
    }
  }
  return absl::OkStatus();
}

absl::Status Identity::ReadManifest(const Config& config) {
  if (meta_.data_set_directory.empty()) {
    return absl::OkStatus();
  }
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device_->List(""));
  if (!Has(names, meta_.data_set_directory)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s/%s is absent, and %s names it as the directory of this node's data set: restore it "
        "from a copy, or empty the data directory and let this node join as a replica",
        device_->Describe(), meta_.data_set_directory, log::kMetaName));
  }
  absl::StatusOr<log::Manifest> manifest = log::LoadManifest(device_, meta_.data_set_directory);
  if (manifest.ok()) {
    if (manifest->data_set != meta_.data_set) {
      return absl::FailedPreconditionError(
          absl::StrFormat("%s/%s names data set %s, and %s/manifest is of data set %s: one of the "
                          "two files belongs "
                          "elsewhere; put its own back",
                          device_->Describe(), log::kMetaName, base::ToHex(meta_.data_set),
                          meta_.data_set_directory, base::ToHex(manifest->data_set)));
    }
    manifest_ = *std::move(manifest);
    WarnOfShards(meta_, manifest_, config);
    return absl::OkStatus();
  }
  return MayRejoin(config, manifest.status()) ? SetAsideDataSet(manifest.status())
                                              : manifest.status();
}

bool Identity::MayRejoin(const Config& config, const absl::Status& why) const {
  const std::lock_guard lock(mutex_);
  return log::IsDamage(why) && config.recovery.on_damage == "rejoin" &&
         meta_.role == Role::kReplica && !meta_.primary_address.empty();
}

absl::Status Identity::SetAsideDataSet(const absl::Status& damage) {
  // Whatever happens from here on, this node lacks what others may rely on (P19).
  KVS_RETURN_IF_ERROR(Update([](log::Meta* meta) { meta->promotable = false; }));
  const std::lock_guard lock(mutex_);
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device_->List(""));
  std::string aside;
  for (int n = 1; aside.empty() || Has(names, aside); ++n) {
    aside = absl::StrFormat("%s%s%d", meta_.data_set_directory, kDamagedMark, n);
  }
  base::LogError(absl::StrFormat("damaged data set: %s", std::string(damage.message())));
  KVS_RETURN_IF_ERROR(device_->Rename(meta_.data_set_directory, aside));
  base::LogWarning(absl::StrFormat(
      "the damaged data set is kept as %s/%s, which may be deleted; everything is taken from the "
      "primary again (%s)",
      device_->Describe(), aside, meta_.primary_address));
  return ForgetDataSet();
}

// With mutex_ held, or before anybody knows this object.
absl::Status Identity::ForgetDataSet() {
  log::Meta next = meta_;
  next.data_set_directory.clear();
  next.data_set = {};
  next.promotable = false;
  KVS_RETURN_IF_ERROR(log::SaveMeta(device_, next));
  meta_ = std::move(next);
  manifest_ = {};
  return absl::OkStatus();
}

absl::Status Identity::FinishSetAside() {
  KVS_ASSIGN_OR_RETURN(const std::vector<std::string> names, device_->List(""));
  const std::string& directory = meta_.data_set_directory;
  const bool was_renamed =
      std::any_of(names.begin(), names.end(), [&directory](const std::string& name) {
        return name.rfind(directory + kDamagedMark, 0) == 0;
      });
  if (directory.empty() || Has(names, directory) || !was_renamed) {
    return absl::OkStatus();
  }
  return ForgetDataSet();
}

log::Meta Identity::meta() const {
  const std::lock_guard lock(mutex_);
  return meta_;
}

log::Manifest Identity::manifest() const {
  const std::lock_guard lock(mutex_);
  return manifest_;
}

bool Identity::has_data_set() const {
  const std::lock_guard lock(mutex_);
  return !meta_.data_set_directory.empty();
}

uint32_t Identity::NextEpochNumber() const {
  const std::lock_guard lock(mutex_);
  uint32_t highest = std::max(meta_.highest_epoch, meta_.promise);
  for (const log::EpochEntry& entry : manifest_.epochs) {
    highest = std::max(highest, entry.epoch.number);
  }
  return highest + 1;
}

absl::Status Identity::Update(const std::function<void(log::Meta*)>& change) {
  const std::lock_guard lock(mutex_);
  log::Meta next = meta_;
  change(&next);
  if (next == meta_) {
    return absl::OkStatus();
  }
  KVS_RETURN_IF_ERROR(log::SaveMeta(device_, next));
  meta_ = std::move(next);
  return absl::OkStatus();
}

absl::Status Identity::AddEpoch(const Epoch& epoch, const std::vector<Seq>& first_seqs) {
  const std::lock_guard lock(mutex_);
  log::Manifest next = manifest_;
  if (!next.epochs.empty()) {
    KVS_CHECK(next.epochs.back().epoch.number < epoch.number, "newest=%u new=%u",
              next.epochs.back().epoch.number, epoch.number);
  }
  next.epochs.push_back({.epoch = epoch, .first_seqs = first_seqs});
  KVS_RETURN_IF_ERROR(log::SaveManifest(device_, meta_.data_set_directory, next));
  manifest_ = std::move(next);
  return absl::OkStatus();
}

absl::Status Identity::SetEpochs(const std::vector<replication::EpochEntry>& epochs) {
  const std::lock_guard lock(mutex_);
  log::Manifest next = manifest_;
  next.epochs = ToLog(epochs);
  if (next == manifest_) {
    return absl::OkStatus();
  }
  KVS_RETURN_IF_ERROR(log::SaveManifest(device_, meta_.data_set_directory, next));
  manifest_ = std::move(next);
  return absl::OkStatus();
}

absl::Status Identity::AdoptDataSet(const replication::NodeFacts& primary) {
  replication::NodeFacts empty = primary;
  empty.epochs.clear();  // it holds nothing yet, so it has no history
  KVS_ASSIGN_OR_RETURN(const std::string directory,
                       MakeSetDirectory(empty, std::vector<Seq>(empty.shard_count, 0)));
  return PublishSetDirectory(directory);
}

absl::StatusOr<std::string> Identity::MakeSetDirectory(const replication::NodeFacts& primary,
                                                       const std::vector<Seq>& start_seqs) {
  const std::lock_guard lock(mutex_);
  KVS_ASSIGN_OR_RETURN(const std::string directory, NewDirectoryLocked());
  const log::Manifest manifest{.data_set = primary.data_set_id,
                               .seed = primary.data_seed,
                               .shard_count = primary.shard_count,
                               .epochs = ToLog(primary.epochs),
                               .start_seqs = start_seqs};
  KVS_RETURN_IF_ERROR(log::SaveManifest(device_, directory, manifest));
  return directory;
}

absl::Status Identity::PublishSetDirectory(const std::string& directory) {
  std::string old;
  {
    const std::lock_guard lock(mutex_);
    KVS_ASSIGN_OR_RETURN(log::Manifest manifest, log::LoadManifest(device_, directory));
    log::Meta next = meta_;
    old = next.data_set_directory;
    next.data_set_directory = directory;
    next.data_set = manifest.data_set;
    KVS_RETURN_IF_ERROR(log::SaveMeta(device_, next));
    meta_ = std::move(next);
    manifest_ = std::move(manifest);
  }
  if (!old.empty()) {
    return device_->Remove(old);
  }
  return absl::OkStatus();
}

}  // namespace kvstored::server
