#include "command/set_options.h"

#include "command/numbers.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

struct ExpireWord {
  std::string_view word;
  ExpireUnit unit;
  bool absolute;
};
constexpr ExpireWord kExpireWords[] = {
    {"ex", ExpireUnit::kSeconds, false},
    {"px", ExpireUnit::kMilliseconds, false},
    {"exat", ExpireUnit::kSeconds, true},
    {"pxat", ExpireUnit::kMilliseconds, true},
};

const ExpireWord* FindExpireWord(std::string_view word) {
  for (const ExpireWord& entry : kExpireWords) {
    if (EqualsIgnoreCase(word, entry.word)) {
      return &entry;
    }
  }
  return nullptr;
}

// NX, XX, GET, KEEPTTL: SET only. False: not one of them or in conflict with what came before.
bool TakeSetWord(std::string_view word, SetOptions* options) {
  if (EqualsIgnoreCase(word, "nx") && !options->only_if_present) {
    options->only_if_absent = true;
  } else if (EqualsIgnoreCase(word, "xx") && !options->only_if_absent) {
    options->only_if_present = true;
  } else if (EqualsIgnoreCase(word, "get")) {
    options->get = true;
  } else if (EqualsIgnoreCase(word, "keepttl") && !options->has_expire) {
    options->keep_ttl = true;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool ParseSetOptions(std::span<const std::string_view> words, OptionsOf command,
                     SetOptions* options) {
  const bool is_set = command == OptionsOf::kSet;
  for (size_t i = 0; i < words.size(); ++i) {
    const ExpireWord* expire = FindExpireWord(words[i]);
    if (expire != nullptr) {
      // The same option twice counts as a repetition in Redis, another one as a conflict.
      const bool same = !options->has_expire ||
                        (options->unit == expire->unit && options->absolute == expire->absolute);
      if (!same || options->keep_ttl || options->persist || i + 1 == words.size()) {
        return false;
      }
      options->has_expire = true;
      options->unit = expire->unit;
      options->absolute = expire->absolute;
      options->expire_text = words[++i];
      continue;
    }
    if (is_set ? TakeSetWord(words[i], options)
               : EqualsIgnoreCase(words[i], "persist") && !options->has_expire) {
      options->persist = !is_set;
      continue;
    }
    return false;
  }
  return true;
}

std::optional<uint64_t> ExpiryOrReply(ShardCall& call, std::string_view text, ExpireUnit unit,
                                      bool absolute) {
  int64_t value = 0;
  if (!ParseInt64(text, &value)) {
    call.out->Error(kErrNotInteger);
    return std::nullopt;
  }
  bool valid = value > 0;
  if (unit == ExpireUnit::kSeconds) {
    valid = valid && !__builtin_mul_overflow(value, int64_t{1000}, &value);
  }
  if (!absolute) {
    valid = valid && AddInt64(value, static_cast<int64_t>(call.shard->now_ms()), &value);
  }
  if (!valid) {
    WriteExpireTimeError(call);
    return std::nullopt;
  }
  return static_cast<uint64_t>(value);
}

}  // namespace kvstored::command
