// CLIENT TRACKING TRACKINGINFO CACHING GETREDIR.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "command/client_command.h"
#include "command/front_thread.h"
#include "command/numbers.h"
#include "command/session.h"
#include "command/write_effects.h"

namespace kvstored::command {
namespace {

struct TrackingRequest {
  TrackingOptions options;
  std::vector<std::string_view> prefixes;
};

// Empty, or the error at which reading ended; what stood before it is in *request.
std::string_view ParseOptions(ClientArgs words, TrackingRequest* request) {
  TrackingOptions& options = request->options;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = UpToNul(words[i]);
    const bool more = i + 1 < words.size();
    int64_t redirect = 0;
    if (EqualsIgnoreCase(word, "redirect") && more) {
      if (options.redirect != 0) {
        return "ERR A client can only redirect to a single other client";
      }
      if (!ParseInt64(words[++i], &redirect)) {
        return kErrNotInteger;
      }
      if (redirect <= 0) {
        return "ERR The client ID you want redirect to does not exist";
      }
      options.redirect = static_cast<uint64_t>(redirect);
    } else if (EqualsIgnoreCase(word, "bcast")) {
      options.broadcast = true;
    } else if (EqualsIgnoreCase(word, "optin")) {
      options.opt_in = true;
    } else if (EqualsIgnoreCase(word, "optout")) {
      options.opt_out = true;
    } else if (EqualsIgnoreCase(word, "noloop")) {
      options.no_loop = true;
    } else if (EqualsIgnoreCase(word, "prefix") && more) {
      request->prefixes.push_back(words[++i]);
    } else {
      return kErrSyntax;
    }
  }
  return {};
}

bool Overlap(std::string_view a, std::string_view b) {
  return a.starts_with(b) || b.starts_with(a);
}

// Empty, or the error. A key shall be told once.
std::string JudgePrefixes(const TrackingState* state, const TrackingRequest& request) {
  constexpr std::string_view kEnd = "'. Prefixes for a single client must not overlap.";
  const std::vector<std::string_view>& prefixes = request.prefixes;
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const std::string begin = "ERR Prefix '" + std::string(UpToNul(prefixes[i]));
    for (const std::string& own : state != nullptr ? state->prefixes : std::set<std::string>()) {
      if (Overlap(own, prefixes[i])) {
        return (begin + "' overlaps with an existing prefix '").append(UpToNul(own)).append(kEnd);
      }
    }
    for (size_t j = i + 1; j < prefixes.size(); ++j) {
      if (Overlap(prefixes[i], prefixes[j])) {
        return (begin + "' overlaps with another provided prefix '")
            .append(UpToNul(prefixes[j]))
            .append(kEnd);
      }
    }
  }
  return {};
}

// Empty, or why the options cannot be in force together or after what is (null: nothing).
std::string JudgeOptions(const TrackingState* state, const TrackingRequest& request) {
  const TrackingOptions& options = request.options;
  if (!options.broadcast && !request.prefixes.empty()) {
    return "ERR PREFIX option requires BCAST mode to be enabled";
  }
  if (state != nullptr && state->options.broadcast != options.broadcast) {
    return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and "
           "then re-enabling it with a different mode.";
  }
  if (options.broadcast && (options.opt_in || options.opt_out)) {
    return "ERR OPTIN and OPTOUT are not compatible with BCAST";
  }
  if (options.opt_in && options.opt_out) {
    return "ERR You can't specify both OPTIN mode and OPTOUT mode";
  }
  if (state != nullptr &&
      ((options.opt_in && state->options.opt_out) || (options.opt_out && state->options.opt_in))) {
    return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and "
           "then re-enabling it with a different mode.";
  }
  return options.broadcast ? JudgePrefixes(state, request) : std::string();
}

// Its shards note from now on what changes; one letter if the client to be told is here.
void AskTracking(FrontThread& front, ClientArgs args, const Session* /*asker*/, std::string* part) {
  TrackingRequest request;
  (void)ParseOptions(args.subspan(3), &request);
  front.tracking().TurnOn();
  const Session* target = front.Find(request.options.redirect);
  if (target != nullptr && !target->is_closed()) {
    part->push_back('t');
  }
}

