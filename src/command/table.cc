// The command table: all families joined, sorted and findable by name in any case.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "command/bit_commands.h"
#include "command/command.h"
#include "command/keys.h"
#include "command/keyspace.h"
#include "command/server_commands.h"
#include "command/strings.h"
#include "command/watch_commands.h"

namespace kvstored::command {
namespace {

constexpr uint32_t kRead = kFlagReadonly;
constexpr uint32_t kReadFast = kFlagReadonly | kFlagFast;
constexpr uint32_t kWrite = kFlagWrite;
constexpr uint32_t kWriteFast = kFlagWrite | kFlagFast;
constexpr uint32_t kGrow = kFlagWrite | kFlagDenyOom;
constexpr uint32_t kGrowFast = kFlagWrite | kFlagDenyOom | kFlagFast;
constexpr uint32_t kAlways = kFlagLoading | kFlagStale;
constexpr uint32_t kNode = kFlagAdmin | kFlagNoScript;

constexpr CommandSpec OneKey(const char* name, int arity, uint32_t flags, ShardHandler handler) {
  return {name, arity, flags, 1, 1, 1, Reach::kKey, handler, nullptr};
}
using AddedBytes = uint64_t (*)(std::span<const std::string_view> args);
constexpr CommandSpec Adds(CommandSpec spec, AddedBytes added_bytes) {
  spec.added_bytes = added_bytes;
  return spec;
}
constexpr CommandSpec InPlace(CommandSpec spec, AddedBytes added_bytes = nullptr) {
  spec.writes_in_place = true;
  return Adds(spec, added_bytes);
}
constexpr CommandSpec ManyKeys(const char* name, uint32_t flags, ShardHandler handler) {
  return {name, -2, flags, 1, -1, 1, Reach::kFanSum, handler, nullptr};
}
constexpr CommandSpec AllShards(const char* name, int arity, uint32_t flags, PartHandler part,
                                MergeHandler merge, PlanHandler plan = nullptr) {
  return {name, arity, flags, 0, 0, 0, Reach::kShards, nullptr, nullptr, part, merge, plan};
}
constexpr CommandSpec InSession(const char* name, int arity, uint32_t flags,
                                SessionHandler handler) {
  return {name, arity, flags, 0, 0, 0, Reach::kSession, nullptr, handler};
}
// Subcommands on a key that stands second; without a key the session answers (HELP, errors).
constexpr CommandSpec SecondKey(const char* name, ShardHandler handler,
                                SessionHandler without_key) {
  return {name, -2, kRead | kFlagSubcommands, 2, 2, 1, Reach::kKey, handler, without_key};
}

constexpr CommandSpec kStringCommands[] = {
    OneKey("get", 2, kReadFast, &HandleGet),
    OneKey("set", -3, kGrow, &HandleSet),
    OneKey("setex", 4, kGrow, &HandleSetEx),
    OneKey("psetex", 4, kGrow, &HandleSetEx),
    OneKey("setnx", 3, kGrowFast, &HandleSetNx),
    OneKey("getset", 3, kGrowFast, &HandleGetSet),
    OneKey("getdel", 2, kWriteFast, &HandleGetDel),
    OneKey("getex", -2, kWriteFast, &HandleGetEx),
    InPlace(OneKey("append", 3, kGrowFast, &HandleAppend)),
    OneKey("strlen", 2, kReadFast, &HandleStrlen),
    OneKey("getrange", 4, kRead, &HandleGetRange),
    OneKey("substr", 4, kRead, &HandleGetRange),
    InPlace(OneKey("setrange", 4, kGrow, &HandleSetRange), &SetRangeBytes),
    OneKey("incr", 2, kGrowFast, &HandleIncr),
    OneKey("decr", 2, kGrowFast, &HandleIncr),
    OneKey("incrby", 3, kGrowFast, &HandleIncrBy),
    OneKey("decrby", 3, kGrowFast, &HandleDecrBy),
    Adds(OneKey("incrbyfloat", 3, kGrowFast, &HandleIncrByFloat), &IncrByFloatBytes),
};

constexpr CommandSpec kBitCommands[] = {
    OneKey("getbit", 3, kReadFast, &HandleGetBit),
    InPlace(OneKey("setbit", 4, kGrow, &HandleSetBit), &SetBitBytes),
    OneKey("bitcount", -2, kRead, &HandleBitCount),
    OneKey("bitpos", -3, kRead, &HandleBitPos),
    InPlace(OneKey("bitfield", -2, kGrow, &HandleBitField), &BitFieldBytes),
    OneKey("bitfield_ro", -2, kReadFast, &HandleBitField),
};

constexpr CommandSpec kKeyCommands[] = {
    ManyKeys("del", kWrite, &HandleDel),
    ManyKeys("unlink", kWriteFast, &HandleDel),
    ManyKeys("exists", kReadFast, &HandleExists),
    ManyKeys("touch", kReadFast, &HandleExists),
    OneKey("type", 2, kReadFast, &HandleType),
    OneKey("expire", -3, kWriteFast, &HandleExpire),
    OneKey("pexpire", -3, kWriteFast, &HandleExpire),
    OneKey("expireat", -3, kWriteFast, &HandleExpire),
    OneKey("pexpireat", -3, kWriteFast, &HandleExpire),
    OneKey("ttl", 2, kReadFast, &HandleTtl),
    OneKey("pttl", 2, kReadFast, &HandleTtl),
    OneKey("expiretime", 2, kReadFast, &HandleTtl),
    OneKey("pexpiretime", 2, kReadFast, &HandleTtl),
    OneKey("persist", 2, kWriteFast, &HandlePersist),
    OneKey("dump", 2, kRead, &HandleDump),
    Adds(OneKey("restore", -4, kGrow, &HandleRestore), &RestoreBytes),
    SecondKey("object", &HandleObject, &HandleObjectWithoutKey),
    SecondKey("memory", &HandleMemory, &HandleMemoryWithoutKey),
    AllShards("keys", 2, kRead, &PartKeys, &MergeKeys),
    AllShards("scan", -2, kRead, &PartScan, &MergeScan, &PlanScan),
    AllShards("dbsize", 1, kReadFast, &PartDbSize, &MergeDbSize),
    AllShards("randomkey", 1, kRead, &PartRandomKey, &MergeRandomKey),
    AllShards("flushall", -1, kWrite, &PartFlush, &MergeFlush, &PlanFlush),
    AllShards("flushdb", -1, kWrite, &PartFlush, &MergeFlush, &PlanFlush),
};

constexpr CommandSpec kServerCommands[] = {
    InSession("save", 1, kNode | kFlagNoMulti, &HandleSave),
    InSession("bgsave", -1, kNode | kFlagNoMulti, &HandleBgSave),
    InSession("lastsave", 1, kAlways | kFlagFast, &HandleLastSave),
    InSession("role", 1, kFlagNoScript | kAlways | kFlagFast, &HandleRole),
    InSession("replicaof", 3, kNode | kAlways | kFlagNoMulti, &HandleReplicaOf),
    InSession("slaveof", 3, kNode | kAlways | kFlagNoMulti, &HandleReplicaOf),
    InSession("shutdown", -1, kNode | kAlways | kFlagNoMulti, &HandleShutdown),
    InSession("command", -1, kAlways | kFlagSubcommands, &HandleCommand),
    InSession("config", -2, kNode | kAlways | kFlagSubcommands, &HandleConfig),
    InSession("debug", -2, kNode | kAlways, &HandleDebug),
    InSession("latency", -2, kNode | kAlways | kFlagSubcommands, &HandleLatency),
    InSession("monitor", 1, kNode | kAlways, &HandleMonitor),
    InSession("slowlog", -2, kFlagAdmin | kAlways | kFlagSubcommands, &HandleSlowLog),
    InSession("kvstored", -2, kNode | kAlways | kFlagNoMulti, &HandleKvstored),
    InSession("cluster", -2, kAlways | kFlagSubcommands, &HandleClusterDisabled),
    InSession("readonly", 1, kAlways | kFlagFast, &HandleClusterDisabled),
    InSession("readwrite", 1, kAlways | kFlagFast, &HandleClusterDisabled),
    AllShards("time", 1, kAlways | kFlagFast, &PartTime, &MergeTime, &PlanTime),
    AllShards("info", -1, kAlways, &PartInfo, &MergeInfo),
};

// Open addressing over the sorted table, at most half full.
constexpr size_t kSlotCount = 512;
constexpr size_t kNameBytesMax = 16;
constexpr uint16_t kNoEntry = 0xffff;

struct Table {
  std::vector<CommandSpec> specs;
  std::array<uint16_t, kSlotCount> slots;
};

// Lower case in `lower`; false if no command has a name that long.
bool LowerName(std::string_view name, char* lower) {
  if (name.empty() || name.size() > kNameBytesMax) {
    return false;
  }
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    lower[i] = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return true;
}

size_t SlotOf(const char* lower, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<unsigned char>(lower[i])) * 0x100000001b3;
  }
  return (hash ^ (hash >> 32)) % kSlotCount;
}

