// Text form: one line "kvstored KIND 1 crc32c=XXXXXXXX", then JSON. The checksum covers the JSON.
#include "log/meta.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/hex.h"
#include "log/damage.h"

namespace kvstored::log {
namespace {

using nlohmann::json;

constexpr int kMetaVersion = 1;
constexpr uint64_t kMetaBytesMax = uint64_t{16} << 20;

absl::Status SaveText(NvmDevice* device, const std::string& name, const std::string& kind,
                      const std::string& body) {
  std::string text = absl::StrFormat("kvstored %s %d crc32c=%08x\n%s", kind, kMetaVersion,
                                     base::Crc32c(0, body.data(), body.size()), body);
  const std::string temp_name = name + ".tmp";
  KVS_RETURN_IF_ERROR(device->Remove(temp_name));
  KVS_ASSIGN_OR_RETURN(std::unique_ptr<NvmFile> file, device->Create(temp_name, 0));
  const iovec piece = {text.data(), text.size()};
  KVS_RETURN_IF_ERROR(file->Write(0, {&piece, 1}));
  KVS_RETURN_IF_ERROR(file->Persist());
  file.reset();
  return device->Rename(temp_name, name);
}

// What an operator can do about a file of that kind that is not what it must be.
std::string Remedy(const std::string& kind) {
  return std::string(
             "restore it from a copy, or empty the data directory and let this node join as a "
             "replica") +
         (kind == "meta" ? "" : " (a replica does the like with recovery.on_damage = \"rejoin\")");
}

absl::StatusOr<json> LoadText(NvmDevice* device, const std::string& name, const std::string& kind) {
  const std::string path = device->Describe() + "/" + name;
  const auto damaged = [&path, &kind](const std::string& what) {
    return DamageError(absl::StrFormat("%s is damaged (%s); %s", path, what, Remedy(kind)));
  };
  KVS_ASSIGN_OR_RETURN(const std::unique_ptr<NvmFile> file, device->Open(name));
  if (file->size_bytes() > kMetaBytesMax) {
    return damaged("it is too large");
  }
  std::string text(static_cast<size_t>(file->size_bytes()), '\0');
  KVS_RETURN_IF_ERROR(file->Read(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  const size_t line_end = text.find('\n');
  const std::string start = "kvstored " + kind + " ";
  if (line_end == std::string::npos || text.compare(0, start.size(), start) != 0) {
    return damaged("no first line");
  }
  int version = 0;
  unsigned crc = 0;
  if (std::sscanf(text.c_str() + start.size(), "%d crc32c=%8x", &version, &crc) != 2) {
    return damaged("bad first line");
  }
  if (version > kMetaVersion) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s has format version %d, this kvstored reads up to %d; start a newer kvstored on this "
        "directory",
        path, version, kMetaVersion));
  }
  if (version < 1) {
    return damaged("bad version");
  }
  const std::string body = text.substr(line_end + 1);
  // The whole line is compared: a flip in it is damage as well.
  const std::string line = absl::StrFormat("%s%d crc32c=%08x", start, version,
                                           base::Crc32c(0, body.data(), body.size()));
  if (line != text.substr(0, line_end)) {
    return damaged("wrong checksum");
  }
  json document = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return damaged("no JSON object");
  }
  return document;
}

