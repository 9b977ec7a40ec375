#include "command/keyspace.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/random.h"
#include "command/glob.h"
#include "command/numbers.h"
#include "command/part_codec.h"
#include "command/session.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

constexpr uint32_t kScanShardBits = 8;
constexpr uint32_t kScanPrefixBits = 48;
constexpr uint32_t kScanCountDefault = 10;
// A COUNT above this does not make one step longer: a tick must stay short.
constexpr uint32_t kScanCountMax = 100'000;
// Items looked at by KEYS in one call of Store::Scan.
constexpr uint32_t kKeysStep = 4096;
// RANDOMKEY gives up on a shard where nearly all items have expired.
constexpr int kRandomTries = 100;

struct ScanOptions {
  std::optional<std::string_view> pattern;
  uint32_t count = kScanCountDefault;
  bool other_type = false;  // TYPE names something that no key is
};

// "*" means all, the empty key too, which the glob itself would not match.
bool PatternHolds(std::string_view pattern, std::string_view key) {
  return pattern == "*" || GlobMatch(pattern, key);
}

// Empty, or the error. `words` is what follows the cursor.
std::string_view ParseScanOptions(std::span<const std::string_view> words, ScanOptions* options) {
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) {
      return kErrSyntax;
    }
    const std::string_view value = words[i + 1];
    if (EqualsIgnoreCase(words[i], "count")) {
      int64_t count = 0;
      if (!ParseInt64(value, &count)) {
        return kErrNotInteger;
      }
      if (count < 1) {
        return kErrSyntax;
      }
      options->count = static_cast<uint32_t>(std::min<int64_t>(count, kScanCountMax));
    } else if (EqualsIgnoreCase(words[i], "match")) {
      options->pattern = value;
    } else if (EqualsIgnoreCase(words[i], "type")) {
      options->other_type = !EqualsIgnoreCase(value, "string");
    } else {
      return kErrSyntax;
    }
  }
  return {};
}

// What a visit of Store::Scan collects.
struct Collector {
  shard::Shard* shard;
  std::string_view pattern;
  bool nothing;
  std::string* part;
};

void Collect(void* context, const store::Item& item) {
  Collector& collector = *static_cast<Collector*>(context);
  if (!collector.nothing && !collector.shard->IsExpired(item) &&
      PatternHolds(collector.pattern, item.key())) {
    PutString(collector.part, item.key());
  }
}

// The keys of all parts as one array; `skip` numbers stand before the keys of each part.
void WriteKeys(resp::Writer& out, std::span<const std::string> parts, int skip) {
  uint64_t count = 0;
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) {
      out.Array(count);
    }
    for (const std::string& part : parts) {
      PartReader reader(part);
      for (int i = 0; i < skip; ++i) {
        reader.Number();
      }
      while (!reader.empty()) {
        const std::string_view key = reader.String();
        if (pass == 0) {
          ++count;
        } else {
          out.Bulk(key);
        }
      }
    }
  }
}

// Not for secrets: spreads RANDOMKEY. One generator a thread, so that no shard waits for another.
base::Random& ThreadRandom() {
  thread_local base::Random random(base::SystemRandom());
  return random;
}

}  // namespace

uint64_t PackScanCursor(uint32_t shard, uint64_t store_cursor) {
  return ((store_cursor >> (64 - kScanPrefixBits)) << kScanShardBits) | shard;
}

void UnpackScanCursor(uint64_t cursor, uint32_t* shard, uint64_t* store_cursor) {
  *shard = static_cast<uint32_t>(cursor & ((1u << kScanShardBits) - 1));
  *store_cursor = (cursor >> kScanShardBits) << (64 - kScanPrefixBits);
}

OpResult PartKeys(PartCall& call) {
  call.shard->NoteApplied();
  Collector collector{call.shard, call.args[1], false, call.part};
  uint64_t cursor = 0;
  do {
    cursor = call.shard->store()->Scan(cursor, kKeysStep, &Collect, &collector);
  } while (cursor != 0);
  return OpResult::kOk;
}

void MergeKeys(Session& session, std::span<const std::string_view> /*args*/,
               std::span<const std::string> parts) {
  WriteKeys(session.out(), parts, 0);
}

