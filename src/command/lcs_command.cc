// LCS: the step captures both values, the rest is computed when their shards are free again.
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "command/lcs.h"
#include "command/multi_key.h"
#include "command/numbers.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

struct LcsOptions {
  bool length = false;
  bool indices = false;
  bool with_match_bytes = false;
  int64_t match_bytes_min = 0;
};

// Empty, or the error.
std::string_view ParseLcsOptions(std::span<const std::string_view> words, LcsOptions* options) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = UpToNul(words[i]);
    if (EqualsIgnoreCase(word, "idx")) {
      options->indices = true;
    } else if (EqualsIgnoreCase(word, "len")) {
      options->length = true;
    } else if (EqualsIgnoreCase(word, "withmatchlen")) {
      options->with_match_bytes = true;
    } else if (EqualsIgnoreCase(word, "minmatchlen") && i + 1 < words.size()) {
      if (!ParseInt64(words[++i], &options->match_bytes_min)) {
        return kErrNotInteger;
      }
    } else {
      return kErrSyntax;
    }
  }
  if (options->indices && options->length) {
    return "ERR If you want both the length and indexes, please just use IDX.";
  }
  return {};
}

LcsOptions LcsOptionsOf(const TransactionCommand& command) {
  LcsOptions options;
  (void)ParseLcsOptions(command.pack.args().subspan(3), &options);  // the plan refused wrong ones
  return options;
}

const CapturedValue& CapturedAt(const TransactionCommand& command, uint32_t key_index) {
  for (const CommandPart& part : command.parts) {
    for (size_t i = 0; i < part.key_indices.size(); ++i) {
      if (part.key_indices[i] == key_index) {
        return part.values[i];
      }
    }
  }
  return command.parts[0].values[0];
}

bool PlanLcs(TransactionCommand& command, resp::Writer& out) {
  LcsOptions options;
  const std::string_view error = ParseLcsOptions(command.pack.args().subspan(3), &options);
  if (!error.empty()) {
    out.Error(error);
    return false;
  }
  command.parts[0].runs.resize(1);  // keeps the computation
  return true;
}

OpResult StepLcs(AtomicStep& step) {
  for (const Key& key : step.part->keys) {
    const store::Item* item = step.shard->Find(key);
    step.part->values.push_back(item == nullptr ? CapturedValue{} : Capture(*item));
  }
  return OpResult::kOk;
}

bool ComputeLcs(TransactionCommand& command) {
  std::unique_ptr<shard::Progress>& progress = command.parts[0].runs[0].progress;
  if (progress == nullptr) {
    const CapturedValue& a = CapturedAt(command, 0);
    const CapturedValue& b = CapturedAt(command, 1);
    if (Lcs::IsTooLarge(SizeOf(a), SizeOf(b))) {
      return true;
    }
    progress = std::make_unique<Lcs>(&a, &b, !LcsOptionsOf(command).length);
  }
  return static_cast<Lcs&>(*progress).Step();
}

void WriteRange(resp::Writer& out, uint64_t begin, uint64_t size_bytes) {
  out.Array(2);
  out.Integer(static_cast<int64_t>(begin));
  out.Integer(static_cast<int64_t>(begin + size_bytes - 1));
}

void WriteMatches(resp::Writer& out, const Lcs& lcs, const LcsOptions& options) {
  const auto is_wanted = [&options](const Lcs::Match& match) {
    return static_cast<int64_t>(match.size_bytes) >= options.match_bytes_min;
  };
  const auto count = std::count_if(lcs.matches().begin(), lcs.matches().end(), is_wanted);
  out.Map(2);
  out.Bulk("matches");
  out.Array(static_cast<uint64_t>(count));
  for (const Lcs::Match& match : lcs.matches()) {
    if (!is_wanted(match)) {
      continue;
    }
    out.Array(options.with_match_bytes ? 3 : 2);
    WriteRange(out, match.a_begin, match.size_bytes);
    WriteRange(out, match.b_begin, match.size_bytes);
    if (options.with_match_bytes) {
      out.Integer(static_cast<int64_t>(match.size_bytes));
    }
  }
  out.Bulk("len");
  out.Integer(static_cast<int64_t>(lcs.length()));
}

void FinishLcs(TransactionCommand& command, Reply* /*reply*/, resp::Writer& out) {
  const shard::Progress* progress = command.parts[0].runs[0].progress.get();
  if (progress == nullptr) {
    out.Error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    return;
  }
  const Lcs& lcs = static_cast<const Lcs&>(*progress);
  const LcsOptions options = LcsOptionsOf(command);
  if (options.indices) {
    WriteMatches(out, lcs, options);
  } else if (options.length) {
    out.Integer(static_cast<int64_t>(lcs.length()));
  } else {
    out.Bulk(lcs.text());
  }
}

constexpr AtomicSpec kLcs{&PlanLcs, nullptr, &StepLcs, &FinishLcs, &ComputeLcs};

constexpr std::array<CommandSpec, 1> kLcsCommands = {
    AtomicCommand("lcs", -3, kFlagReadonly, 2, 1, &kLcs),
};

}  // namespace

std::span<const CommandSpec> LcsCommands() {
  return kLcsCommands;
}

}  // namespace kvstored::command