// Reads typed fields; remembers the first that is absent or of another type. Never throws.
class Fields {
 public:
  explicit Fields(const json& document) : document_(document) {
  }
  std::string Text(const char* name) {
    const json* field = Find(name);
    if (field == nullptr || !field->is_string()) {
      return Bad(name), std::string();
    }
    return *field->get_ptr<const json::string_t*>();
  }
  uint64_t Number(const char* name) {
    const json* field = Find(name);
    if (field == nullptr || !field->is_number_unsigned()) {
      return Bad(name), 0;
    }
    return *field->get_ptr<const json::number_unsigned_t*>();
  }
  bool Flag(const char* name) {
    const json* field = Find(name);
    if (field == nullptr || !field->is_boolean()) {
      return Bad(name), false;
    }
    return *field->get_ptr<const json::boolean_t*>();
  }
  Id128 Id(const char* name) {
    Id128 id;
    if (!base::FromHex(Text(name), &id)) {
      Bad(name);
    }
    return id;
  }
  const json& Array(const char* name) {
    static const json* const empty = new json(json::array());
    const json* field = Find(name);
    if (field == nullptr || !field->is_array()) {
      return Bad(name), *empty;
    }
    return *field;
  }
  std::vector<Seq> Seqs(const char* name) {
    std::vector<Seq> seqs;
    for (const json& entry : Array(name)) {
      if (!entry.is_number_unsigned()) {
        return Bad(name), seqs;
      }
      seqs.push_back(*entry.get_ptr<const json::number_unsigned_t*>());
    }
    return seqs;
  }
  void Bad(const std::string& name) {
    bad_ = bad_.empty() ? name : bad_;
  }
  const std::string& bad() const {
    return bad_;
  }

 private:
  const json* Find(const char* name) const {
    const auto found = document_.find(name);
    return found == document_.end() ? nullptr : &*found;
  }
  const json& document_;
  std::string bad_;
};

absl::Status Check(const Fields& fields, const std::string& path) {
  if (fields.bad().empty()) {
    return absl::OkStatus();
  }
  return DamageError(
      absl::StrFormat("%s: field \"%s\" is absent or of a wrong form", path, fields.bad()));
}

json MembersToJson(const std::vector<Member>& members) {
  json list = json::array();
  for (const Member& member : members) {
    list.push_back({{"store", base::ToHex(member.store)}, {"address", member.address}});
  }
  return list;
}

std::vector<Member> MembersOf(Fields* fields, const char* name) {
  std::vector<Member> members;
  for (const json& entry : fields->Array(name)) {
    if (!entry.is_object()) {
      fields->Bad(name);
      break;
    }
    Fields inner(entry);
    members.push_back({inner.Id("store"), inner.Text("address")});
    if (!inner.bad().empty()) {
      fields->Bad(std::string(name) + "." + inner.bad());
    }
  }
  return members;
}

uint32_t Narrow(Fields* fields, const char* name, uint64_t max) {
  const uint64_t value = fields->Number(name);
  if (value > max) {
    fields->Bad(name);
    return 0;
  }
  return static_cast<uint32_t>(value);
}

}  // namespace

absl::StatusOr<Meta> LoadMeta(NvmDevice* device) {
  KVS_ASSIGN_OR_RETURN(const json document, LoadText(device, kMetaName, "meta"));
  Fields fields(document);
  Meta meta;
  const std::string role = fields.Text("role");
  if (role != "primary" && role != "replica") {
    fields.Bad("role");
  }
  meta.role = role == "primary" ? Role::kPrimary : Role::kReplica;
  meta.store = fields.Id("store");
  meta.data_set = fields.Id("data_set");
  meta.data_set_directory = fields.Text("data_set_directory");
  meta.members = MembersOf(&fields, "members");
  meta.known_nodes = MembersOf(&fields, "known_nodes");
  meta.promise = Narrow(&fields, "promise", UINT32_MAX);
  meta.highest_epoch = Narrow(&fields, "highest_epoch", UINT32_MAX);
  meta.promotable = fields.Flag("promotable");
  meta.ack = static_cast<AckLevel>(Narrow(&fields, "ack", 2));
  meta.ack_replicas = Narrow(&fields, "ack_replicas", UINT32_MAX);
  meta.primary_address = fields.Text("primary_address");
  meta.boot_id = fields.Text("boot_id");
  KVS_RETURN_IF_ERROR(Check(fields, device->Describe() + "/" + kMetaName));
  return meta;
}

