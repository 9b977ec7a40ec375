// Bytes into commands: a batch is parsed ahead, the index lines of its keys are prefetched, then
// its commands run one after the other.
#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/session.h"
#include "store/store.h"

namespace kvstored::command {
namespace {

constexpr size_t kParsedAheadMax = 32;
// Unread bytes of one connection (Redis' client-query-buffer-limit).
constexpr size_t kInputBytesMax = size_t{1} << 30;
// The kernel's timer tells of commands that take so long; who wants to know of shorter ones has
// each timed by itself.
constexpr int64_t kCoarseEnoughUs = 10'000;

}  // namespace

// Fills the scratch with up to kParsedAheadMax commands. *bytes: behind the last whole one.
resp::ParseResult Session::ParseAhead(std::string_view input, size_t* bytes) {
  Scratch& scratch = front_->scratch();
  scratch.args.clear();
  scratch.commands.clear();
  *bytes = 0;
  const bool trusted = authenticated_ || !front_->set().settings().NeedsPassword();
  // A command may change what the next one is allowed: unauthenticated, one at a time.
  const size_t ahead_max = trusted ? kParsedAheadMax : 1;
  const resp::ParserLimits limits = trusted ? resp::ParserLimits{} : resp::kUnauthenticatedLimits;
  while (scratch.commands.size() < ahead_max) {
    const std::string_view rest = input.substr(*bytes);
    const size_t first = scratch.args.size();
    const resp::ParseResult result = parser_.Next(rest, limits, &scratch.args);
    if (result == resp::ParseResult::kNeedMore || result == resp::ParseResult::kError) {
      return result;
    }
    *bytes += parser_.command_bytes();
    if (result == resp::ParseResult::kEmpty) {
      if (!scratch.commands.empty()) {
        scratch.commands.back().end_bytes = *bytes;
      }
      continue;
    }
    CommandSlice& slice = scratch.commands.emplace_back();
    slice.first_arg = static_cast<uint32_t>(first);
    slice.arg_count = static_cast<uint32_t>(scratch.args.size() - first);
    slice.end_bytes = *bytes;
    if (rest[0] != '*') {
      break;  // the words of an inline command live until the parser's next call
    }
  }
  return resp::ParseResult::kCommand;
}

void Session::Prefetch() {
  Scratch& scratch = front_->scratch();
  const base::Digester& digester = *front_->set().options().digester;
  const uint32_t shard_count = front_->thread().shard_count();
  for (CommandSlice& slice : scratch.commands) {
    slice.spec = FindCommand(scratch.args[slice.first_arg]);
    if (slice.spec == nullptr || !IsArity(slice.spec->arity, slice.arg_count)) {
      continue;
    }
    const CommandSpec& spec = *slice.spec;
    const bool one_key =
        spec.reach == Reach::kKey || (spec.reach == Reach::kFanSum && slice.arg_count == 2);
    if (!one_key || slice.arg_count <= static_cast<uint32_t>(spec.first_key)) {
      continue;
    }
    slice.key.bytes = scratch.args[slice.first_arg + static_cast<uint32_t>(spec.first_key)];
    slice.key.digest = digester.Of(slice.key.bytes);
    slice.shard = base::ShardOf(slice.key.digest, shard_count);
    slice.keyed = true;
    if (scratch.commands.size() > 1 && front_->IsLocal(slice.shard)) {
      front_->thread().shard(slice.shard)->store()->Prefetch(slice.key.digest);
    }
  }
  // Second round: the index lines are on their way or here, so the items can be asked for.
  if (scratch.commands.size() > 1) {
    for (const CommandSlice& slice : scratch.commands) {
      if (slice.keyed && front_->IsLocal(slice.shard)) {
        front_->thread().shard(slice.shard)->store()->PrefetchItem(slice.key.digest);
      }
    }
  }
}

size_t Session::OnInput(std::span<const char> input) {
  if ((blocked_ & kBlockedClosing) != 0 || close_now_) {
    return input.size();
  }
  last_input_us_ = front_->now_us();
  if (input.size() > kInputBytesMax) {
    base::LogWarning(
        absl::StrFormat("client %s closed: %u bytes of unread input exceed the limit of %u", peer_,
                        input.size(), kInputBytesMax));
    CloseNow();
    return input.size();
  }
  in_input_ = true;
  size_t consumed = 0;
  CommandClock& clock = front_->clock();
  clock.Begin(front_->set().settings().notable_us() < kCoarseEnoughUs);
  Scratch& scratch = front_->scratch();
  while (blocked_ == 0) {
    size_t parsed_bytes = 0;
    const resp::ParseResult result =
        ParseAhead({input.data() + consumed, input.size() - consumed}, &parsed_bytes);
    Prefetch();
    size_t ran = 0;
    size_t timed = 0;
    size_t ran_bytes = 0;
    while (ran < scratch.commands.size() && blocked_ == 0) {
      const CommandSlice slice = scratch.commands[ran];
      const std::span<const std::string_view> args(scratch.args.data() + slice.first_arg,
                                                   slice.arg_count);
      timed_ = false;
      if (Run(slice, args) == RunResult::kBlocked) {
        break;
      }
      scratch.commands[ran].timed = timed_;
      ran_bytes = slice.end_bytes;
      ++ran;
      if (clock.IsDue()) {
        NoteTimes(timed, ran);
        timed = ran;
      }
    }
    if (ran > timed) {
      NoteTimes(timed, ran);
    }
    if (ran < scratch.commands.size()) {
      consumed += ran_bytes;
      parser_.Reset();  // what was parsed behind it is parsed again
      break;
    }
    consumed += parsed_bytes;
    if (result == resp::ParseResult::kError) {
      ProtocolError();
      break;
    }
    if (result == resp::ParseResult::kNeedMore) {
      break;
    }
  }
  in_input_ = false;
  CloseGroup();
  Pump();
  return (blocked_ & kBlockedClosing) != 0 || close_now_ ? input.size() : consumed;
}

void Session::ProtocolError() {
  static base::LogLimiter limiter(10'000'000);
  limiter.Warning(absl::StrFormat("client %s closed: %s", peer_, parser_.error()));
  front_->figures().connections_dropped.Add(1);
  Error("ERR " + parser_.error());
  CloseAfterReplies();
}

}  // namespace kvstored::command
