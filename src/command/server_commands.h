// Commands on the node: SAVE ROLE REPLICAOF SHUTDOWN INFO CONFIG COMMAND KVSTORED and others.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "command/command.h"

namespace kvstored::command {

// server_commands.cc (Reach::kSession)
void HandleSave(Session& session, std::span<const std::string_view> args);
void HandleBgSave(Session& session, std::span<const std::string_view> args);
void HandleLastSave(Session& session, std::span<const std::string_view> args);
void HandleRole(Session& session, std::span<const std::string_view> args);
void HandleReplicaOf(Session& session, std::span<const std::string_view> args);  // and SLAVEOF
void HandleShutdown(Session& session, std::span<const std::string_view> args);
void HandleKvstored(Session& session, std::span<const std::string_view> args);
void HandleClusterDisabled(Session& session, std::span<const std::string_view> args);
// Without a key: OBJECT HELP.
void HandleObjectWithoutKey(Session& session, std::span<const std::string_view> args);

// memory_command.cc: without a key, MEMORY STATS, DOCTOR, HELP.
void HandleMemoryWithoutKey(Session& session, std::span<const std::string_view> args);

// config_commands.cc (Reach::kSession)
void HandleConfig(Session& session, std::span<const std::string_view> args);

// command_commands.cc (Reach::kSession)
void HandleCommand(Session& session, std::span<const std::string_view> args);

// info.cc and server_commands.cc (Reach::kShards)
OpResult PartInfo(PartCall& call);
void MergeInfo(Session& session, std::span<const std::string_view> args,
               std::span<const std::string> parts);
bool PlanTime(Session& session, std::span<const std::string_view> args, uint32_t shard_count,
              int32_t* only_shard);
OpResult PartTime(PartCall& call);
void MergeTime(Session& session, std::span<const std::string_view> args,
               std::span<const std::string> parts);

}  // namespace kvstored::command