absl::Status SaveMeta(NvmDevice* device, const Meta& meta) {
  const json document = {
      {"role", meta.role == Role::kPrimary ? "primary" : "replica"},
      {"store", base::ToHex(meta.store)},
      {"data_set", base::ToHex(meta.data_set)},
      {"data_set_directory", meta.data_set_directory},
      {"members", MembersToJson(meta.members)},
      {"known_nodes", MembersToJson(meta.known_nodes)},
      {"promise", meta.promise},
      {"highest_epoch", meta.highest_epoch},
      {"promotable", meta.promotable},
      {"ack", static_cast<unsigned>(meta.ack)},
      {"ack_replicas", meta.ack_replicas},
      {"primary_address", meta.primary_address},
      {"boot_id", meta.boot_id},
  };
  // replace: an address that is no UTF-8 must not end the process (dump would throw).
  return SaveText(device, kMetaName, "meta",
                  document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

absl::StatusOr<Manifest> LoadManifest(NvmDevice* device, const std::string& directory) {
  const std::string name = directory + "/manifest";
  const absl::StatusOr<json> document = LoadText(device, name, "manifest");
  if (absl::IsNotFound(document.status())) {
    return DamageError(
        absl::StrFormat("%s/%s is absent; %s", device->Describe(), name, Remedy("manifest")));
  }
  KVS_RETURN_IF_ERROR(document.status());
  Fields fields(*document);
  Manifest manifest;
  manifest.data_set = fields.Id("data_set");
  manifest.seed = fields.Id("seed");
  manifest.shard_count = Narrow(&fields, "shard_count", UINT32_MAX);
  manifest.start_seqs = fields.Seqs("start_seqs");
  for (const json& entry : fields.Array("epochs")) {
    if (!entry.is_object()) {
      fields.Bad("epochs");
      break;
    }
    Fields inner(entry);
    EpochEntry epoch;
    epoch.epoch.number = Narrow(&inner, "number", UINT32_MAX);
    epoch.epoch.id = inner.Number("id");
    epoch.first_seqs = inner.Seqs("first_seqs");
    if (!inner.bad().empty() || epoch.first_seqs.size() != manifest.shard_count) {
      fields.Bad("epochs");
    }
    manifest.epochs.push_back(std::move(epoch));
  }
  if (manifest.start_seqs.size() != manifest.shard_count) {
    fields.Bad("start_seqs");
  }
  KVS_RETURN_IF_ERROR(Check(fields, device->Describe() + "/" + name));
  return manifest;
}

absl::Status SaveManifest(NvmDevice* device, const std::string& directory,
                          const Manifest& manifest) {
  json epochs = json::array();
  for (const EpochEntry& epoch : manifest.epochs) {
    epochs.push_back(
        {{"number", epoch.epoch.number}, {"id", epoch.epoch.id}, {"first_seqs", epoch.first_seqs}});
  }
  const json document = {
      {"data_set", base::ToHex(manifest.data_set)},
      {"seed", base::ToHex(manifest.seed)},
      {"shard_count", manifest.shard_count},
      {"start_seqs", manifest.start_seqs},
      {"epochs", std::move(epochs)},
  };
  return SaveText(device, directory + "/manifest", "manifest",
                  document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

absl::StatusOr<LogFiles> LoadLogFiles(NvmDevice* device, const std::string& log_directory) {
  const std::string name = log_directory + "_files";
  KVS_ASSIGN_OR_RETURN(const json document, LoadText(device, name, "log_files"));
  Fields fields(document);
  LogFiles files;
  files.newest = fields.Number("newest");
  files.segment_bytes = fields.Number("segment_bytes");
  files.begun = fields.Number("begun");
  files.persisted = fields.Seqs("persisted");
  KVS_RETURN_IF_ERROR(Check(fields, device->Describe() + "/" + name));
  return files;
}

absl::Status SaveLogFiles(NvmDevice* device, const std::string& log_directory,
                          const LogFiles& files) {
  const json document = {{"newest", files.newest},
                         {"segment_bytes", files.segment_bytes},
                         {"begun", files.begun},
                         {"persisted", files.persisted}};
  return SaveText(device, log_directory + "_files", "log_files", document.dump(2) + "\n");
}

}  // namespace kvstored::log
