#include "kvctl/files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "log/dump.h"
#include "nvm/disk/disk_device.h"
#include "server/config.h"

namespace kvstored::kvctl {
namespace {

using Json = nlohmann::ordered_json;

using Printer = absl::Status (*)(NvmDevice* device, const std::string& name, log::DumpFormat format,
                                 const std::function<void(std::string_view line)>& print);

absl::Status PrintFile(const std::string& file, bool json, Printer printer) {
  const std::filesystem::path path = std::filesystem::absolute(file);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrFormat("%s is not an existing file", file));
  }
  KVS_ASSIGN_OR_RETURN(const std::unique_ptr<NvmDevice> device,
                       nvm::OpenDiskDevice(path.parent_path().string()));
  return printer(device.get(), path.filename().string(),
                 json ? log::DumpFormat::kJsonLines : log::DumpFormat::kText,
                 [](std::string_view line) {
                   std::fwrite(line.data(), 1, line.size(), stdout);
                   std::fputc('\n', stdout);
                 });
}

}  // namespace

absl::Status CheckConfig(const std::string& file, bool json) {
  KVS_ASSIGN_OR_RETURN(server::Config config, server::LoadConfig(file, {}));
  KVS_RETURN_IF_ERROR(server::ResolveConfig(server::ThisMachine(), &config));
  if (json) {
    std::printf("%s\n", Json{{"file", file}, {"result", "OK"}}.dump().c_str());
  } else {
    std::printf("%s is good\n", file.c_str());
  }
  return absl::OkStatus();
}

void PrintConfigReference(bool json) {
  if (!json) {
    std::fputs(server::ConfigReference().c_str(), stdout);
    return;
  }
  Json keys = Json::array();
  for (const server::KeySpec& key : server::ConfigKeys()) {
    std::string help = key.help;
    std::replace(help.begin(), help.end(), '\n', ' ');
    keys.push_back({{"key", key.name},
                    {"default", key.standard},
                    {"allowed", server::AllowedText(key)},
                    {"runtime", key.changeable},
                    {"help", help}});
  }
  std::printf("%s\n", keys.dump().c_str());
}

absl::Status DumpLog(const std::string& file, bool json) {
  return PrintFile(file, json, &log::DumpFile);
}

absl::Status VerifyLog(const std::string& file, bool json) {
  return PrintFile(file, json, &log::VerifyFile);
}

}  // namespace kvstored::kvctl
