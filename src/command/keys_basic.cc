// TYPE OBJECT MEMORY DEL UNLINK EXISTS TOUCH.
#include <string>

#include "command/keys.h"
#include "command/numbers.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

// Redis stores short strings inside the object's header.
constexpr uint64_t kEmbeddedBytesMax = 44;
// What an item costs beside its bytes: header, index entry, expiry.
constexpr uint64_t kItemOverheadBytes = 16 + 11;
constexpr uint64_t kExpiryBytes = 8;

constexpr std::string_view kErrNoFrequency =
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "
    "when switching between policies at runtime LRU and LFU data will take some time to adjust.";
constexpr std::string_view kErrNoIdleTime =
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when "
    "switching between policies at runtime LRU and LFU data will take some time to adjust.";

std::string_view EncodingOf(const store::Item& item) {
  int64_t number = 0;
  if (!item.is_chain() && ParseInt64(item.value(), &number)) {
    return "int";
  }
  return item.value_bytes() <= kEmbeddedBytesMax ? "embstr" : "raw";
}

}  // namespace

OpResult HandleType(ShardCall& call) {
  call.out->Simple(call.shard->Look(call.keys[0]) == nullptr ? "none" : "string");
  return OpResult::kOk;
}

// OBJECT ENCODING, FREQ, IDLETIME, REFCOUNT.
OpResult HandleObject(ShardCall& call) {
  const store::Item* item = call.shard->Look(call.keys[0]);
  const std::string_view subcommand = call.args[1];
  const bool counts_frequency = store::CountsFrequency(call.shard->store()->eviction());
  if (item == nullptr) {
    call.out->Null();
  } else if (EqualsIgnoreCase(subcommand, "encoding")) {
    call.out->Bulk(EncodingOf(*item));
  } else if (EqualsIgnoreCase(subcommand, "refcount")) {
    call.out->Integer(1);
  } else if (EqualsIgnoreCase(subcommand, "freq")) {
    if (counts_frequency) {
      call.out->Integer(call.shard->store()->Frequency(*item));
    } else {
      call.out->Error(kErrNoFrequency);
    }
  } else if (counts_frequency) {
    call.out->Error(kErrNoIdleTime);
  } else {
    call.out->Integer(static_cast<int64_t>(call.shard->store()->IdleUs(*item) / 1'000'000));
  }
  return OpResult::kOk;
}

// MEMORY USAGE key [SAMPLES count].
OpResult HandleMemory(ShardCall& call) {
  // SAMPLES is for nested values, which there are none of: checked and not used.
  for (size_t i = 3; i < call.args.size(); i += 2) {
    int64_t samples = 0;
    if (!EqualsIgnoreCase(call.args[i], "samples") || i + 1 == call.args.size()) {
      call.out->Error(kErrSyntax);
      return OpResult::kOk;
    }
    if (!ParseInt64(call.args[i + 1], &samples)) {
      call.out->Error(kErrNotInteger);
      return OpResult::kOk;
    }
    if (samples < 0) {
      call.out->Error(kErrSyntax);
      return OpResult::kOk;
    }
  }
  const store::Item* item = call.shard->Peek(call.keys[0]);
  if (item == nullptr) {
    call.out->Null();
    return OpResult::kOk;
  }
  const uint64_t bytes = kItemOverheadBytes + (item->expiry_ms() == 0 ? 0 : kExpiryBytes) +
                         item->key().size() + item->value_bytes();
  call.out->Integer(static_cast<int64_t>(bytes));
  return OpResult::kOk;
}

OpResult HandleDel(ShardCall& call) {
  // Counted first: a reservation covers all deletes of this shard or none is made.
  uint32_t present = 0;
  uint64_t bytes = 0;
  for (const Key& key : call.keys) {
    if (call.shard->Peek(key) != nullptr) {
      ++present;
      bytes += key.bytes.size();
    }
  }
  int64_t deleted = 0;
  if (present > 0) {
    const OpResult reserved = call.shard->ReserveLog(present, bytes, call.force);
    if (reserved != OpResult::kOk) {
      return reserved;
    }
    for (const Key& key : call.keys) {
      if (call.shard->Peek(key) != nullptr) {  // a key named twice is deleted once
        call.shard->Delete(key);
        ++deleted;
      }
    }
  }
  call.out->Integer(deleted);
  return OpResult::kOk;
}

OpResult HandleExists(ShardCall& call) {
  const bool uses = EqualsIgnoreCase(call.args[0], "touch");
  int64_t present = 0;
  for (const Key& key : call.keys) {
    const store::Item* item = call.shard->Look(key);
    if (item != nullptr && uses) {
      call.shard->store()->NoteUse(*item);  // also after CLIENT NO-TOUCH
    }
    present += item != nullptr ? 1 : 0;
  }
  call.out->Integer(present);
  return OpResult::kOk;
}

}  // namespace kvstored::command