bool PlanScan(Session& session, std::span<const std::string_view> args, uint32_t shard_count,
              int32_t* only_shard) {
  uint64_t cursor = 0;
  if (!ParseCursor(args[1], &cursor)) {
    session.out().Error("ERR invalid cursor");
    return false;
  }
  ScanOptions options;
  if (const std::string_view error = ParseScanOptions(args.subspan(2), &options); !error.empty()) {
    session.out().Error(error);
    return false;
  }
  uint32_t shard = 0;
  uint64_t store_cursor = 0;
  UnpackScanCursor(cursor, &shard, &store_cursor);
  if (shard >= shard_count || (cursor >> (kScanShardBits + kScanPrefixBits)) != 0) {
    // A number we never gave out: as in Redis it is no error, and here it is the end.
    session.out().Array(2);
    session.out().Bulk("0");
    session.out().Array(0);
    return false;
  }
  *only_shard = static_cast<int32_t>(shard);
  return true;
}

OpResult PartScan(PartCall& call) {
  uint64_t cursor = 0;
  ScanOptions options;
  if (!ParseCursor(call.args[1], &cursor) ||
      !ParseScanOptions(call.args.subspan(2), &options).empty()) {
    return OpResult::kOk;  // PlanScan refused these already
  }
  uint32_t shard = 0;
  uint64_t store_cursor = 0;
  UnpackScanCursor(cursor, &shard, &store_cursor);
  call.shard->NoteApplied();
  std::string keys;
  Collector collector{call.shard, options.pattern.value_or("*"), options.other_type, &keys};
  uint64_t next = call.shard->store()->Scan(store_cursor, options.count, &Collect, &collector);
  if (next != 0) {
    next = PackScanCursor(shard, next);
  } else if (shard + 1 < call.shard->shard_count()) {
    next = PackScanCursor(shard + 1, 0);
  }
  PutNumber(call.part, next);
  call.part->append(keys);
  return OpResult::kOk;
}

void MergeScan(Session& session, std::span<const std::string_view> /*args*/,
               std::span<const std::string> parts) {
  session.out().Array(2);
  session.out().Bulk(std::to_string(PartReader(parts[0]).Number()));
  WriteKeys(session.out(), parts, 1);
}

OpResult PartDbSize(PartCall& call) {
  call.shard->NoteApplied();
  PutNumber(call.part, call.shard->store()->size());
  return OpResult::kOk;
}

void MergeDbSize(Session& session, std::span<const std::string_view> /*args*/,
                 std::span<const std::string> parts) {
  uint64_t count = 0;
  for (const std::string& part : parts) {
    count += PartReader(part).Number();
  }
  session.out().Integer(static_cast<int64_t>(count));
}

OpResult PartRandomKey(PartCall& call) {
  call.shard->NoteApplied();
  store::Store* store = call.shard->store();
  for (int i = 0; i < kRandomTries; ++i) {
    const store::Item* item = store->Random(ThreadRandom().Next());
    if (item == nullptr) {
      break;
    }
    if (!call.shard->IsExpired(*item)) {
      PutNumber(call.part, store->size());
      PutString(call.part, item->key());
      break;
    }
  }
  return OpResult::kOk;
}

void MergeRandomKey(Session& session, std::span<const std::string_view> /*args*/,
                    std::span<const std::string> parts) {
  // Each shard is drawn with the weight of its items: the newest candidate replaces with
  // probability own / all so far.
  uint64_t total = 0;
  std::optional<std::string_view> chosen;
  for (const std::string& part : parts) {
    if (part.empty()) {
      continue;
    }
    PartReader reader(part);
    const uint64_t weight = std::max<uint64_t>(reader.Number(), 1);
    total += weight;
    if (ThreadRandom().Below(total) < weight) {
      chosen = reader.String();
    }
  }
  if (chosen) {
    session.out().Bulk(*chosen);
  } else {
    session.out().Null();
  }
}

bool PlanFlush(Session& session, std::span<const std::string_view> args, uint32_t /*shard_count*/,
               int32_t* /*only_shard*/) {
  const bool valid = args.size() == 1 || (args.size() == 2 && (EqualsIgnoreCase(args[1], "sync") ||
                                                               EqualsIgnoreCase(args[1], "async")));
  if (!valid) {
    session.out().Error(kErrSyntax);
  }
  return valid;
}

OpResult PartFlush(PartCall& call) {
  const OpResult reserved = call.shard->ReserveLog(1, 0, call.force);
  if (reserved == OpResult::kOk) {
    call.shard->Flush();
  }
  return reserved;
}

void MergeFlush(Session& session, std::span<const std::string_view> /*args*/,
                std::span<const std::string> /*parts*/) {
  session.out().Simple("OK");
}

}  // namespace kvstored::command