Table MakeTable() {
  Table table;
  for (std::span<const CommandSpec> family :
       {std::span<const CommandSpec>(kStringCommands), std::span<const CommandSpec>(kBitCommands),
        std::span<const CommandSpec>(kKeyCommands), std::span<const CommandSpec>(kServerCommands),
        ConnectionCommands(), TransactionCommands(), MultiKeyCommands(), MoveCommands(),
        BitOpCommands(), LcsCommands()}) {
    table.specs.insert(table.specs.end(), family.begin(), family.end());
  }
  std::sort(table.specs.begin(), table.specs.end(), [](const CommandSpec& a, const CommandSpec& b) {
    return std::string_view(a.name) < b.name;
  });
  KVS_CHECK(table.specs.size() * 2 <= kSlotCount, "commands=%zu", table.specs.size());
  table.slots.fill(kNoEntry);
  for (size_t i = 0; i < table.specs.size(); ++i) {
    const char* name = table.specs[i].name;
    KVS_CHECK(i == 0 || std::strcmp(table.specs[i - 1].name, name) != 0, "two entries: %s", name);
    KVS_CHECK(std::strlen(name) <= kNameBytesMax, "name=%s", name);
    size_t slot = SlotOf(name, std::strlen(name));
    while (table.slots[slot] != kNoEntry) {
      slot = (slot + 1) % kSlotCount;
    }
    table.slots[slot] = static_cast<uint16_t>(i);
  }
  return table;
}

const Table& TheTable() {
  static const Table table = MakeTable();
  return table;
}

}  // namespace

std::span<const CommandSpec> CommandTable() {
  return TheTable().specs;
}

const CommandSpec* FindCommand(std::string_view name) {
  const Table& table = TheTable();
  char lower[kNameBytesMax];
  if (!LowerName(name, lower)) {
    return nullptr;
  }
  const std::string_view wanted(lower, name.size());
  for (size_t slot = SlotOf(lower, name.size()); table.slots[slot] != kNoEntry;
       slot = (slot + 1) % kSlotCount) {
    const CommandSpec& spec = table.specs[table.slots[slot]];
    if (wanted == spec.name) {
      return &spec;
    }
  }
  return nullptr;
}

}  // namespace kvstored::command
