// What all sessions of a node share: settings that CONFIG SET may change, and figures of each
// thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kvstored::command {

// Thread-safe.
class FrontSettings {
 public:
  std::atomic<int64_t> gate_timeout_us{10'000'000};  // replication.gate_timeout
  std::atomic<uint32_t> clients_max{10'000};         // maxclients
  std::atomic<int64_t> idle_timeout_us{0};           // timeout; 0 = never

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
};

// One writer, any reader: a plain load and store instead of a locked add.
class Figure {
 public:
  void Add(uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void Set(uint64_t value) {
    value_.store(value, std::memory_order_relaxed);
  }
  uint64_t value() const {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> value_{0};
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
  Figure calls;
  Figure nanoseconds;  // measured per batch of commands and split evenly
  Figure rejected;     // refused before they ran
  Figure failed;       // ran and answered an error
};

// Of one thread.
struct FrontFigures {
  explicit FrontFigures(size_t command_count) : commands(command_count) {
  }
  Figure connections;           // open now
  Figure connections_accepted;  // since the start
  Figure connections_refused;   // over clients_max
  Figure connections_dropped;   // closed by us: gate timeout, output or input limit, protocol error
  Figure commands_run;
  Figure blocked;              // sessions that wait for something now
  Figure commands_per_second;  // of the last 1.6 s
  Figure received_bytes_per_second;
  Figure sent_bytes_per_second;
  Figure error_replies;
  std::vector<CommandFigures> commands;  // as CommandTable()
};

}  // namespace kvstored::command
