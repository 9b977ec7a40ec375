#include "command/latency_report.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_format.h"

namespace kvstored::command {
namespace {

constexpr size_t kColumns = 80;
constexpr int kRows = 4;
constexpr std::string_view kLevels = "_o#";  // of one row, from low to high

// How long ago, written from top to bottom below its column.
std::string AgeLabel(int64_t age_s) {
  if (age_s < 60) {
    return absl::StrFormat("%ds", age_s);
  }
  if (age_s < 3600) {
    return absl::StrFormat("%dm", age_s / 60);
  }
  return age_s < 86400 ? absl::StrFormat("%dh", age_s / 3600)
                       : absl::StrFormat("%dd", age_s / 86400);
}

struct Range {
  int64_t low = 0;
  int64_t high = 0;
};

Range RangeOf(std::span<const LatencyLog::Sample> samples) {
  Range range{.low = samples[0].ms, .high = samples[0].ms};
  for (const LatencyLog::Sample& sample : samples) {
    range.low = std::min(range.low, sample.ms);
    range.high = std::max(range.high, sample.ms);
  }
  return range;
}

char Cell(const Range& range, int64_t ms, int row) {
  const int level_count = static_cast<int>(kLevels.size());
  const int step_count = kRows * level_count;
  const int64_t span = std::max<int64_t>(1, range.high - range.low);
  const auto step = std::min<int64_t>((ms - range.low) * step_count / span, step_count - 1);
  const int64_t level = step - int64_t{kRows - 1 - row} * level_count;
  if (level < 0) {
    return ' ';
  }
  return level < level_count ? kLevels[static_cast<size_t>(level)] : '|';
}

std::string Columns(const Range& range, std::span<const LatencyLog::Sample> samples,
                    int64_t unix_s) {
  std::string text;
  for (int row = 0; row < kRows; ++row) {
    for (const LatencyLog::Sample& sample : samples) {
      text += Cell(range, sample.ms, row);
    }
    text += '\n';
  }
  text.append(samples.size(), ' ').append("\n");
  size_t label_rows = 0;
  std::vector<std::string> labels;
  for (const LatencyLog::Sample& sample : samples) {
    labels.push_back(AgeLabel(unix_s - sample.unix_s));
    label_rows = std::max(label_rows, labels.back().size());
  }
  for (size_t row = 0; row < label_rows; ++row) {
    for (const std::string& label : labels) {
      text += row < label.size() ? label[row] : ' ';
    }
    text += '\n';
  }
  return text;
}

// One event among those of the report.
std::string EventLine(int number, const std::string& name, const LatencyLog::Event& event,
                      int64_t unix_s) {
  const auto count = static_cast<int64_t>(event.samples.size());
  int64_t sum_ms = 0;
  for (const LatencyLog::Sample& sample : event.samples) {
    sum_ms += sample.ms;
  }
  const int64_t average_ms = sum_ms / count;
  int64_t deviation_ms = 0;
  for (const LatencyLog::Sample& sample : event.samples) {
    deviation_ms += std::abs(sample.ms - average_ms);
  }
  const int64_t age_s = std::max<int64_t>(1, unix_s - event.samples.front().unix_s);
  return absl::StrFormat(
      "%d. %s: %d latency spikes (average %dms, mean deviation %dms, period %.2f sec). Worst all "
      "time event %dms.\n",
      number, name, count, average_ms, deviation_ms / count,
      static_cast<double>(age_s) / static_cast<double>(count), event.longest_ms);
}

std::string Advice(const DoctorFacts& facts) {
  std::string text;
  if (facts.slowlog_us < 0) {
    text += absl::StrFormat(
        "- There are latency issues with potentially slow commands you are using. Try to enable "
        "the Slow Log Redis feature using the command 'CONFIG SET slowlog-log-slower-than %d'. If "
        "the Slow log is disabled Redis is not able to log slow commands execution for you.\n",
        facts.threshold_ms * 1000);
  } else if (facts.slowlog_us / 1000 > facts.threshold_ms) {
    text += absl::StrFormat(
        "- Your current Slow Log configuration only logs events that are slower than your "
        "configured latency monitor threshold. Please use 'CONFIG SET slowlog-log-slower-than "
        "%d'.\n",
        facts.threshold_ms * 1000);
  }
  return text +
         "- Check your Slow Log to understand what are the commands you are running which are too "
         "slow to execute. Please check https://redis.io/commands/slowlog for more information.\n";
}

}  // namespace

std::string LatencyGraph(std::string_view name, const LatencyLog::Event& event, int64_t unix_s) {
  const Range range = RangeOf(event.samples);
  std::string text = absl::StrFormat("%s - high %d ms, low %d ms (all time high %d ms)\n", name,
                                     range.high, range.low, event.longest_ms);
  text.append(kColumns, '-').append("\n");
  std::span<const LatencyLog::Sample> left = event.samples;
  while (!left.empty()) {
    const size_t count = std::min(left.size(), kColumns);
    text += Columns(range, left.first(count), unix_s);
    left = left.subspan(count);
    if (!left.empty()) {
      text += '\n';
    }
  }
  return text;
}

std::string LatencyDoctor(const DoctorFacts& facts) {
  if (facts.events.empty() && facts.threshold_ms == 0) {
    return "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis "
           "instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in "
           "order to enable it. If we weren't in a deep space mission I'd suggest to take a look "
           "at https://redis.io/topics/latency-monitor.\n";
  }
  if (facts.events.empty()) {
    return "Dave, no latency spike was observed during the lifetime of this Redis instance, not in "
           "the slightest bit. I honestly think you ought to sit down calmly, take a stress pill, "
           "and think things over.\n";
  }
  std::string text =
      "Dave, I have observed latency spikes in this Redis instance. You don't mind talking about "
      "it, do you Dave?\n\n";
  int number = 0;
  for (const auto& [name, event] : facts.events) {
    text += EventLine(++number, name, event, facts.unix_s);
  }
  if (facts.events.contains("command")) {
    return text + "\nI have a few advices for you:\n\n" + Advice(facts);
  }
  return text +
         "\nWhile there are latency events logged, I'm not able to suggest any easy fix. Please "
         "use the Redis community to get some help, providing this report in your help request.\n";
}

}  // namespace kvstored::command