// What remains when the threads have answered.
std::string Apply(Session& session, ClientArgs args, std::span<const std::string> parts) {
  TrackingRequest request;
  std::string error(ParseOptions(args.subspan(3), &request));
  TrackingOptions& options = request.options;
  if (options.redirect != 0) {
    const auto found = std::find_if(parts.begin(), parts.end(),
                                    [](const std::string& part) { return !part.empty(); });
    if (found == parts.end()) {
      return "ERR The client ID you want redirect to does not exist";
    }
    options.redirect_thread = static_cast<uint32_t>(found - parts.begin());
  }
  if (!error.empty()) {
    return error;
  }
  if (EqualsIgnoreCase(args[2], "off")) {
    session.StopTracking();
    return {};
  }
  error = EqualsIgnoreCase(args[2], "on") ? JudgeOptions(session.tracking(), request)
                                          : std::string(kErrSyntax);
  if (error.empty()) {
    session.StartTracking(options, request.prefixes);
  }
  return error;
}

void MergeTracking(Session& session, ClientArgs args, std::span<const std::string> parts) {
  const std::string error = Apply(session, args, parts);
  session.UncountTracking();
  if (error.empty()) {
    session.out().Simple("OK");
  } else {
    session.out().Error(error);
  }
}

}  // namespace

void ClientTracking(Session& session, ClientArgs args) {
  TrackingRequest request;
  const bool off = EqualsIgnoreCase(args[2], "off");
  std::string error(ParseOptions(args.subspan(3), &request));
  if (error.empty() && !off && !EqualsIgnoreCase(args[2], "on")) {
    error = kErrSyntax;
  }
  if (error.empty() && !off) {
    error = JudgeOptions(session.tracking(), request);
  }
  if (request.options.redirect == 0 && !error.empty()) {
    session.out().Error(error);
  } else if (request.options.redirect == 0 && off) {
    session.StopTracking();
    session.out().Simple("OK");
  } else {
    session.CountTracking();
    session.Gather(args, &AskTracking, &MergeTracking);
  }
}

void ClientTrackingInfo(Session& session, ClientArgs /*args*/) {
  const TrackingState* state = session.tracking();
  std::vector<std::string_view> flags;
  const auto add_if = [&flags](bool condition, std::string_view flag) {
    if (condition) {
      flags.push_back(flag);
    }
  };
  add_if(state == nullptr, "off");
  if (state != nullptr) {
    const TrackingOptions& options = state->options;
    flags.push_back("on");
    add_if(options.broadcast, "bcast");
    add_if(options.opt_in, "optin");
    add_if(options.opt_in && state->caching, "caching-yes");
    add_if(options.opt_out, "optout");
    add_if(options.opt_out && state->caching, "caching-no");
    add_if(options.no_loop, "noloop");
    add_if(state->broken_redirect, "broken_redirect");
  }
  resp::Writer& out = session.out();
  out.Map(3);
  out.Bulk("flags");
  out.Set(flags.size());
  for (const std::string_view flag : flags) {
    out.Bulk(flag);
  }
  out.Bulk("redirect");
  out.Integer(session.TrackingRedirect());
  out.Bulk("prefixes");
  out.Array(state != nullptr ? state->prefixes.size() : 0);
  if (state != nullptr) {
    for (const std::string& prefix : state->prefixes) {
      out.Bulk(prefix);
    }
  }
}

void ClientCaching(Session& session, ClientArgs args) {
  TrackingState* state = session.tracking();
  std::string_view error;
  if (state == nullptr) {
    error =
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
        "OPTOUT mode enabled";
  } else if (EqualsIgnoreCase(args[2], "yes")) {
    error = state->options.opt_in
                ? std::string_view()
                : "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
  } else if (EqualsIgnoreCase(args[2], "no")) {
    error = state->options.opt_out
                ? std::string_view()
                : "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
  } else {
    error = kErrSyntax;
  }
  if (!error.empty()) {
    session.out().Error(error);
    return;
  }
  state->caching = true;
  session.out().Simple("OK");
}

void ClientGetRedirect(Session& session, ClientArgs /*args*/) {
  session.out().Integer(session.TrackingRedirect());
}

}  // namespace kvstored::command
