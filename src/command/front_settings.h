// What all sessions of a node share: settings that CONFIG SET may change, and figures of each
// thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "command/error_counts.h"
#include "command/latency_histogram.h"
#include "metrics/slot.h"

namespace kvstored::command {

// Who may send DEBUG (security.debug_command).
enum class DebugAccess : uint8_t { kNo, kLocal, kYes };

// Thread-safe.
class FrontSettings {
 public:
  std::atomic<int64_t> gate_timeout_us{10'000'000};    // replication.gate_timeout
  std::atomic<uint32_t> clients_max{10'000};           // maxclients
  std::atomic<int64_t> idle_timeout_us{0};             // timeout; 0 = never
  std::atomic<uint64_t> client_bytes_max{UINT64_MAX};  // client_memory: of all buffers together

  std::atomic<DebugAccess> debug_access{DebugAccess::kNo};

  // --- What is slow. ---
  static constexpr int64_t kNever = INT64_MAX;
  // Commands from here on go to the slow log; kNever: none.
  std::atomic<int64_t> slowlog_us{10'000};
  std::atomic<uint64_t> slowlog_entries_max{128};
  // Events from here on go to LATENCY; kNever: none.
  std::atomic<int64_t> latency_event_us{kNever};
  std::atomic<bool> latency_tracking{true};  // histograms of commands
  // The shortest time of a command that anybody keeps beyond its histogram.
  int64_t notable_us() const {
    return std::min(slowlog_us.load(std::memory_order_relaxed),
                    latency_event_us.load(std::memory_order_relaxed));
  }
  // Percentiles of INFO latencystats.
  void SetPercentiles(std::vector<double> percentiles);
  std::vector<double> percentiles() const;

  // The clients' password; empty: none is needed.
  void SetPassword(std::string password);
  bool NeedsPassword() const {
    return needs_password_.load(std::memory_order_acquire);  // partner: SetPassword
  }
  // Takes the same time wherever a wrong password differs.
  bool IsPassword(std::string_view offered) const;

 private:
  std::atomic<bool> needs_password_{false};
  mutable std::mutex mutex_;
  std::string password_;
  std::vector<double> percentiles_{50, 99, 99.9};
};

// How fast a total rises: the mean of the last 16 samples, as Redis makes its instantaneous
// figures.
class RateWindow {
 public:
  // About every 100 ms.
  void Sample(int64_t now_us, uint64_t total) {
    if (last_us_ != 0 && now_us > last_us_) {
      const uint64_t rate =
          (total - last_total_) * 1'000'000 / static_cast<uint64_t>(now_us - last_us_);
      sum_ += rate - samples_[next_];
      samples_[next_] = rate;
      next_ = (next_ + 1) % kSamples;
    }
    last_us_ = now_us;
    last_total_ = total;
  }
  uint64_t per_second() const {
    return sum_ / kSamples;
  }

 private:
  static constexpr size_t kSamples = 16;
  std::array<uint64_t, kSamples> samples_{};
  uint64_t sum_ = 0;
  size_t next_ = 0;
  int64_t last_us_ = 0;
  uint64_t last_total_ = 0;
};

// Of one command on one thread.
struct CommandFigures {
  metrics::Counter calls;
  metrics::Counter nanoseconds;  // see CommandClock
  metrics::Counter rejected;     // refused before they ran
  metrics::Counter failed;       // ran and answered an error
  LatencySlot latency;
};

// Of one thread.
struct FrontFigures {
  explicit FrontFigures(size_t command_count) : commands(command_count) {
  }
  metrics::Gauge connections;             // open now
  metrics::Counter connections_accepted;  // since the start
  metrics::Counter connections_refused;   // over clients_max
  // Closed by us: gate timeout, output or input limit, protocol error.
  metrics::Counter connections_dropped;
  metrics::Counter clients_evicted;  // closed for the memory that they held
  metrics::Gauge client_bytes;       // memory of their buffers
  metrics::Counter commands_run;
  metrics::Gauge blocked;              // sessions that wait for something now
  metrics::Gauge commands_per_second;  // of the last 1.6 s
  metrics::Gauge received_bytes_per_second;
  metrics::Gauge sent_bytes_per_second;
  metrics::Counter error_replies;
  metrics::Gauge monitors;  // sessions in MONITOR
  ErrorCounts errors;
  std::vector<CommandFigures> commands;  // as CommandTable()
};

}  // namespace kvstored::command
