// LATENCY.
#include <string>
#include <utility>
#include <vector>

#include "command/front_thread.h"
#include "command/latency_report.h"
#include "command/numbers.h"
#include "command/session.h"
#include "command/subcommand.h"
#include "command/watch_commands.h"

namespace kvstored::command {
namespace {

using LatencyArgs = std::span<const std::string_view>;

int64_t UnixSeconds(Session& session) {
  return session.front().set().options().clock->WallUs() / 1'000'000;
}

void LatencyLatest(Session& session, LatencyArgs /*args*/) {
  const auto events = session.front().set().latency_log().All();
  session.out().Array(events.size());
  for (const auto& [name, event] : events) {
    session.out().Array(4);
    session.out().Bulk(name);
    session.out().Integer(event.samples.back().unix_s);
    session.out().Integer(event.samples.back().ms);
    session.out().Integer(event.longest_ms);
  }
}

void LatencyHistory(Session& session, LatencyArgs args) {
  const auto events = session.front().set().latency_log().All();
  const auto found = events.find(std::string(args[2]));
  if (found == events.end()) {
    session.out().Array(0);
    return;
  }
  session.out().Array(found->second.samples.size());
  for (const LatencyLog::Sample& sample : found->second.samples) {
    session.out().Array(2);
    session.out().Integer(sample.unix_s);
    session.out().Integer(sample.ms);
  }
}

void LatencyReset(Session& session, LatencyArgs args) {
  session.out().Integer(
      static_cast<int64_t>(session.front().set().latency_log().Reset(args.subspan(2))));
}

void LatencyGraphOf(Session& session, LatencyArgs args) {
  const auto events = session.front().set().latency_log().All();
  const auto found = events.find(std::string(args[2]));
  if (found == events.end()) {
    session.out().Error("ERR No samples available for event '" + std::string(UpToNul(args[2])) +
                        "'");
    return;
  }
  session.out().Verbatim(LatencyGraph(found->first, found->second, UnixSeconds(session)));
}

void LatencyDoctorOf(Session& session, LatencyArgs /*args*/) {
  const FrontSettings& settings = session.front().set().settings();
  const int64_t event_us = settings.latency_event_us.load(std::memory_order_relaxed);
  const int64_t slowlog_us = settings.slowlog_us.load(std::memory_order_relaxed);
  session.out().Verbatim(
      LatencyDoctor({.events = session.front().set().latency_log().All(),
                     .unix_s = UnixSeconds(session),
                     .threshold_ms = event_us == FrontSettings::kNever ? 0 : event_us / 1000,
                     .slowlog_us = slowlog_us == FrontSettings::kNever ? -1 : slowlog_us}));
}

// For each octave that has calls, those up to its end.
void WriteOctaves(resp::Writer& out, const LatencyCounts& counts) {
  std::vector<std::pair<int64_t, int64_t>> octaves;  // its end in microseconds, calls up to it
  uint64_t calls = 0;
  for (uint32_t octave = 0; octave < kLatencyOctaves; ++octave) {
    const uint64_t before = calls;
    for (uint32_t step = 0; step < kLatencySteps; ++step) {
      calls += counts[octave * kLatencySteps + step];
    }
    if (calls != before) {
      const uint32_t last_step = octave * kLatencySteps + kLatencySteps - 1;
      octaves.emplace_back(static_cast<int64_t>(LatencyHistogram::EndNs(last_step) / 1000),
                           static_cast<int64_t>(calls));
    }
  }
  out.Map(octaves.size());
  for (const auto& [end_us, count] : octaves) {
    out.Integer(end_us);
    out.Integer(count);
  }
}

// Commands of the table that were asked for, without those that were never called.
struct CalledCommand {
  const CommandSpec* spec;
  LatencyCounts counts;
  uint64_t calls;
};

void LatencyHistogramOf(Session& session, LatencyArgs args) {
  std::vector<CalledCommand> called;
  const auto add = [&](const CommandSpec& spec) {
    CalledCommand command{&spec, session.front().set().LatencyOf(spec), 0};
    for (const uint64_t count : command.counts) {
      command.calls += count;
    }
    if (command.calls > 0) {
      called.push_back(command);
    }
  };
  for (const std::string_view name : args.subspan(2)) {
    if (const CommandSpec* spec = FindCommand(name); spec != nullptr) {
      add(*spec);
    }
  }
  for (const CommandSpec& spec : CommandTable()) {
    if (args.size() == 2) {
      add(spec);
    }
  }
  resp::Writer& out = session.out();
  out.Map(called.size());
  for (const CalledCommand& command : called) {
    out.Bulk(command.spec->name);
    out.Map(2);
    out.Bulk("calls");
    out.Integer(static_cast<int64_t>(command.calls));
    out.Bulk("histogram_usec");
    WriteOctaves(out, command.counts);
  }
}

void LatencyHelp(Session& session, LatencyArgs /*args*/) {
  constexpr std::string_view kHistogram =
      "    Return a cumulative distribution of latencies in the format of a histogram for the "
      "specified command names.";
  WriteHelp(session.out(), "LATENCY",
            {"DOCTOR", "    Return a human readable latency analysis report.", "GRAPH <event>",
             "    Return an ASCII latency graph for the <event> class.", "HISTORY <event>",
             "    Return time-latency samples for the <event> class.", "LATEST",
             "    Return the latest latency samples for all events.", "RESET [<event> ...]",
             "    Reset latency data of one or more <event> classes.",
             "    (default: reset all data for all event classes)", "HISTOGRAM [COMMAND ...]",
             kHistogram, "    If no commands are specified then all histograms are replied."});
}

struct LatencySubcommand {
  std::string_view name;
  void (*run)(Session& session, LatencyArgs args);
};

// Their numbers of arguments are in subcommand.cc, which refuses all others.
constexpr LatencySubcommand kLatencySubcommands[] = {
    {"doctor", &LatencyDoctorOf},       {"graph", &LatencyGraphOf},   {"help", &LatencyHelp},
    {"histogram", &LatencyHistogramOf}, {"history", &LatencyHistory}, {"latest", &LatencyLatest},
    {"reset", &LatencyReset},
};

}  // namespace

void HandleLatency(Session& session, LatencyArgs args) {
  for (const LatencySubcommand& subcommand : kLatencySubcommands) {
    if (EqualsIgnoreCase(args[1], subcommand.name)) {
      subcommand.run(session, args);
      return;
    }
  }
}

}  // namespace kvstored::command
