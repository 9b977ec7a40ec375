// Commands on the whole key space (Reach::kShards): a part on each shard, merged where the
// connection lives. A KEYS or DBSIZE is not a snapshot across shards: each part is of its shard's
// own moment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "command/command.h"

namespace kvstored::command {

OpResult PartKeys(PartCall& call);
void MergeKeys(Session& session, std::span<const std::string_view> args,
               std::span<const std::string> parts);

// SCAN reads one shard a call; its cursor says which and from where.
bool PlanScan(Session& session, std::span<const std::string_view> args, uint32_t shard_count,
              int32_t* only_shard);
OpResult PartScan(PartCall& call);
void MergeScan(Session& session, std::span<const std::string_view> args,
               std::span<const std::string> parts);

OpResult PartDbSize(PartCall& call);
void MergeDbSize(Session& session, std::span<const std::string_view> args,
                 std::span<const std::string> parts);

OpResult PartRandomKey(PartCall& call);
void MergeRandomKey(Session& session, std::span<const std::string_view> args,
                    std::span<const std::string> parts);

bool PlanFlush(Session& session, std::span<const std::string_view> args, uint32_t shard_count,
               int32_t* only_shard);
OpResult PartFlush(PartCall& call);
void MergeFlush(Session& session, std::span<const std::string_view> args,
                std::span<const std::string> parts);

// A SCAN cursor in clients' hands: 48 bits of digest prefix above 8 bits of shard, so that it stays
// positive in signed 64-bit integers. 0 is both begin and end. Valid across splits, restarts and
// replicas: it names a place among digests, not in memory.
uint64_t PackScanCursor(uint32_t shard, uint64_t store_cursor);
void UnpackScanCursor(uint64_t cursor, uint32_t* shard, uint64_t* store_cursor);

}  // namespace kvstored::command
